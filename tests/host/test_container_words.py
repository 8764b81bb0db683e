"""The words of `podman create`: every flag that isolates, from the settings and the machine, and nothing else."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from host.container.machine import Machine
from host.container.words import (
    NETWORKS,
    Image,
    Sealing,
    create_words,
    fingerprint,
    sealing,
    secret_name,
    secret_words,
    volume_options,
    volume_words,
)
from host.paths import AgentPaths
from infra.shared.providers import KEYS
from infra.shared.settings import PodmanSettings, Settings
from tests.host.test_container_machine import GOOD

HOME = AgentPaths("blue", "/data/blue", "/state/blue", "/run/blue", "/config/blue/minifram.yaml")
IMAGE = Image("localhost/minifram:v1", "v1")


def a_sealing(
    machine: Machine = GOOD, settings: Settings | None = None, keys: Sequence[str] = KEYS[:1], **more: str
) -> Sealing:
    return sealing(HOME, settings or Settings(), machine, IMAGE, "/project", keys, **more)


def test_the_words_are_these() -> None:
    """All of them, so that a change of the sealing is a change of this test."""
    assert create_words(a_sealing()) == [
        "create",
        "--name=minifram-blue",
        "--label=minifram.agent=blue",
        "--label=minifram.home=/data/blue",
        "--label=minifram.version=v1",
        f"--label=minifram.words={fingerprint(a_sealing())}",
        "--pull=never",
        "--user=0:0",
        "--workdir=/",
        "--hostname=minifram",
        "--cap-drop=all",
        "--cap-add=KILL,NET_ADMIN,SETGID,SETPCAP,SETUID",
        "--security-opt=no-new-privileges",
        "--security-opt=seccomp=/project/podman/seccomp.json",
        "--read-only",
        "--read-only-tmpfs=false",
        "--uidmap=0:0:65536",
        "--gidmap=0:0:65536",
        "--ipc=private",
        "--uts=private",
        "--pid=private",
        "--cgroupns=private",
        "--systemd=false",
        "--init=false",
        "--sdnotify=conmon",
        "--env-host=false",
        "--http-proxy=false",
        "--unsetenv-all",
        "--env=PATH=/opt/minifram/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "--env=LANG=C.UTF-8",
        "--env=HOME=/root",
        "--network=slirp4netns:allow_host_loopback=false",
        "--sysctl=kernel.shmall=65536",
        "--sysctl=kernel.shmmni=128",
        "--sysctl=kernel.sem=250 4096 32 128",
        "--sysctl=kernel.msgmni=32",
        "--no-hosts",
        "--sysctl=net.ipv4.ip_unprivileged_port_start=53",
        "--dns=127.0.0.1",
        "--dns-search=.",
        "--ulimit=nofile=16384:16384",
        "--ulimit=nproc=1280:1280",
        "--ulimit=core=0:0",
        "--pids-limit=2048",
        "--memory=4294967296",
        "--stop-timeout=60",
        "--stop-signal=SIGTERM",
        "--restart=no",
        "--log-driver=k8s-file",
        "--log-opt=max-size=20971520",
        "--shm-size=16m",
        "--tmpfs=/mnt/remote:rw,nosuid,nodev,noexec,notmpcopyup,mode=0700,size=1048576",
        "--tmpfs=/run/minifram:rw,nosuid,nodev,noexec,notmpcopyup,mode=0711,size=16777216",
        "--tmpfs=/tmp:rw,nosuid,nodev,notmpcopyup,mode=1777,size=536870912",
        "--tmpfs=/var/tmp:rw,nosuid,nodev,noexec,notmpcopyup,mode=1777,size=67108864",
        "--tmpfs=/examination:rw,nosuid,nodev,notmpcopyup,mode=1777,size=536870912",
        *(
            f"--mount=type=bind,src={source},dst={target},ro={ro},nosuid,nodev,noexec,bind-propagation=rprivate"
            for source, target, ro in [
                ("/data/blue/remote.git/HEAD", "/mnt/remote/HEAD", "true"),
                ("/data/blue/remote.git/config", "/mnt/remote/config", "true"),
                ("/data/blue/remote.git/packed-refs", "/mnt/remote/packed-refs", "true"),
                ("/data/blue/remote.git/objects", "/mnt/remote/objects", "false"),
                ("/data/blue/remote.git/objects/info", "/mnt/remote/objects/info", "true"),
                ("/data/blue/remote.git/refs", "/mnt/remote/refs", "false"),
                ("/config/blue/minifram.yaml", "/etc/minifram/minifram.yaml", "true"),
            ]
        ),
        "--volume=minifram-blue-bot:/bot:rw,nosuid,nodev",
        "--volume=minifram-blue-state:/var/lib/minifram:rw,nosuid,nodev",
        "--secret=minifram-blue-anthropic_api_key,type=mount,uid=0,gid=0,mode=0400,"
        "target=/run/minifram/secrets/anthropic_api_key",
        "localhost/minifram:v1",
        "--settings=/etc/minifram/minifram.yaml",
        "--upstream=10.0.2.3",
    ]


def test_without_a_key_there_is_no_secret() -> None:
    """A scripted model needs none."""
    assert not any("--secret" in word for word in create_words(a_sealing(keys=())))


def test_a_limit_that_the_machine_cannot_keep_is_not_asked_for() -> None:
    """podman would refuse it, or say that it does nothing; rlimits hold everywhere, at most the PM's own."""
    words = create_words(a_sealing(GOOD._replace(controllers=frozenset(), hard_files=2000, hard_processes=1200)))

    assert not any(word.startswith(("--memory", "--pids-limit", "--cpus")) for word in words)
    assert {"--ulimit=nofile=2000:2000", "--ulimit=nproc=1200:1200"} <= set(words)


def test_the_machine_s_own_public_networks_are_closed() -> None:
    """The seal is told of each; the container is made anew when they change."""
    here = a_sealing(GOOD._replace(networks=("93.184.216.0/24", "2606:2800::/32")))

    assert create_words(here)[-2:] == ["--host=93.184.216.0/24", "--host=2606:2800::/32"]
    assert fingerprint(here) != fingerprint(a_sealing())


def test_the_pm_s_limits_are_the_container_s() -> None:
    """Each key of the section has its word."""
    chosen = PodmanSettings(pids=300, open_files=1024, memory_bytes=1 << 30, cpus=1.5, tmp_bytes=1 << 20)
    words = create_words(a_sealing(settings=Settings(podman=chosen)))

    assert {"--ulimit=nproc=150:150", "--pids-limit=300", "--memory=1073741824", "--cpus=1.5"} <= set(words)
    assert "--ulimit=nofile=1024:1024" in words
    assert "--tmpfs=/tmp:rw,nosuid,nodev,notmpcopyup,mode=1777,size=1048576" in words


def test_each_way_out_keeps_the_host_s_loopback_out_of_reach() -> None:
    """And names the resolver that the keep's own one asks; no way out has no resolver to be told of."""
    pasta = create_words(a_sealing(GOOD._replace(version=(5, 4), pasta="/usr/bin/pasta")))
    none = create_words(a_sealing(network="none"))

    assert "--network=pasta:--no-map-gw,--dns-forward,169.254.1.1" in pasta
    assert pasta[-1] == "--upstream=169.254.1.1"
    assert "--network=none" in none
    assert not any(word.startswith("--dns") for word in none)
    assert "allow_host_loopback=false" in NETWORKS["slirp4netns"].mode


def test_selinux_gets_what_is_bound_labelled_for_the_container() -> None:
    """Without it SELinux would refuse them; elsewhere nothing is relabelled."""
    words = create_words(a_sealing(GOOD._replace(selinux=True)))
    bound = [word for word in words if word.startswith(("--mount", "--volume"))]

    assert all(word.endswith((",relabel=private", ",Z")) for word in bound)
    assert not any("relabel" in word or word.endswith(",Z") for word in create_words(a_sealing()))


def test_the_journal_rotates_by_itself() -> None:
    """There is no size to give to it."""
    words = create_words(a_sealing(GOOD._replace(log_driver="journald")))

    assert "--log-driver=journald" in words
    assert not any(word.startswith("--log-opt") for word in words)


def test_the_fingerprint_changes_with_anything_that_the_container_is_made_with() -> None:
    """And with nothing else: the labels are not in it."""
    same = a_sealing()
    others = [
        same._replace(image="other"),
        same._replace(command=("other",)),
        same._replace(secrets=()),
        same._replace(stop_seconds=1),
        same._replace(limits=same.limits._replace(open_files=1)),
    ]
    assert fingerprint(same) == fingerprint(a_sealing()) == fingerprint(same._replace(version="v2"))
    assert len({fingerprint(sealed) for sealed in [same, *others]}) == 6


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_path_survives_the_way_into_a_mount(name: str) -> None:
    """podman reads the value as one record of CSV; commas and quotes in a path are part of the path."""
    home = HOME._replace(data=f"/data/{name}")
    words = create_words(sealing(home, Settings(), GOOD, IMAGE, "/project", KEYS[:1]))
    first = next(word for word in words if word.startswith("--mount="))
    records = list(csv.reader(io.StringIO(first.removeprefix("--mount="), newline=""), strict=True))

    assert [record[1] for record in records] == [f"src=/data/{name}/remote.git/HEAD"]


def test_a_volume_is_a_name_for_a_directory_with_an_owner() -> None:
    """With the owner told, podman does not give the directory to root."""
    bot = a_sealing().volumes[0]

    assert volume_words(bot, "blue", "/data/blue") == [
        *("volume", "create", "--label=minifram.agent=blue", "--label=minifram.home=/data/blue", "--opt=type=none"),
        *("--opt=o=bind,uid=1000,gid=1000", "--opt=device=/data/blue/bot", "minifram-blue-bot"),
    ]
    assert volume_options(bot) == {"type": "none", "o": "bind,uid=1000,gid=1000", "device": "/data/blue/bot"}


def test_a_secret_is_made_from_what_comes_on_stdin() -> None:
    """No word holds it."""
    assert secret_words(secret_name("blue", KEYS[0]), "blue")[-1] == "-"


def test_the_profile_is_the_project_s() -> None:
    """The file that the words name is there."""
    project = Path(__file__).parents[2]
    assert Path(sealing(HOME, Settings(), GOOD, IMAGE, str(project), KEYS[:1]).seccomp).is_file()
