"""What the git door answers, and to whom; and the door as a process: how it opens and ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from infra.cell.doors import Keep, Refused
from infra.keep.door_server import Refusal
from infra.keep.git_door.app import answer
from infra.keep.git_door.caller import is_runner
from infra.keep.git_door.judge import JudgePush
from infra.keep.git_door.tips import Unreadable, Watch
from infra.keep.watcher_file import Runner, State, encode
from infra.shared import comms
from infra.shared.door import Failure, ask, connect
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.requests import Ask, Done, Record, Recorded, Report, Tips, Where
from tests.keep.git_door.world import PAGE, World
from tests.keep.model_door.doors import SECONDS, KeepDoor


def note(world: World, pid: int) -> None:
    """For the runner's."""
    write_whole(world.places.watcher_state, encode(State(runner=Runner(pid=pid))))


@pytest.fixture
def door(world: World) -> Iterator[KeepDoor]:
    """It takes this very process for the runner."""
    world.close_door()
    note(world, os.getpid())
    with KeepDoor("git_door", world.places.git_socket, world.places, world.root, "") as made:
        yield made


def test_it_is_alone_at_its_socket_and_ends_cleanly(world: World, door: KeepDoor) -> None:
    """A second one ends. Asked to end, it hangs up on who waits for news and exits with 0."""
    second = KeepDoor("git_door", world.places.git_socket, world.places, world.root / "second", "")
    assert second.launch().wait(SECONDS) == Exit.CONFLICT
    assert "is in use by another program" in second.reason
    with contextlib.closing(connect(world.places.git_socket, SECONDS)) as waits:
        waits.sendall(b'{"do":"tips","main":"%s"}\n' % str(world.main).encode())
        assert door.say(b'{"do":"health"}')
        assert door.signal(signal.SIGTERM) == Exit.OK
        assert waits.recv(1) == b""
    assert "door.closed" in door.log


def test_what_is_no_request_and_damage_of_the_repository(world: World) -> None:
    """The one is refused in words, the other is for later."""
    with connect(world.places.git_socket, SECONDS) as wire:
        wire.sendall(b'{"do":"examine","branch":"../x","commit":"%s"}\n' % (b"a" * 40))
        assert wire.recv(1 << 16).startswith(b'{"failure":{"type":"refused"')
    Path(f"{world.places.remote}/refs/heads/main").write_text("garbage")
    found = ask(world.places.git_socket, Tips(), Where, SECONDS)
    assert isinstance(found, Failure)
    assert found.retriable


@pytest.mark.attack("S63", "S65")
def test_it_asks_for_the_agent_and_records_what_it_saw(world: World, door: KeepDoor) -> None:
    """A question with an id of the keep's, and the record under the report of a run's end; whoever is not the process
    that the watcher launched says nothing in the agent's name."""
    keep, commit = Keep(world.places.git_socket), world.main or ""
    question = Ask("bash", {"command": "touch a"}, "rule 1", "main", commit)
    asked = keep.question(question)
    world.agent.git("pull", "--quiet", "--rebase", "origin", "main")
    world.agent.commit({"src/b.py": "1\n"}, to="main")

    [be_good] = comms.open_directives(PAGE)
    keep.report(Report("0" * 32, "main", commit, "done: it", "I pushed it.", (be_good.id,)))
    page = world.shown("COMMS.md") or ""
    assert f"approval wanted [{asked.id}]: bash" in page
    assert "- commits: 1 on main (+1 -0 lines)" in page
    assert "**" not in page
    assert keep.question(question).id != asked.id, "the work that asked is done"
    with pytest.raises(Refused, match="no title"):
        keep.report(Report("1" * 32, "main", commit, " ", ""))
    note(world, 1)
    report = partial(keep.report, Report("2" * 32, "main", commit, "x", ""))
    for speaks in (report, partial(keep.question, question), partial(keep.record, [{"event_type": "note"}])):
        with pytest.raises(Refused, match="runner alone"):
            speaks()


def test_what_writes_the_page_is_done_in_turn(world: World) -> None:
    """Also when a client leaves in between: its report is on the page once, and so is everybody's."""
    reports = [Report(f"{at:032x}", "main", world.main or "", f"done: {at}", "") for at in range(7)]
    with socket.socket(socket.AF_UNIX) as leaves:
        leaves.connect(world.places.git_socket)
        leaves.sendall(msgspec.json.encode(reports[6]) + b"\n")

    def tell(report: Report) -> None:
        assert isinstance(ask(world.places.git_socket, report, Done, 60), Done)

    threads = [threading.Thread(target=tell, args=(report,)) for report in reports[:6]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell(reports[0])
    page = world.shown("COMMS.md") or ""
    assert [page.count(f" {report.title}\n") for report in reports] == [1] * 7


def test_a_push_whose_client_left_is_not_judged(world: World) -> None:
    """Its objects are gone: that is no refusal, and nobody hears one."""
    lines = f"{'0' * 40} {'1' * 40} refs/notes/x\n".encode()
    with capture_logs() as logged:
        for quarantine, answered in ((b"", True), (b"/nonexistent", False)):
            with connect(f"{world.places.var}/door/judge.sock", SECONDS) as wire:
                wire.sendall(msgspec.json.encode(JudgePush(lines, quarantine)) + b"\n")
                assert bool(wire.recv(1 << 16)) is answered
    assert [each["event"] for each in logged] == ["push.refused"]


def test_the_runner_is_whom_the_watcher_names(world: World) -> None:
    """It may ask before its pid is noted, and is waited for; nobody is by a file that cannot be read."""

    def speaks(pid: int, patience: float = 0.0) -> bool:
        return asyncio.run(is_runner(world.places, pid, patience))

    late = threading.Timer(0.2, note, (world, os.getpid()))
    late.start()
    assert speaks(os.getpid(), patience=60.0)
    late.join()
    assert not speaks(os.getppid())
    for content in (None, b"", b"{", b"\xff", b'{"schema":"another","runner_pid":1}'):
        Path(world.places.watcher_state).unlink(missing_ok=True)
        if content is not None:
            Path(world.places.watcher_state).write_bytes(content)
        assert not speaks(os.getpid())
        assert not speaks(0)


def test_events_are_taken_or_refused_with_the_reason(world: World) -> None:
    """A log that cannot be written may be written later."""
    context, events = world.context(lambda: 1769856132.0), Path(world.places.events)
    events.write_text("a file in its place")
    with pytest.raises(Refusal) as caught:
        answer(context, Record(({"event_type": "note"},)))
    assert (caught.value.failure.type, caught.value.failure.retriable) == ("unavailable", True)
    events.unlink()
    assert answer(context, Record(({"event_type": "note"},) * 2)) == Recorded(2, "2026-01-31T10:42:12.000Z")
    assert answer(context, Record(())) == Recorded(2, "2026-01-31T10:42:12.000Z")
    with pytest.raises(Refusal) as caught:
        answer(context, Record(({"event_type": "x"},)))
    assert (caught.value.failure.type, caught.value.failure.retriable) == ("refused", False)


# Where main and the mind are, and who moves them: read from files that anybody may write to.


POLL_SECONDS = 0.01


def a_commit(world: World) -> str:
    return world.bare("commit-tree", "main^{tree}", "-m", "x")


def ref_moves_in_packed_refs(world: World) -> None:
    packed = Path(f"{world.places.remote}/packed-refs")
    text = packed.read_text().replace(str(world.main), a_commit(world))
    packed.with_name("packed-refs.lock").write_text(text)
    os.rename(packed.with_name("packed-refs.lock"), packed)


def where(world: World) -> Where:
    return Where(world.ref("refs/heads/main") or "", world.ref("refs/heads/mind") or "")


MOVES: dict[str, Callable[[World], object]] = {
    "by hand": lambda world: Path(f"{world.places.remote}/refs/heads/main").write_text(a_commit(world) + "\n"),
    "in packed-refs": ref_moves_in_packed_refs,
    "the mind is born": lambda world: world.bare("update-ref", "refs/heads/mind", a_commit(world)),
    "main goes": lambda world: world.bare("update-ref", "-d", "refs/heads/main"),
}


@pytest.mark.fault("F22")
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_whoever_moves_it_is_noticed(world: World, move: Callable[[World], object]) -> None:
    """Git in the bare repository, and files under its hands."""
    before = where(world)

    async def told() -> Where:
        watch = Watch(world.places.remote, POLL_SECONDS)
        assert await watch.news(Tips("elsewhere")) == before, "at once"
        waits = asyncio.ensure_future(watch.news(Tips(before.main, before.mind), SECONDS))
        world.bare("update-ref", "refs/heads/work", a_commit(world))
        world.bare("pack-refs", "--all")
        await asyncio.sleep(0.05)
        assert not waits.done(), "that is no news"
        await asyncio.to_thread(move, world)
        return await waits

    assert asyncio.run(told()) == where(world) != before


@pytest.mark.parametrize("garbage", ["", "garbage\n", "1" * 39, "a fifo"])
def test_damage_is_said_and_survived(world: World, garbage: str) -> None:
    """Until it is repaired."""
    main, beside = Path(f"{world.places.remote}/refs/heads/main"), world.root / "main"
    before = main.read_text()
    watch = Watch(world.places.remote, POLL_SECONDS)
    os.mkfifo(beside) if garbage == "a fifo" else beside.write_text(garbage)
    os.rename(beside, main)
    for _ in range(2):
        with pytest.raises(Unreadable):
            asyncio.run(watch.news(Tips(before.strip()), 0))
    beside.write_text(before)
    os.rename(beside, main)
    assert asyncio.run(watch.news(Tips(), 0)).main == before.strip()
