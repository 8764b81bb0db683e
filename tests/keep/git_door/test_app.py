"""The git door as its own process: how it opens and ends, and what it answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from infra.cell.doors import Keep, Refused
from infra.keep.git_door.judge import JudgePush
from infra.keep.watcher_file import Runner, State, encode
from infra.shared import comms
from infra.shared.door import Failure, Health, Healthy, ask, connect
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.requests import Ask, Done, Report, Tips, Where
from tests.keep.git_door.door import Door
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
    assert is_healthy(world), "it serves, and hears signals"
    again.process.terminate()
    assert again.ended() == Exit.OK


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


@pytest.mark.attack("S65")
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
    write_whole(world.places.watcher_state, encode(State(runner=Runner(pid=1))))
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


def test_a_push_whose_client_left_is_not_judged(world: World, door: Door) -> None:
    """Its objects are gone: that is no refusal, and nobody hears one."""
    lines = f"{'0' * 40} {'1' * 40} refs/notes/x\n".encode()
    for quarantine, answered in ((b"", True), (b"/nonexistent", False)):
        with connect(f"{world.places.var}/door/judge.sock", START_SECONDS) as wire:
            wire.sendall(msgspec.json.encode(JudgePush(lines, quarantine)) + b"\n")
            assert bool(wire.recv(1 << 16)) is answered
    assert door.events.count("push.refused") == 1
