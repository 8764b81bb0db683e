"""`minifram upgrade` with real rootless containers, whose entrypoint and whose proof are stand-ins."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.container_desk import ENTRYPOINT, WAIT_SECONDS, ContainerDesk, Workshop, a_desk, write_project
from tests.host.desk import wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(WAIT_SECONDS)]

PROVED, DISPROVED = "exit 0", "echo '  1.0 s  FAILED: it did not hop'; exit 1"
KEY = "sk-ant-not-a-real-key"
PIN = {"version": "v", "commit": "c" * 40, "branch": "main", "why": "it hangs", "at": "2026-01-31T10:42:12.345Z"}


@pytest.fixture
def desk(workshop: Workshop) -> Iterator[ContainerDesk]:
    """An agent at work whose watcher remembers a pin."""
    with a_desk(workshop) as ready:
        Path(ready.home.state).mkdir(exist_ok=True)
        state = Path(ready.home.state, "watcher.json")
        state.write_text(json.dumps({"schema": "minifram.watcher/1", "pins": [PIN]}))
        ready.done("up")
        shared = version(ready)  # with all desks of the workshop: to force it away would end their containers
        yield ready
        for each in ready.made:
            if each != shared:
                ready.podman("rmi", "--force", f"localhost/minifram:{each}", check=False)


def newer(desk: ContainerDesk, behaviour: str = "works", mark: str = "") -> None:
    """The installed minifram is another now, and its containers behave like that."""
    desk.project = desk.user.directory(f"newer-{mark}{behaviour}-{desk.agent}")
    write_project(desk.project, **{"newer.py": f"VERSION = '{mark}{desk.agent}'\n"})
    entrypoint = desk.project / ENTRYPOINT
    line = 'behaviour = how[1] if how else "works"'
    text = entrypoint.read_text()
    assert line in text
    text = text.replace(line, f'behaviour = "{behaviour}"')
    if behaviour != "works":  # such a watcher spoils the memory, too
        text = text.replace('"pins": _pins()', '"pins": []')
    entrypoint.write_text(text)


def version(desk: ContainerDesk) -> str:
    """Of what runs."""
    found = str(desk.inspected()["Config"]["Labels"]["minifram.version"])
    if found not in desk.made:
        desk.made.append(found)
    return found


def upgrade(desk: ContainerDesk, *words: str, proof: str = PROVED) -> Any:
    return desk.call("upgrade", "--timeout", "8", *words, LAUNCH_WITH_PROOF=proof)


def page(desk: ContainerDesk) -> str:
    return desk.user.run("git", "-C", desk.home.remote, "show", "main:COMMS.md").stdout


def memory(desk: ContainerDesk) -> dict[str, Any]:
    return dict(json.loads(Path(desk.home.state, "watcher.json").read_text()))


def is_settled(desk: ContainerDesk) -> bool:
    """One container, which runs, and nothing half done."""
    return (
        desk.inspected()["State"]["Running"]
        and not desk.is_there("container", desk.names.aside)
        and not Path(desk.home.switch_file).exists()
    )


def test_a_good_image_takes_the_agent_over_and_back_again_by_hand(desk: ContainerDesk) -> None:
    """State and key are kept; the same version again is a word; the image of before stays for --back."""
    before = version(desk)
    same = desk.done("upgrade")
    assert "already" in same.out
    assert desk.call("upgrade", "--back").code == 4
    desk.settings("sandbox: podman\nmodel: {provider: anthropic}\n")
    desk.done("restart", ANTHROPIC_API_KEY=KEY)
    newer(desk)

    upgraded = upgrade(desk, "--json")

    assert upgraded.code == 0, upgraded
    assert "proving" in upgraded.err
    assert (upgraded.json["before"], upgraded.json["after"]) == (before, version(desk))
    assert version(desk) != before
    assert is_settled(desk)
    assert memory(desk)["pins"] == [PIN]
    assert desk.done("status", "--json").json["running"]
    assert desk.seen()["key"] == len(KEY)
    assert KEY not in upgraded.out + upgraded.err + Path(desk.home.switched_file).read_text()

    back = upgrade(desk, "--back", proof=DISPROVED)

    assert back.code == 0, back
    assert version(desk) == before
    assert is_settled(desk)
    assert desk.seen()["key"] == len(KEY)


def test_an_image_that_fails_its_proof_is_not_taken(desk: ContainerDesk) -> None:
    """The container is the very one that it was; the reason and the place of the whole story are told."""
    pid = desk.inspected()["State"]["Pid"]
    newer(desk)

    refused = upgrade(desk, proof=DISPROVED)

    assert refused.code == 1, refused
    assert "it did not hop" in refused.err
    assert "upgrade-proof.log" in refused.err
    assert desk.inspected()["State"]["Pid"] == pid
    assert is_settled(desk)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("hangs", "has not booted"),
        # With the real watcher: tests/sealed/test_upgrade.py.
        pytest.param("refuses", "ended with 5", marks=pytest.mark.long),
    ],
)
def test_an_image_that_does_not_serve_goes_again(desk: ContainerDesk, behaviour: str, words: str) -> None:
    """The old container is back with its memory, and the PM reads why in both places, once."""
    before, container = version(desk), desk.inspected()["Id"]
    newer(desk, behaviour)

    taken_back = upgrade(desk)

    assert taken_back.code == 1, taken_back
    assert words in taken_back.err
    assert (version(desk), desk.inspected()["Id"]) == (before, container)
    assert is_settled(desk)
    assert memory(desk)["pins"] == [PIN]
    assert page(desk).count("was taken back") == 1
    assert words in page(desk)
    assert desk.done("status", "--json").json["running"]
    assert "already running" in desk.call("up").err


@pytest.mark.parametrize(
    ("behaviour", "goes_on_by"),
    [("works", "up"), ("hangs", "upgrade"), pytest.param("refuses", "up", marks=pytest.mark.long)],
)
def test_an_upgrade_that_was_killed_is_ended_by_the_next_command(
    desk: ContainerDesk, behaviour: str, goes_on_by: str
) -> None:
    """kill -9 while the new container is awaited, then a power cut: it goes forward when that serves, else back."""
    before = version(desk)
    newer(desk, behaviour)
    cut_short(desk, "waiting for the seal")
    assert desk.is_there("container", desk.names.aside)
    assert len(desk.podman("ps", "--quiet", f"--filter=name={desk.names.container}").split()) <= 1
    desk.podman("kill", desk.names.container, check=False)
    assert "upgrade" in desk.call("status").out
    assert "cut short" in desk.call("doctor").out

    ended = desk.call(goes_on_by, "--timeout", "8")

    is_good = behaviour == "works"
    assert ended.code == (0 if is_good or goes_on_by == "up" else 1), ended
    assert (version(desk) != before) is is_good
    assert is_settled(desk)
    assert ("was taken back" in page(desk)) is not is_good
    assert memory(desk)["pins"] == [PIN]


def test_down_gives_an_upgrade_up(desk: ContainerDesk) -> None:
    """Neither container stays, nor the key; the memory is the old watcher's; up starts what is installed."""
    newer(desk, "hangs")
    cut_short(desk, "waiting for the seal")

    down = desk.done("down")

    assert "given up" in down.err
    assert not desk.is_there("container", desk.names.container)
    assert not desk.is_there("container", desk.names.aside)
    assert not Path(desk.home.switch_file).exists()
    assert memory(desk)["pins"] == [PIN]
    newer(desk, mark="good")
    desk.done("up")
    assert is_settled(desk)
    version(desk)


def test_an_old_container_that_is_gone_is_made_anew(desk: ContainerDesk) -> None:
    """`podman container prune` takes what does not run; the image is there."""
    before = version(desk)
    newer(desk, "hangs")
    cut_short(desk, "waiting for the seal")
    desk.podman("rm", desk.names.aside)

    ended = upgrade(desk)

    assert ended.code == 1, ended
    assert version(desk) == before
    assert is_settled(desk)
    assert memory(desk)["pins"] == [PIN]


def test_a_journal_that_cannot_be_read_is_given_up_by_down(desk: ContainerDesk) -> None:
    """Nothing goes on by guess; nothing but the journal is lost."""
    newer(desk)
    cut_short(desk, "waiting for the seal")
    Path(desk.home.switch_file).write_text("{")

    refused = desk.call("upgrade")
    assert (refused.code, "minifram down" in refused.err) == (6, True)
    desk.done("down")

    assert not desk.is_there("container", desk.names.aside)
    desk.done("up")
    assert is_settled(desk)


def test_ctrl_c_while_it_proves_leaves_the_agent_alone(desk: ContainerDesk) -> None:
    """The proof is ended, too; nothing is half done."""
    pid = desk.inspected()["State"]["Pid"]
    newer(desk)
    begun, noted = Path(desk.home.data, "begun"), Path(desk.home.data, "noted")
    proof = f"trap 'echo over >{noted}; exit 130' INT; echo >{begun}; while :; do sleep 0.1; done"
    with desk.spawn("upgrade", LAUNCH_WITH_PROOF=proof) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "proving" in line:
                break
        wait_for(begun.exists)
        again = upgrade(desk)
        assert (again.code, "being proved" in again.err) == (75, True)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 130
    assert noted.read_text() == "over\n"
    assert desk.inspected()["State"]["Pid"] == pid
    assert is_settled(desk)


def test_an_agent_that_is_down_or_in_no_container_has_nothing_to_upgrade(desk: ContainerDesk) -> None:
    """Each is told what to do instead."""
    desk.done("down")
    assert desk.call("upgrade").code == 3
    desk.call("up", "--sandbox", "process", "--timeout", "0")
    refused = desk.call("upgrade")
    assert (refused.code, "minifram restart" in refused.err) == (6, True)


def cut_short(desk: ContainerDesk, at: str) -> None:
    """An upgrade that is killed, without a word, when it has said `at`."""
    with desk.spawn("upgrade", "--timeout", "60", LAUNCH_WITH_PROOF=PROVED) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if at in line:
                break
        process.kill()
        process.communicate(timeout=60)
    version(desk)
