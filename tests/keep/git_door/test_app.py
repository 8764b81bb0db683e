"""The git door as its own process: how it opens and ends, and what it answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from infra.cell.doors import Keep, Refused
from infra.keep.git_door.judge import JudgePush
from infra.keep.watcher_file import WatcherFile, encode
from infra.shared import comms
from infra.shared.door import Failure, Health, Healthy, ask
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.requests import Ask, Done, Report, Tips, Where
from infra.shared.sockets import connect, listen
from tests.keep.git_door.door import ROOT, Door
from tests.keep.git_door.world import PAGE, START_SECONDS, World


@pytest.fixture
def door(world: World) -> Iterator[Door]:
    made = Door(world)
    try:
        yield made.opened()
    finally:
        made.process.kill()
        made.process.wait()


def is_healthy(world: World) -> bool:
    return ask(world.places.git_socket, Health(), Healthy, START_SECONDS) == Healthy()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly(world: World, door: Door, how: signal.Signals) -> None:
    """Asked to end, it hangs up on who waits for news and exits with 0."""
    with contextlib.closing(connect(world.places.git_socket, START_SECONDS)) as waits:
        waits.sendall(b'{"do":"tips","main":"%s"}\n' % str(world.main).encode())
        assert is_healthy(world)
        door.process.send_signal(how)
        assert door.ended() == Exit.OK
        assert waits.recv(1) == b""
    assert door.events[-1] == "door.closed"


def test_one_door_at_a_socket(world: World, door: Door) -> None:
    """A second one ends, and one that was killed is no obstacle."""
    second = Door(world)
    assert second.ended() == Exit.CONFLICT
    assert "is in use by another program" in str(second.log[-1]["reason"])
    assert is_healthy(world)
    door.process.kill()
    door.process.wait()
    assert os.path.lexists(world.places.git_socket)
    again = Door(world).opened()
    again.process.terminate()
    assert again.ended() == Exit.OK


def test_a_socket_of_somebody_elses_is_left_alone(world: World) -> None:
    """Whatever answers at the socket's path keeps it."""
    world.close_door()
    with contextlib.closing(listen(world.places.git_socket)):
        assert Door(world).ended() == Exit.CONFLICT
        assert os.path.lexists(world.places.git_socket)


def test_a_socket_path_that_is_too_long(world: World) -> None:
    """The kernel's limit is said in words."""
    world.places = world.places._replace(run=f"{world.root}/{'long/' * 25}")
    door = Door(world)
    assert door.ended() == Exit.FAILURE
    assert "choose a shorter run directory" in str(door.log[-1]["reason"])


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("missing", "no repository at"),
        ("empty", "is not a git repository"),
        ("a file", "no repository at"),
        ("work tree", "is a repository with a work tree, expected a bare one"),
        ("inside another", "is not a git repository"),
    ],
)
def test_what_is_no_bare_repository(world: World, what: str, words: str) -> None:
    """Anything but a bare repository is named, with what makes one."""
    place = world.root / "other"
    if what == "a file":
        place.write_text("x")
    elif what == "inside another":
        place = world.pm.path / "src"
    elif what != "missing":
        place.mkdir()
        if what == "work tree":
            world.pm.git("init", "--quiet", str(place))
            place /= ".git"
    world.places = world.places._replace(remote=str(place))
    door = Door(world)
    assert door.ended() == Exit.NOT_FOUND
    assert words in str(door.log[-1]["reason"])
    assert "'minifram init' makes one" in str(door.log[-1]["reason"])


def test_settings_that_are_none(world: World) -> None:
    """A key that is not known ends it before it opens."""
    door = Door(world, "no_such: key\n")
    assert door.ended() == Exit.CONFIG
    assert "no_such" in str(door.log[-1]["reason"])


def test_idle_it_rests(world: World, door: Door) -> None:
    """Though many wait for news, it calls no git and does nearly nothing."""
    waiting = [connect(world.places.git_socket, START_SECONDS) for _ in range(50)]
    for each in waiting:
        each.sendall(b'{"do":"tips","main":"%s"}\n' % str(world.main).encode())
    assert is_healthy(world)

    def ticks() -> int:
        fields = Path(f"/proc/{door.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:15])  # its own, and of what it called

    before = ticks()
    time.sleep(1.5)
    assert ticks() - before < 15  # of a hundred in each second
    for each in waiting:
        each.close()


def test_who_waits_keeps_nobody_waiting(world: World, door: Door) -> None:
    """The last place is the watcher's as well: who is of the keep's user is always let in."""
    with contextlib.ExitStack() as open_:
        for _ in range(90):
            wire = open_.enter_context(connect(world.places.git_socket, START_SECONDS))
            with contextlib.suppress(OSError):
                wire.sendall(b'{"do":"tips","main":"%s"}\n' % str(world.main).encode())
        assert is_healthy(world)


def test_a_request_that_is_none_is_refused(world: World, door: Door) -> None:
    """In words, and another is answered after it."""
    for line in (
        b"nothing\n",
        b'{"do":"reports"}\n',
        b'{"do":"examine","branch":"../x","commit":"%s"}\n' % (b"a" * 40),
    ):
        with connect(world.places.git_socket, START_SECONDS) as wire:
            wire.sendall(line)
            assert wire.recv(1 << 16).startswith(b'{"failure":{"type":"refused"')
    assert is_healthy(world)


def test_damage_of_the_repository_is_for_later(world: World, door: Door) -> None:
    main = Path(f"{world.places.remote}/refs/heads/main")
    before = main.read_text()
    main.write_text("garbage")
    found = ask(world.places.git_socket, Tips(), Where, START_SECONDS)
    assert isinstance(found, Failure)
    assert found.retriable
    main.write_text(before)
    assert ask(world.places.git_socket, Tips(), Where, START_SECONDS) == Where(before.strip())


def test_it_asks_for_the_agent_and_records_what_it_saw(world: World, door: Door) -> None:
    """A question with an id of the keep's, and the record under the report of a run's end."""
    keep, commit = Keep(world.places.git_socket), world.main or ""
    question = Ask("bash", {"command": "touch a"}, "rule 1", "main", commit)
    asked = keep.question(question)
    world.agent.git("pull", "--quiet", "--rebase", "origin", "main")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("main")

    [be_good] = comms.open_directives(PAGE)
    keep.report(Report("0" * 32, "main", commit, "done: it", "I pushed it.", (be_good.id,)))
    world.pm.git("fetch", "--quiet", "origin")
    page = world.pm.git("show", "origin/main:COMMS.md")
    assert f"approval wanted [{asked.id}]: bash" in page
    assert "- commits: 1 on main (+1 -0 lines)" in page
    assert "**" not in page
    assert keep.question(question).id != asked.id, "the work that asked is done"
    with pytest.raises(Refused, match="no title"):
        keep.report(Report("1" * 32, "main", commit, " ", ""))
    write_whole(world.places.watcher_state, encode(WatcherFile(runner_pid=1)))
    for speaks in (partial(keep.report, Report("2" * 32, "main", commit, "x", "")), partial(keep.question, question)):
        with pytest.raises(Refused, match="runner alone"):
            speaks()


def test_what_writes_the_page_is_done_in_turn(world: World, door: Door) -> None:
    """Also when a client leaves in between: its report is on the page once, and so is everybody's."""
    commit = world.main or ""

    def tell(number: int) -> None:
        request = Report(f"{number:032x}", "main", commit, f"done: {number}", "")
        assert isinstance(ask(world.places.git_socket, request, Done, 60), Done)

    with socket.socket(socket.AF_UNIX) as leaves:
        leaves.connect(world.places.git_socket)
        leaves.sendall(
            b'{"do":"report","id":"%s","branch":"main","commit":"%s","title":"left","text":""}\n'
            % (b"f" * 32, commit.encode())
        )
    threads = [threading.Thread(target=tell, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell(0)
    page = world.pm.git("--git-dir", world.places.remote, "show", "main:COMMS.md")
    assert [page.count(f"done: {number}") for number in range(6)] == [1] * 6
    assert page.count(" left") == 1
    assert "request.failed" not in door.events


def test_a_command_of_the_cell_does_not_speak_for_the_agent(world: World, door: Door) -> None:
    """A child of the runner, with all that the runner has: its report and its question are refused."""
    tell = f"Keep({world.places.git_socket!r}).report(Report('0' * 32, 'main', 'a' * 40, 'done: it', ''))"
    command = f"from infra.cell.doors import Keep; from infra.shared.requests import Report; {tell}"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "Refused: reports, questions and events are taken from the agent's runner alone" in done.stderr


def test_a_push_whose_client_left_is_not_judged(world: World, door: Door) -> None:
    """Its objects are gone: that is no refusal, and nobody hears one."""
    lines = f"{'0' * 40} {'1' * 40} refs/notes/x\n".encode()
    for quarantine, answered in ((b"", True), (b"/nonexistent", False)):
        with connect(f"{world.places.var}/door/judge.sock", START_SECONDS) as wire:
            wire.sendall(msgspec.json.encode(JudgePush(lines, quarantine)) + b"\n")
            assert bool(wire.recv(1 << 16)) is answered
    assert door.events.count("push.refused") == 1
