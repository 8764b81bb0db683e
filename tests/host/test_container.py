"""The container: the words that seal it, what this machine can do, and the image; all without starting one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.container.container import alone, make_way
from host.container.eye import eye_words, profile
from host.container.image import Base, build_words, fetch_words, version_of
from host.container.machine import Machine, lacks, look, unlimited, with_info
from host.container.podman import CONFIGURATION, Podman, PodmanError, call, environment
from host.container.words import CELL_UID, create_words, eye_name
from host.container.words import HOME as HOME_LABEL
from host.errors import CommandError
from host.home import AgentPaths
from host.project import image_files
from infra.keep.settings.models import KEYS
from infra.keep.settings.schema import PodmanSettings, Settings, WebSettings
from tests.cell.loop.waiting import wait_for
from tests.host.container_desk import write_project
from tests.host.desk import PROJECT, Desk

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
    "version": {"Version": "4.3.1"},
}
"""Of what `podman info --format=json` says, what is read."""


def a_machine(directory: Path, says: str, status: int = 0, addresses: str = "[]") -> dict[str, str]:
    """An environment whose podman says just this, and whose `ip` knows these addresses."""
    directory.mkdir()
    for name, text, code in (("podman", says, status), ("ip", addresses, 0)):
        (directory / f"{name}.words").write_text(text)
        script = f"#!/bin/sh\n/bin/cat {directory}/{name}.words >&{2 if code else 1}\nexit {code}\n"
        (directory / name).write_text(script)
        (directory / name).chmod(0o755)
    return {"PATH": str(directory), "HOME": str(directory), "USER": "pm"}


HOME = AgentPaths("blue", "/data/blue", "/state/blue", "/run/blue", "/config/blue/minifram.yaml")
IMAGE = "localhost/minifram:v1"
BASE = Base("localhost/minifram-base:x", "sha-of-base", True)


def words_of(
    machine: Machine = GOOD, settings: Settings | None = None, keys: Sequence[str] = KEYS[:1], **more: Any
) -> list[str]:
    return create_words(HOME, settings or Settings(), machine, IMAGE, "/project", keys, **more)


def test_nothing_is_open_that_need_not_be() -> None:
    """What can be written, and what is executed of it; whatever comes from the host's side is switched off."""
    words = words_of()
    mounts = {}
    for word in (word for word in words if word.startswith("--mount=")):
        parts = dict(part.partition("=")[::2] for part in word.removeprefix("--mount=").split(","))
        mounts[parts["dst"]] = parts
    repository = {"/mnt/remote/objects", "/mnt/remote/refs"}
    own = {"/bot", "/var/lib/minifram"}
    assert {at for at, parts in mounts.items() if parts["ro"] != "true"} == {*repository, *own, "/events"}
    assert {at for at, parts in mounts.items() if "noexec" not in parts} == own
    assert all({"nosuid", "nodev"} <= parts.keys() for parts in mounts.values())
    shelves = dict(word.removeprefix("--tmpfs=").split(":") for word in words if word.startswith("--tmpfs="))
    assert all({"nosuid", "nodev"} <= set(options.split(",")) for options in shelves.values())
    assert {at for at, options in shelves.items() if "noexec" not in options} == {"/code", "/tmp", "/examination"}
    assert {"--cap-drop=all", "--cap-add=KILL,NET_ADMIN,SETGID,SETPCAP,SETUID", "--read-only"} <= {*words}
    assert {"--security-opt=no-new-privileges", "--security-opt=seccomp=/project/podman/seccomp.json"} <= {*words}
    assert {f"--{name}=private" for name in ("ipc", "uts", "pid", "cgroupns")} <= {*words}
    assert {"--env-host=false", "--http-proxy=false", "--unsetenv-all", "--init=false"} <= {*words}
    assert {"--network=slirp4netns:allow_host_loopback=false", "--no-hosts", "--dns=127.0.0.1"} <= {*words}
    assert {"--user=0:0", "--uidmap=0:0:65536", "--gidmap=0:0:65536", "--ulimit=core=0:0"} <= {*words}
    queues = ("shmall=65536", "shmmni=128", "sem=250 4096 32 128", "msgmni=32")
    assert {f"--sysctl=kernel.{each}" for each in queues} <= {*words}
    assert words[0] == "create"
    assert words[-3:] == [IMAGE, "--settings=/etc/minifram/minifram.yaml", "--upstream=10.0.2.3"]


def test_what_the_settings_and_the_machine_say_is_in_the_words() -> None:
    """Limits, SELinux' labels, the journal, no key. A limit that podman cannot keep here is not asked for: it would
    refuse it; rlimits hold everywhere, at most the PM's own."""
    chosen = PodmanSettings(pids=300, memory_bytes=1 << 30, cpus=1.5)
    words = words_of(settings=Settings(podman=chosen))
    assert {"--ulimit=nproc=150:150", "--pids-limit=300", "--memory=1073741824", "--cpus=1.5"} <= set(words)
    other = GOOD._replace(
        selinux=True, log_driver="journald", controllers=frozenset(), hard_files=2000, hard_processes=1200
    )
    words = words_of(other, keys=())
    assert all(word.endswith(",relabel=private") for word in words if word.startswith("--mount"))
    assert {"--log-driver=journald", "--ulimit=nofile=2000:2000", "--ulimit=nproc=1200:1200"} <= set(words)
    unwanted = ("--log-opt", "--memory", "--pids-limit", "--cpus")
    assert not [word for word in words if word.startswith(unwanted) or "secrets" in word]


@pytest.mark.attack("S33")
def test_the_machine_s_own_public_networks_are_closed() -> None:
    """The seal is told of each."""
    words = words_of(GOOD._replace(networks=("93.184.216.0/24", "2606:2800::/32")))
    assert words[-2:] == ["--host=93.184.216.0/24", "--host=2606:2800::/32"]


def test_each_way_out_keeps_the_host_s_loopback_out_of_reach() -> None:
    """And names the resolver that the keep's own one asks; no way out has no resolver to be told of."""
    pasta = words_of(GOOD._replace(version=(5, 4), pasta="/usr/bin/pasta"))
    none = words_of(network="none")

    assert "--network=pasta:--no-map-gw,--dns-forward,169.254.1.1" in pasta
    assert pasta[-1] == "--upstream=169.254.1.1"
    assert "--network=none" in none
    assert not any(word.startswith("--dns") for word in none)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_path_survives_the_way_into_a_mount(name: str) -> None:
    """podman reads the value as one record of CSV; commas and quotes in a path are part of the path."""
    words = create_words(HOME._replace(data=f"/data/{name}"), Settings(), GOOD, IMAGE, "/project", KEYS[:1])
    first = next(word for word in words if word.startswith("--mount="))
    records = list(csv.reader(io.StringIO(first.removeprefix("--mount="), newline=""), strict=True))

    assert [record[1] for record in records] == [f"src=/data/{name}/remote.git/HEAD"]


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        ({"uid": 0}, "ordinary user"),
        ({"podman": ""}, "apt-get install podman"),
        ({"version": (4, 2)}, "podman is 4.2; needed is 4.3"),
        ({"ids": 1}, "--add-subuids 100000-165535 --add-subgids 100000-165535 pm"),
        ({"obstacles": ("no address is known",)}, "no address is known"),
        ({"slirp4netns": ""}, "apt-get install slirp4netns"),
        ({"slirp4netns": "", "version": (5, 4)}, "apt-get install passt"),
        ({"cgroups": 1, "runtime": "crun", "has_runc": False}, "apt-get install runc"),
        ({"refusal": "stat /x: not a directory"}, "stat /x: not a directory"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(worse: dict[str, Any], words: str) -> None:
    """Each of these alone keeps a container from running."""
    assert list(lacks(GOOD)) == []
    assert [words in lack for lack in lacks(GOOD._replace(**worse))] == [True]


def test_limits_that_cannot_be_set_are_no_obstacle() -> None:
    """A container runs all the same, and `up` says it."""
    machine = GOOD._replace(controllers=frozenset(["pids"]))
    assert (list(lacks(machine)), unlimited(machine)) == ([], ["memory"])


def test_what_follows_from_the_facts() -> None:
    """runc only where crun would refuse; pasta from podman 5 on; root inside is the PM, the others come from the PM's
    range."""
    crun = GOOD._replace(runtime="crun", cgroups=1)
    words = [machine.words for machine in (crun, crun._replace(cgroups=2), GOOD._replace(cgroups=1))]
    assert words == [("--runtime=runc",), (), ()]
    both = GOOD._replace(pasta="/usr/bin/pasta")
    newer = (both._replace(version=(5, 4)), GOOD._replace(version=(5, 0)))
    assert [machine.network[:5] for machine in (GOOD, both, *newer)] == ["slirp", "slirp", "pasta", "slirp"]
    assert [GOOD.host_uid(inside) for inside in (0, 1, 1000)] == [PM, 100_000, 100_999]


def test_what_podman_tells_is_taken_over() -> None:
    """Versions, ids, cgroups; what it does not tell stays as it was."""
    machine = with_info(GOOD, INFO)

    assert (machine.version, machine.runtime, machine.cgroups) == ((4, 3), "crun", 1)
    assert (machine.ids, machine.first_id, machine.host_uid(1000)) == (65_537, 200_000, 200_999)
    assert machine.controllers == frozenset()
    assert with_info(GOOD, {}).network == "slirp4netns"
    newer = {"host": {"cgroupVersion": "v2", "cgroupControllers": ["memory"]}, "version": {"Version": "5.4.2-dev"}}
    assert (with_info(GOOD, newer).version, with_info(GOOD, newer).controllers) == ((5, 4), frozenset(["memory"]))
    unmapped = {"host": {"idMappings": {"uidmap": [{"container_id": 0, "host_id": 5, "size": 1}]}}}
    assert with_info(GOOD, unmapped).ids == 1
    few = {"gidmap": [{"container_id": 0, "host_id": 5, "size": 1}, {"container_id": 1, "host_id": 9, "size": 999}]}
    assert with_info(GOOD, {"host": {"idMappings": INFO["host"]["idMappings"] | few}}).ids == 1000


def test_looking_asks_the_podman_on_the_pm_s_path(tmp_path: Path) -> None:
    """With what it says, or with the reason that it gives for saying nothing; for root it is not asked."""
    machine = look(a_machine(tmp_path / "good", json.dumps(INFO)), PM)
    assert (machine.podman, machine.version, machine.user) == (str(tmp_path / "good/podman"), (4, 3), "pm")
    assert look(a_machine(tmp_path / "bad", "much\nno such luck\n", 125), PM).refusal == "no such luck"
    assert look(a_machine(tmp_path / "root", "never asked", 1), 0).refusal == ""


def test_the_machine_s_own_networks_are_learned_or_no_container_runs(tmp_path: Path) -> None:
    """Without them the agent could reach the machine by its public address."""
    for number, (answer, networks, why) in enumerate(
        [
            (json.dumps([{"addr_info": [{"local": "93.184.216.34", "prefixlen": 24}]}]), ("93.184.216.0/24",), ""),
            (json.dumps([{"addr_info": [{"local": "127.0.0.1", "prefixlen": 8}]}]), (), ""),
            ("no JSON", (), "cannot be learned"),
        ]
    ):
        machine = look(a_machine(tmp_path / str(number), json.dumps(INFO), addresses=answer), PM)
        assert machine.networks == networks
        assert [why in each for each in machine.obstacles if "own addresses" in each] == ([True] if why else [])


def test_podman_gets_no_secret_and_no_other_podman_s_address() -> None:
    """What it needs to find its own places, and an empty file of configuration; what fetches something gets the way to
    the outside."""
    given = {
        "HOME": "/home/pm",
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "sk",
        "CONTAINER_HOST": "ssh://elsewhere",
        "https_proxy": "http://proxy.invalid",
        "PIP_INDEX_URL": "http://index.invalid",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "CONTAINERS_CONF": "/home/pm/containers.conf",
    }
    plain = environment(given)

    assert set(plain) == {"HOME", "PATH", "LANG", "XDG_RUNTIME_DIR", "GOGC", "CONTAINERS_CONF"}
    assert plain["CONTAINERS_CONF"] == CONFIGURATION
    assert plain["PATH"].startswith("/bin:")
    assert plain["PATH"].endswith("/sbin")
    assert set(environment(given, fetching=True)) - set(plain) == {"https_proxy", "PIP_INDEX_URL"}


def test_a_call_has_a_deadline_and_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """Nothing is left running, and the reason says how long it had."""
    script = f"sleep 60 & echo $! >{tmp_path}/pid; wait"
    with pytest.raises(PodmanError, match="not ended within"):
        call(("sh", "-c", script), {"PATH": "/usr/bin:/bin"}, seconds=0.3)
    pid = (tmp_path / "pid").read_text().strip()
    status = Path(f"/proc/{pid}/stat")
    wait_for(lambda: not status.exists() or status.read_text().split()[2] == "Z", "its end")
    with pytest.raises(PodmanError, match="cannot be run"):
        call(("no-such-program",), {"PATH": "/usr/bin:/bin"})


@pytest.mark.attack("S47")
def test_the_same_inputs_are_the_same_version(tmp_path: Path) -> None:
    """Every file that goes in counts, with whether it can be executed; so does the base. What stays out does not."""

    def version(base: Base = BASE) -> str:
        return version_of(str(tmp_path), base)

    write_project(tmp_path)
    first = version()
    assert version() == first

    (tmp_path / "host/cli.py").write_text("changed")
    (tmp_path / "infra/__pycache__/x.pyc").write_bytes(b"changed")
    assert version() == first
    seen = {first, version(BASE._replace(content="another"))}
    for name in ("Containerfile", "requirements.lock", "infra/runner.py", "podman/seccomp.json", "nftables/egress.nft"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        seen.add(version())
    (tmp_path / "infra/runner.py").chmod(0o755)
    seen.add(version())
    assert len(seen) == 8


def test_the_build_reaches_for_nothing_when_its_base_is_whole() -> None:
    """No network, no pull, no clock; with another base Debian's packages may have to come."""
    words = build_words("/p/Containerfile", "/cache/context", "/cache/wheels", BASE, IMAGE)

    assert {"--network=none", "--pull=never", "--timestamp=0", "--squash"} <= set(words)
    assert "--volume=/cache/wheels:/mnt/wheels:ro" in words
    assert "--network=none" not in build_words("/p/C", "/c", "/w", BASE._replace(is_complete=False), IMAGE)
    assert f"agent:x:{CELL_UID}:{CELL_UID}:" in (PROJECT / "Containerfile").read_text()


def test_wheels_are_those_that_the_image_s_python_can_use() -> None:
    """Whatever Python and machine fetch them: only wheels, only as locked, for Python 3.11 and Debian 12's glibc."""
    words = fetch_words("/p/requirements.lock", "/cache/new", "aarch64")

    assert {"--require-hashes", "--only-binary=:all:", "--no-deps", "--python-version=3.11"} <= set(words)
    platforms = [word.partition("=")[2] for word in words if word.startswith("--platform")]
    assert platforms[0] == "manylinux_2_36_aarch64"
    assert "manylinux2014_aarch64" in platforms
    assert not any("2_37" in platform for platform in platforms)


def test_the_image_runs_the_code_that_is_installed() -> None:
    """So a watcher in a container says the same of its code as the command that asks it."""
    held = {source.path for source in image_files(str(PROJECT))}
    every = (path for path in (PROJECT / "infra").rglob("*") if path.suffix in (".py", ".yaml"))
    modules = {str(path.relative_to(PROJECT)) for path in every}
    assert modules == {path for path in held if path.startswith("infra/") and path.endswith((".py", ".yaml"))}


def test_one_command_at_a_time_changes_a_container(desk: Desk) -> None:
    """The other is told to try again, and can once the first is done."""
    home = desk.home()
    for _ in range(2):
        with alone(home), pytest.raises(CommandError, match="try again"), alone(home):
            pass


def test_the_browser_s_container_has_no_right_and_no_network() -> None:
    """What it has beside the agent's fences: the calls that chromium's own sandbox is made with, and one directory, of
    which the agent's container may only read."""
    on = Settings(web=WebSettings(browser="on", pool_size=2))
    words = eye_words(HOME, on, GOOD, "eye:1", "/run/blue/eye.json")
    assert {"--network=none", "--cap-drop=all", "--read-only", "--user=970:970", "--no-hosts"} <= {*words}
    assert {"--security-opt=no-new-privileges", "--security-opt=seccomp=/run/blue/eye.json"} <= {*words}
    assert {
        "--memory=1610612736",
        "--pids-limit=768",
        "--ulimit=nproc=768:768",
        "--uidmap=0:0:65536",
        "--unsetenv-all",
    } <= {*words}
    assert not [word for word in words if word.startswith("--cap-add")]
    assert [word for word in words if word.startswith("--mount")] == [
        "--mount=type=bind,src=/run/blue/eye,dst=/run/eye,ro=false,nosuid,nodev,noexec,bind-propagation=rprivate"
    ]
    shared = [word for word in words_of(settings=on) if "/run/eye" in word]
    assert len(shared) == 1
    assert "ro=true" in shared[0]
    assert "/run/eye" not in " ".join(words_of())
    labelled = eye_words(HOME, on, GOOD._replace(selinux=True), "eye:1", "x")
    assert "relabel=shared" in " ".join(labelled)


def test_the_browser_may_make_namespaces_and_nothing_else_that_the_agent_may_not() -> None:
    own = json.loads((PROJECT / "podman/seccomp.json").read_text())

    def allowed(rules: Mapping[str, Any]) -> dict[str, list[Any]]:
        return {name: rule["args"] for rule in rules["syscalls"] if "ALLOW" in rule["action"] for name in rule["names"]}

    before, after = allowed(own), allowed(profile(own))
    assert {name for name in after if after[name] != before.get(name)} == {"clone", "unshare", "chroot"}
    assert (before["clone"] != [], after["clone"]) == (True, [])
    assert {name: profile(own)[name] for name in own if name != "syscalls"} == {
        name: own[name] for name in own if name != "syscalls"
    }


def test_a_browser_that_was_left_over_is_removed_whatever_the_settings_say_now(tmp_path: Path) -> None:
    """Also where the agent's own container, and the runtime directory, are gone."""
    state = [{"State": {"Status": "running"}, "Config": {"Labels": {HOME_LABEL: HOME.data}}, "ImageName": "eye:1"}]
    (tmp_path / "state").write_text(json.dumps(state))
    (tmp_path / "podman").write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
case "$*" in
  *inspect*.eye) cat {tmp_path}/state ;;
  *inspect*) echo "no such container" >&2; exit 125 ;;
esac
"""
    )
    (tmp_path / "podman").chmod(0o755)
    make_way(Podman(str(tmp_path / "podman"), {"PATH": "/usr/bin:/bin"}), HOME)
    assert f"rm --force --time=0 --ignore {eye_name(HOME.agent)}" in (tmp_path / "asked").read_text()


def test_settings_by_environment_go_into_the_container() -> None:
    """And nothing else of the PM's environment."""
    words = words_of(environ={"BROWSER_POOL_SIZE": "2", "AGENT_GHOST_ENABLED": "a b", "PATH": "/pm", "AGENT_X": "1"})
    added = [word for word in words if word.startswith("--env=") and word not in words_of()]
    assert added == ["--env=BROWSER_POOL_SIZE=2", "--env=AGENT_GHOST_ENABLED=a b"]
