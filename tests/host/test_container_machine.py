"""What podman on this machine can do: judged from facts, and looked at through a podman that was written for it."""

from __future__ import annotations

import concurrent.futures
import json
import os
from pathlib import Path
from typing import Any

import pytest

from host.container.choice import choose
from host.container.machine import Machine, fatal, is_known_to_leak, lacks, look, with_info
from host.container.podman import Podman
from host.context import Context
from host.errors import CommandError

PM = 1001
GOOD = Machine(
    PM,
    user="pm",
    podman="/usr/bin/podman",
    version=(4, 3),
    runtime="runc",
    has_runc=True,
    controllers=frozenset(["cpu", "memory", "pids"]),
    ids=65_537,
    first_id=100_000,
    slirp4netns="/usr/bin/slirp4netns",
)
INFO: dict[str, Any] = {
    "host": {
        "cgroupVersion": "v1",
        "cgroupControllers": [],
        "idMappings": {
            "uidmap": [
                {"container_id": 0, "host_id": 1001, "size": 1},
                {"container_id": 1, "host_id": 200000, "size": 65536},
            ]
        },
        "logDriver": "k8s-file",
        "ociRuntime": {"name": "crun"},
        "security": {"selinuxEnabled": False},
        "slirp4netns": {"executable": "/usr/bin/slirp4netns"},
    },
    "registries": {},
    "store": {"graphDriverName": "vfs"},
    "version": {"Version": "4.3.1"},
}
"""Of what `podman info --format=json` says, what is read."""


def a_program(path: Path, says: str, status: int = 0) -> None:
    """One that says just this."""
    path.with_suffix(".words").write_text(says)
    stream = "1" if status == 0 else "2"
    path.write_text(f"#!/bin/sh\n/bin/cat {path.with_suffix('.words')} >&{stream}\nexit {status}\n")
    path.chmod(0o755)


def a_podman(directory: Path, says: str, status: int = 0) -> dict[str, str]:
    """An environment whose podman says just this."""
    directory.mkdir()
    a_program(directory / "podman", says, status)
    return {"PATH": str(directory), "HOME": str(directory), "USER": "pm"}


def test_a_good_machine_lacks_nothing() -> None:
    """The control of all that follows."""
    assert list(lacks(GOOD)) == []


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        ({"uid": 0}, "ordinary user"),
        ({"podman": ""}, "apt-get install podman"),
        ({"version": (3, 0)}, "podman is 3.0; needed is 4.3"),
        ({"version": (4, 2)}, "podman is 4.2; needed is 4.3"),
        ({"ids": 1}, "--add-subuids 100000-165535 --add-subgids 100000-165535 pm"),
        ({"tun": "/dev/net/tun is missing"}, "modprobe tun"),
        ({"slirp4netns": ""}, "apt-get install slirp4netns"),
        ({"slirp4netns": "", "version": (5, 4)}, "apt-get install passt"),
        ({"cgroups": 1, "runtime": "crun", "has_runc": False}, "apt-get install runc"),
        ({"hard_files": 256}, "256 open files"),
        ({"hard_processes": 100}, "100 processes"),
        ({"runtime_directory": "XDG_RUNTIME_DIR is /run/user/0"}, "log in as this user"),
        ({"addresses": "this machine's own addresses cannot be learned"}, "apt-get install iproute2"),
        ({"namespaces": "/proc/sys/user/max_user_namespaces is 0"}, "user namespace"),
        ({"refusal": "stat /x: not a directory"}, "stat /x: not a directory"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(worse: dict[str, Any], words: str) -> None:
    """Each of these alone keeps a container from running."""
    found = fatal(GOOD._replace(**worse))

    assert len(found) == 1
    assert words in found[0].text


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        ({"driver": "vfs"}, "storage.conf"),
        ({"cgroups": 1, "controllers": frozenset()}, "memory and pids"),
        ({"controllers": frozenset(["pids"])}, "limits on memory cannot"),
        ({"is_shared": False}, "--make-rshared"),
        ({"runtime_release": "1.1.5+ds1"}, "CVE-2025-31133"),
    ],
)
def test_what_is_only_worse_is_told_and_no_obstacle(worse: dict[str, Any], words: str) -> None:
    """A container runs all the same."""
    machine = GOOD._replace(**worse)

    assert fatal(machine) == []
    assert [words in lack.text for lack in lacks(machine)] == [True]


@pytest.mark.parametrize(
    ("release", "leaks"),
    [
        *[(old, True) for old in ("1.0.0", "1.1.5+ds1", "1.1.99", "1.2.7", "1.3.2", "1.3.0-rc.1")],
        *[(new, False) for new in ("1.2.8", "1.2.9", "1.3.3", "1.4.0", "2.0.0", "", "git")],
    ],
)
def test_an_old_runc_is_named(release: str, leaks: bool) -> None:
    """Each series was mended with a release of its own; of crun these are not known."""
    assert is_known_to_leak(release) == leaks
    assert bool(list(lacks(GOOD._replace(runtime_release=release)))) == leaks
    assert list(lacks(GOOD._replace(runtime="crun", runtime_release=release))) == []


def test_podman_is_told_to_use_runc_only_where_crun_would_refuse() -> None:
    """Otherwise podman's own choice stands."""
    assert GOOD._replace(runtime="crun", cgroups=1).words == ("--runtime=runc",)
    assert GOOD._replace(runtime="crun", cgroups=2).words == ()
    assert GOOD._replace(runtime="runc", cgroups=1).words == ()


def test_the_way_out_is_pasta_from_podman_5_on() -> None:
    """Before that podman knows slirp4netns alone."""
    both = GOOD._replace(pasta="/usr/bin/pasta")
    assert (GOOD.network, both.network, both._replace(version=(5, 4)).network) == (
        "slirp4netns",
        "slirp4netns",
        "pasta",
    )
    assert GOOD._replace(version=(5, 0)).network == "slirp4netns"


def test_a_user_in_the_container_is_another_on_the_host() -> None:
    """Root is the PM; the others come from the PM's range, and those beyond it are nobody."""
    assert [GOOD.host_uid(inside) for inside in (0, 1, 1000, 65_536)] == [PM, 100_000, 100_999, 165_535]
    with pytest.raises(ValueError, match="no uid on the host"):
        GOOD.host_uid(65_537)


def test_what_podman_tells_is_taken_over() -> None:
    """Versions, ids, cgroups, storage; what it does not tell stays as it was."""
    machine = with_info(GOOD, INFO)

    assert (machine.version, machine.runtime, machine.cgroups, machine.driver) == ((4, 3), "crun", 1, "vfs")
    assert (machine.ids, machine.first_id, machine.host_uid(1000)) == (65_537, 200_000, 200_999)
    assert machine.controllers == frozenset()
    assert with_info(GOOD, {}).network == "slirp4netns"
    newer = {"host": {"cgroupVersion": "v2", "cgroupControllers": ["memory"]}, "version": {"Version": "5.4.2-dev"}}
    assert (with_info(GOOD, newer).version, with_info(GOOD, newer).controllers) == ((5, 4), frozenset(["memory"]))
    told_of = {"host": {"ociRuntime": {"name": "runc", "version": "runc version 1.1.5+ds1\ncommit: x"}}}
    assert with_info(GOOD, told_of).runtime_release == "1.1.5+ds1"
    assert with_info(GOOD, {"registries": {"search": ["here"]}}).registries == ("here",)
    unmapped = {"host": {"idMappings": {"uidmap": [{"container_id": 0, "host_id": 5, "size": 1}]}}}
    assert with_info(GOOD, unmapped).ids == 1
    few = {"gidmap": [{"container_id": 0, "host_id": 5, "size": 1}, {"container_id": 1, "host_id": 9, "size": 999}]}
    assert with_info(GOOD, {"host": {"idMappings": INFO["host"]["idMappings"] | few}}).ids == 1000


def test_looking_asks_the_podman_on_the_pm_s_path(tmp_path: Path) -> None:
    """With what it says, or with the reason that it gives for saying nothing."""
    machine = look(a_podman(tmp_path / "good", json.dumps(INFO)), PM)
    assert (machine.podman, machine.version, machine.user) == (str(tmp_path / "good/podman"), (4, 3), "pm")

    log = 'time="2026-01-31T10:42:12Z" level=error msg="XDG_RUNTIME_DIR directory \\"/x\\" is not owned by you"\n'
    refused = look(a_podman(tmp_path / "bad", log, 125), PM)
    assert refused.refusal.startswith('XDG_RUNTIME_DIR directory "/x" is not owned by you')
    garbled = look(a_podman(tmp_path / "garbled", "no JSON"), PM)
    assert "not JSON" in garbled.refusal


def test_a_lost_pause_process_is_replaced(tmp_path: Path) -> None:
    """As after a crash with the runtime directory on a disk: podman 4 only names the remedy."""
    lost = (
        'level=error msg="invalid internal status, try \\"podman system migrate\\": could not find any running process"'
    )
    program = tmp_path / "podman"
    program.write_text(f"""#!/bin/sh
[ "$1" != system ] || {{ echo "$@" >>{tmp_path}/migrated; exit; }}
[ -e {tmp_path}/migrated ] || {{ echo '{lost}' >&2; exit 1; }}
echo "done: $@"
""")
    program.chmod(0o755)
    podman = Podman(str(program), {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    with concurrent.futures.ThreadPoolExecutor(8) as callers:
        assert set(callers.map(lambda verb: podman(verb), ["ps"] * 8)) == {"done: ps"}
    assert (tmp_path / "migrated").read_text() == "system migrate\n"


def test_the_machine_s_own_networks_are_learned_or_no_container_runs(tmp_path: Path) -> None:
    """Without them the agent could reach the machine by its public address."""
    environ = a_podman(tmp_path / "here", json.dumps(INFO))
    answers = {
        json.dumps([{"addr_info": [{"local": "93.184.216.34", "prefixlen": 24}]}]): (("93.184.216.0/24",), ""),
        json.dumps([{"addr_info": [{"local": "127.0.0.1", "prefixlen": 8}]}]): ((), ""),
        "no JSON": ((), "cannot be learned"),
    }
    for answer, (networks, why) in answers.items():
        a_program(tmp_path / "here/ip", answer)
        machine = look(environ, PM)
        assert machine.networks == networks
        assert why in machine.addresses
        assert bool(machine.addresses) == bool(why)


def test_root_and_a_machine_without_podman_start_nothing(tmp_path: Path) -> None:
    """Rootless containers are for ordinary users."""
    environ = a_podman(tmp_path / "here", "never asked", 1)
    assert look(environ, 0).refusal == ""
    assert fatal(look(environ, 0))[0].what.startswith("you are root")
    nowhere = look({"PATH": str(tmp_path), "HOME": str(tmp_path)}, PM)
    # Programs of the system lie in directories that are always searched: this machine may have a podman there.
    assert nowhere.podman == "" or not nowhere.podman.startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("XDG_DATA_HOME", "/srv/a,b"),
        ("XDG_STATE_HOME", '/srv/a"b'),
        ("XDG_CONFIG_HOME", "/srv/a,ro"),
        ("XDG_RUNTIME_DIR", "/run/a,b"),
        ("XDG_CACHE_HOME", "/srv/a:b"),
        ("HOME", "/home/a,b"),
    ],
)
def test_a_path_that_podman_would_read_as_more_is_refused(tmp_path: Path, variable: str, path: str) -> None:
    """By its variable, before podman is asked anything; doctor and `up` say the same."""
    environ = a_podman(tmp_path / "here", json.dumps(INFO))
    assert not look(environ, PM).odd_path

    (found,) = fatal(look(environ | {variable: path}, PM))

    assert variable in found.text
    assert repr(path) in found.text
    with pytest.raises(CommandError, match=variable):
        choose(Context(environ | {variable: path}, PM, "/project", ()), "podman", False)


def test_a_runtime_directory_of_somebody_else_is_told(tmp_path: Path) -> None:
    """As after `su`, which leaves the old one in the environment."""
    environ = a_podman(tmp_path / "here", json.dumps(INFO))
    other = look(environ | {"XDG_RUNTIME_DIR": "/"}, os.getuid() + 1)
    missing = look(environ | {"XDG_RUNTIME_DIR": f"{tmp_path}/none"}, PM)

    assert f"uid {os.stat('/').st_uid}" in other.runtime_directory
    assert "cannot be used" in missing.runtime_directory
