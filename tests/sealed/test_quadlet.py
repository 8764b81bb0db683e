"""The quadlet unit under the real generator of podman 5 and the real checker of systemd, and the command that they
make of it under this machine's podman: the container seals itself and serves, and ends as systemd has to know it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.sealed.agent import SealedAgent, born, until
from bench.sealed.project import Project
from bench.sealed.rootless import Rootless
from host.container.podman import Podman
from host.container.quadlet import unit
from host.container.words import Image, Sealing, create_words, names, sealing
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit
from infra.shared.providers import KEYS
from infra.shared.settings import Settings
from tests.host.test_container_machine import GOOD
from tests.host.test_container_quadlet import sections, systemd_words
from tests.host.test_container_words import a_sealing
from tests.sealed.newer import Newer, Podman5

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

REJECTED = "EHOSTUNREACH"
PODMAN = Podman("/usr/bin/podman", {"XDG_DATA_HOME": "/a b/100%"}, ("--runtime=runc",))
NEWER = GOOD._replace(version=(5, 4), pasta="/usr/bin/pasta", networks=("93.184.216.0/24",))
ODD_HOME = AgentPaths("blue", '/d "a", b/$HOME/100%t/é/blue', "/s\\x20/'s'/blue", "/run/blue", "/c;d #e/minifram.yaml")
ODD = sealing(ODD_HOME, Settings(), NEWER, Image("localhost/minifram:v1", "v1"), "/pro ject", KEYS[:1])
SAME = {"-v": "--volume", "--volume": "--volume"}
SECCOMP = "--security-opt=seccomp"
UNCONFINED = f"{SECCOMP}=unconfined"
ADDED = {"--replace", "--rm", "-d", "--cgroups=split", "--cidfile=%t/%N.cid"}
"""What a unit adds to the words of `podman create`: systemd's side of it."""


@pytest.fixture
def newer(user: Rootless) -> Newer:
    return Newer(user)


@pytest.fixture
def agent(project: Project) -> Iterator[SealedAgent]:
    with born(project) as agent:
        yield agent


@pytest.mark.parametrize(
    "sealed",
    [a_sealing(NEWER), ODD, a_sealing(NEWER._replace(log_driver="journald", selinux=True), keys=())],
    ids=["usual", "odd paths", "selinux"],
)
def test_the_generator_of_podman_5_keeps_every_word(newer: Newer, sealed: Sealing) -> None:
    """Without a warning; what systemd would start has each word of `podman create`, and of its own only systemd's.
    systemd finds nothing wrong with it. The control: both say so when something is."""
    text = unit(sealed, PODMAN)
    made = newer.generate(sealed.agent, text)

    (only,) = made.said.splitlines()
    assert "Loading source unit file" in only
    program, runtime, run, *words = systemd_words(made.line("ExecStart").replace("%t/%N", "%%t/%%N"))
    wanted, last = create_words(sealed), -1 - len(sealed.command)
    assert (program, runtime, run) == ("/usr/bin/podman", "--runtime=runc", "run")
    assert words[last:] == wanted[last:]
    assert normal(words[:last]) == normal(wanted[1:last]) | ADDED
    assert made.line("RestartPreventExitStatus") == "5"
    assert newer.verify(sealed.agent, made.service) == ""

    wrong = made.service.replace("Restart=on-failure", "Restart=perhaps")
    assert "Failed to parse Restart=perhaps" in newer.verify(sealed.agent, wrong)
    with pytest.raises(AssertionError, match="unsupported key 'ReadOnlyRoot'"):
        newer.generate(sealed.agent, text.replace("ContainerName=", "ReadOnlyRoot="))


def test_the_container_of_the_unit_seals_itself_and_serves(agent: SealedAgent, newer: Newer) -> None:
    """What the generator makes systemd start, started by this podman: it takes over from `up`, the canary is rejected
    before the first line, status knows it; refused, it ends with the status at which systemd stays away; and `down`
    ends it for good."""
    agent.probe()
    agent.minifram("up")
    until(lambda: agent.serves(1), "it serves")
    command = _command(newer, agent)

    agent.podman(*command)
    until(lambda: agent.serves(2), "it serves under the unit's command")
    assert agent.starts() == [REJECTED] * 2
    assert '"running": true' in agent.minifram("status", "--json").stdout
    labels = agent.podman("container", "inspect", "--format={{.Config.Labels}}", agent.container)
    assert f"minifram.agent:{agent.name}" in labels

    config = Path(agent.home.remote, "config")
    good = config.read_text()
    config.write_text(good + "[core]\n\tfsmonitor = touch /tmp/planted\n")
    waits = [word for word in command if word != "-d"]
    refused = agent.user.podman(*waits, check=False)
    assert (refused.returncode, "core.fsmonitor" in refused.stderr) == (Exit.DENIED, True)
    assert len(agent.starts()) == 2
    assert agent.podman("ps", "--all", "--quiet", f"--filter=name={agent.container}") == "", "it is gone"

    config.write_text(good)
    agent.podman(*command)
    until(lambda: agent.serves(3), "it serves again")
    agent.minifram("down")
    assert agent.podman("ps", "--all", "--quiet", f"--filter=name={agent.container}") == ""
    assert agent.podman("volume", "exists", names(agent.name).bot) == ""


def test_podman_5_runs_the_service(agent: SealedAgent, newer: Newer, podman5: Podman5) -> None:
    """Word for word what systemd would run, but for systemd's own: the volumes are made, also when they are there; the
    container serves; and what stops the service ends it and leaves the volumes."""
    agent.probe()
    agent.minifram("up")
    until(lambda: agent.serves(1), "it serves")
    text = agent.minifram("generate", "quadlet").stdout
    made = newer.generate(agent.name, text)
    agent.minifram("down")
    before = [systemd_words(value) for key, value in sections(made.service)["Service"] if key == "ExecStartPre"]
    assert len(before) == 2

    for words in [*before, *before]:
        podman5.podman(*words[words.index("volume") :])
    file = f"{podman5.place}/minifram.cid"
    start = systemd_words(made.line("ExecStart").replace("%t/%N.cid", file))
    podman5.podman(*(word for word in start[start.index("run") :] if word != "--cgroups=split"))
    until(lambda: agent.serves(2), "it serves under podman 5")
    assert agent.starts() == [REJECTED] * 2
    stop = systemd_words(made.line("ExecStop").replace("%t/%N.cid", file))
    podman5.podman(*stop[stop.index("rm") :])
    assert podman5.podman("ps", "--all", "--quiet").stdout == ""
    for volume in (names(agent.name).bot, names(agent.name).state):
        podman5.podman("volume", "rm", volume)
    assert agent.phase() == "stopped"


def test_a_unit_made_looser_by_hand_is_refused_by_the_seal(agent: SealedAgent, newer: Newer) -> None:
    """Whatever somebody leaves out of it: no agent runs, and it is said why."""
    agent.probe()
    agent.minifram("up")
    until(lambda: agent.serves(1), "it serves")
    command = [word for word in _command(newer, agent) if word != "-d"]
    looser = {
        "no-new-privileges": [word for word in command if word != "--security-opt=no-new-privileges"],
        "root file system": [word for word in command if word != "--read-only"],
        "seccomp": [UNCONFINED if word.startswith(f"{SECCOMP}=") else word for word in command],
        "capabilities": [*command[:1], "--cap-add=sys_admin", *command[1:]],
    }
    for why, words in looser.items():
        assert words != command
        ended = agent.user.podman(*words, check=False)
        assert (ended.returncode, why in ended.stderr) == (Exit.DENIED, True), ended
    assert len(agent.starts()) == 1


def normal(words: list[str]) -> set[str]:
    """Options of podman, each as one word in one spelling: what is the same to podman is the same here."""
    found: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        assert word.startswith("-"), word
        if "=" not in word and rest and not rest[0].startswith("-"):
            word += f"={rest.pop(0)}"
        option, _, value = word.partition("=")
        option = SAME.get(option, option)
        if option == "--cap-add":
            found |= {f"{option}={one.lower()}" for one in value.split(",")}
        elif option == "--mount":
            fields = sorted(field.replace("source=", "src=", 1) for field in next(csv.reader([value])))
            found.add(f"{option}={fields}")
        else:
            found.add(f"{option}={value}" if value else option)
    return found


def _command(newer: Newer, agent: SealedAgent) -> list[str]:
    """Behind `podman`, what the unit has systemd start, but for what only newer podman and systemd know."""
    made = newer.generate(agent.name, agent.minifram("generate", "quadlet").stdout)
    start = made.line("ExecStart").replace("%t/%N", "%%t/%%N")
    words = systemd_words(start)[1:]
    return [word for word in words[words.index("run") :] if not word.startswith(("--cgroups=", "--cidfile="))]
