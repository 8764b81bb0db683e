"""Quadlet units: every word of `podman create` is in them, whatever characters it has; written, and found stale."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from host.agent.generate import unit_path
from host.container.podman import Podman
from host.container.quadlet import quoted, unit
from host.container.words import Image, Sealing, create_words, sealing, volume_words
from host.errors import CommandError
from host.paths import AgentPaths
from infra.shared.providers import KEYS
from infra.shared.settings import PodmanSettings, Settings
from tests.host.container_desk import WAIT_SECONDS, ContainerDesk, Workshop, a_desk
from tests.host.desk import Desk
from tests.host.test_container_machine import GOOD
from tests.host.test_container_words import a_sealing

PODMAN = Podman("/usr/bin/podman", {"PATH": "/usr/bin"})
printable = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=30)


def sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """Of a unit file, without its comments."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = lines = []
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            lines.append((key, value))
    return found


def systemd_words(line: str, doubled: str = "%$") -> list[str]:
    """As systemd.service(5) and systemd.syntax(7) read a command line of ours."""
    found = []
    for quoted_word, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line):
        word = re.sub(r"\\(.)", r"\1", quoted_word) if quoted_word else bare
        for character in doubled:
            assert re.sub(re.escape(2 * character), "", word).count(character) == 0, "it would become something else"
            word = word.replace(2 * character, character)
        found.append(word)
    return found


def assert_nothing_is_lost(sealed: Sealing, podman: Podman = PODMAN) -> None:
    lines = sections(unit(sealed, podman))["Container"]
    keys = dict(lines)
    options = [word for key, value in lines if key == "PodmanArgs" for word in systemd_words(value)]
    wanted, last = create_words(sealed), -1 - len(sealed.command)

    assert keys.keys() - {"GlobalArgs"} == {"Image", "ContainerName", "PodmanArgs", "Exec"}
    assert [f"--name={keys['ContainerName']}", *options] == wanted[1:last]
    assert [keys["Image"], *systemd_words(keys["Exec"])] == wanted[last:]


@pytest.mark.parametrize(
    "sealed",
    [
        a_sealing(),
        a_sealing(keys=()),
        a_sealing(network="none"),
        a_sealing(GOOD._replace(version=(5, 4), pasta="/usr/bin/pasta", networks=("93.184.216.0/24",))),
        a_sealing(GOOD._replace(log_driver="journald", selinux=True, controllers=frozenset())),
        a_sealing(settings=Settings(podman=PodmanSettings(pids=300, cpus=1.5))),
    ],
    ids=["usual", "no key", "no network", "pasta", "selinux", "limits"],
)
def test_every_word_of_podman_create_is_in_the_unit(sealed: Sealing) -> None:
    """Read back by podman's documentation, the unit says the same, no word more and none less."""
    assert_nothing_is_lost(sealed)


@given(place=printable, root=printable, config=printable)
@example(place='a b,"c"', root="100%", config="$HOME\\'x'")
def test_odd_characters_in_paths_change_nothing(place: str, root: str, config: str) -> None:
    """Spaces, quotes, commas, percent and dollar signs reach podman as they are."""
    home = AgentPaths("blue", f"/{place}/blue", f"/s{place}/blue", "/run/blue", f"/{config}/minifram.yaml")
    sealed = sealing(home, Settings(), GOOD, Image("localhost/minifram:v1", "v1"), f"/{root}", KEYS[:1])

    assert_nothing_is_lost(sealed)
    text = sections(unit(sealed, PODMAN))
    made = [systemd_words(value) for key, value in text["Service"] if key == "ExecStartPre"]
    assert made == [_make_volume(sealed, number) for number in (0, 1)]


def _make_volume(sealed: Sealing, number: int) -> list[str]:
    words = volume_words(sealed.volumes[number], sealed.agent, sealed.home)
    return [PODMAN.program, *words[:2], "--ignore", *words[2:]]


@given(st.lists(printable, min_size=1, max_size=4))
def test_quoted_words_are_read_back(words: list[str]) -> None:
    """One by one, with nothing put in for what systemd would replace."""
    assert systemd_words(" ".join(map(quoted, words))) == words


@pytest.mark.parametrize("odd", ["a\nb", "a\x00b", "a\x80b", "a\udcffb", "a\u202eb", "\t"])
def test_what_a_unit_cannot_say_is_refused(odd: str) -> None:
    """Control characters and bytes that are no text; the control: an umlaut and a space are said."""
    home = AgentPaths("blue", f"/{odd}/blue", "/s/blue", "/run/blue", "/c/minifram.yaml")
    with pytest.raises(CommandError, match=r"a unit cannot hold .* rename that place"):
        unit(sealing(home, Settings(), GOOD, Image("localhost/minifram:v1", "v1"), "/p", KEYS[:1]), PODMAN)
    assert quoted("/ä b") == '"/ä b"'


def test_how_systemd_keeps_it() -> None:
    """It goes on after a failure, not after a refusal of the seal; systemd waits longer than podman; boot starts it."""
    sealed = a_sealing()
    found = sections(unit(sealed, PODMAN))
    service = dict(found["Service"])

    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "5")
    assert int(service["RestartSec"]) >= 5
    assert {"StartLimitIntervalSec", "StartLimitBurst"} <= dict(found["Unit"]).keys()
    assert min(int(service["TimeoutStopSec"]), int(service["TimeoutStartSec"])) > sealed.stop_seconds
    assert found["Install"] == [("WantedBy", "default.target")]


def test_podman_finds_what_up_made() -> None:
    """By the same global options and places; nothing else of the PM's environment is in the unit."""
    environ = {"XDG_DATA_HOME": "/my data/100%", "STORAGE_DRIVER": "", "ANTHROPIC_API_KEY": "sk-x", "PATH": "/usr/bin"}
    found = sections(unit(a_sealing(), Podman("/usr/bin/podman", environ, ("--runtime=runc",))))

    assert ("GlobalArgs", "--runtime=runc") in found["Container"]
    told = [value for key, value in found["Service"] if key == "Environment"]
    assert [systemd_words(value, "%") for value in told] == [["XDG_DATA_HOME=/my data/100%"]]
    assert all(" --runtime=runc volume create" in value for key, value in found["Service"] if key == "ExecStartPre")


def test_a_unit_lies_where_systemd_looks(tmp_path: Path) -> None:
    """Below XDG_CONFIG_HOME, which has to be absolute, or else .config."""
    desk = Desk(tmp_path)
    assert unit_path(desk.context(), "blue") == f"{tmp_path}/config/containers/systemd/minifram-blue.container"
    context = desk.context(XDG_CONFIG_HOME="not/absolute")
    assert unit_path(context, "blue") == f"{tmp_path}/pm/.config/containers/systemd/minifram-blue.container"


def test_an_agent_that_podman_never_ran_gets_no_unit(tmp_path: Path) -> None:
    """Its image, volumes and key need not be there; the PM reads what to do first. Without an agent, likewise."""
    desk = Desk(tmp_path)
    desk.write_project()
    assert desk.run("generate", "quadlet").code == 4
    desk.done("init")
    for words in ((), ("--install",), ("--check",)):
        ended = desk.run("generate", "quadlet", *words)
        assert (ended.code, ended.out) == (6, "")
        assert "minifram up --sandbox podman" in ended.err


@pytest.mark.parametrize("words", [(), ("compose",), ("quadlet", "--install", "--check")])
def test_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What is generated has to be named; writing and looking are two things."""
    assert Desk(tmp_path).run("generate", *words).code == 2


@pytest.fixture
def desk(workshop: Workshop) -> Iterator[ContainerDesk]:
    with a_desk(workshop) as ready:
        yield ready
        installed(ready).unlink(missing_ok=True)


def installed(desk: ContainerDesk) -> Path:
    return desk.user.home / f".config/containers/systemd/minifram-{desk.agent}.container"


def level(desk: ContainerDesk) -> str:
    (found,) = (item for item in desk.call("doctor", "--json").json["results"] if item["check"] == "quadlet")
    return str(found["level"])


@pytest.mark.heavy
@pytest.mark.timeout(WAIT_SECONDS)
def test_from_print_to_stale(desk: ContainerDesk) -> None:
    """Printed and installed are the same; doctor and --check find what was edited and what settings changed since; a
    file that is not of our making stays; without the key there is no unit."""
    settings = "sandbox: podman\nmodel: {provider: anthropic}\n"
    desk.settings(settings)
    desk.done("up", ANTHROPIC_API_KEY="sk-ant-not-a-real-key")
    path = installed(desk)

    printed = desk.done("generate", "quadlet")
    assert "sk-ant" not in printed.out
    words = desk.inspected()["Config"]["Labels"]["minifram.words"]
    assert f"PodmanArgs=--label=minifram.words={words}" in printed.out.splitlines(), "as the container that runs"
    assert desk.call("generate", "quadlet", "--check").code == 4, "none is installed"
    said = desk.done("generate", "quadlet", "--install").out
    assert f"systemctl --user start minifram-{desk.agent}" in said
    assert path.read_text() == printed.out
    assert desk.done("generate", "quadlet", "--check").out == ""
    assert level(desk) == "ok"

    path.write_text(printed.out.replace("PodmanArgs=--read-only\n", ""))
    edited = desk.call("generate", "quadlet", "--check", str(path))
    assert (edited.code, "+PodmanArgs=--read-only" in edited.out.splitlines()) == (8, True)
    assert "+PodmanArgs=--read-only" in desk.call("generate", "quadlet", "--check", "--json").json["differences"]
    assert level(desk) == "warn"
    desk.done("generate", "quadlet", "--install")
    desk.settings(settings + "podman: {pids: 300}\n")
    stale = desk.call("generate", "quadlet", "--check")
    assert (stale.code, "+PodmanArgs=--ulimit=nproc=150:150" in stale.out.splitlines()) == (8, True)
    assert desk.done("generate", "quadlet", "--install", "--json").json["file"] == str(path)
    desk.done("generate", "quadlet", "--check")

    path.write_text("[Container]\nImage=mine\n")
    assert desk.call("generate", "quadlet", "--install").code == 6
    assert path.read_text() == "[Container]\nImage=mine\n"
    desk.done("down")
    without_key = desk.call("generate", "quadlet")
    assert (without_key.code, "podman holds no key" in without_key.err) == (4, True)
