"""A run that is cut short is gone on with by the next runner, and nothing in it is done twice."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.interruption import Interrupted
from infra.cell.log import Log
from infra.cell.loop.loop import Acting
from infra.cell.loop.player import UNKNOWN
from infra.cell.loop.recorded import Done, Recorded
from infra.cell.run_states import StopReason
from infra.cell.runner.resume import MOST_AGE_SECONDS, MOST_TIMES, cut_short, last_run, lines_of, why_not_resumed
from infra.cell.runner.run import work_on
from infra.cell.runner.transcript import Transcript
from infra.shared.conversation import Message, Request, Text
from tests.cell.cell import Cell, read
from tests.cell.loop.replies import Canned, bash, calls, results, says, texts
from tests.cell.loop.waiting import wait_for
from tests.shared.rows import each_row

RUN = Recorded(
    "run-1",
    Request((), (), ()),
    ("d1",),
    "boot",
    9,
    (says("a"),),
    {},
    frozenset(),
    {},
    {},
    0,
    "1970-01-01T00:00:10.000Z",
)
OPENING = Request(("You.",), (Message("user", (Text("Continue."),)),), ())


@pytest.mark.fault("F02")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.heavy
def test_the_next_runner_goes_on_where_the_last_one_was_ended(cell: Cell, tmp_path: Path, how: signal.Signals) -> None:
    """Killed in the middle of a command, or asked to end: what was done is on record, what was begun is not begun
    again, and the PM gets one report of one run."""
    did = tmp_path / "did"
    cell.tell("do it")
    first = cell.start(cell.boot())
    cell.model.replies += [
        calls(bash(f"echo one >> {did}", id="1")),
        calls(bash(f"echo two >> {did}; exec sleep 1000", id="2"), bash(f"echo three >> {did}", id="3")),
    ]
    wait_for(lambda: did.exists() and did.read_text() == "one\ntwo\n", "the second command")
    sleeping = session_of_the_command(first.process.pid)
    first.process.send_signal(how)
    first.ended()
    if how is signal.SIGKILL:
        os.killpg(sleeping, signal.SIGKILL)  # as the watcher does, before it starts another
    cell.tell("and this")

    cell.model.replies.append(says("It is done."))
    second = cell.start(cell.boot())
    wait_for(lambda: cell.reported("It is done."), "the report")

    assert did.read_text() == "one\ntwo\n"
    before, after = cell.model.requests[1], cell.model.requests[2]
    assert after.messages[: len(before.messages)] == before.messages
    assert after.run == before.run
    begun, behind_it = results(after)
    assert (begun.tool_use_id, begun.content) == ("2", UNKNOWN)
    assert behind_it.content.startswith("not run: ")
    [told] = texts(after)
    assert "it continues here" in told
    assert "and this" in told, "what the PM said meanwhile"
    assert cell.open() == []
    [name] = os.listdir(f"{cell.checkout}/logs/transcripts")
    path = f"{cell.checkout}/logs/transcripts/{name}"

    def kinds() -> list[str]:
        return [json.loads(line)["kind"] for line in read(path).splitlines()]

    wait_for(lambda: kinds()[-1] == "ended", "the last line, behind the report")
    assert kinds().count("opened") == kinds().count("resumed") == 1
    second.ask_to_end()


def session_of_the_command(runner: int) -> int:
    """The command leads a session of its own."""
    [child] = Path(f"/proc/{runner}/task/{runner}/children").read_text().split()
    return int(child)


@pytest.mark.heavy
def test_what_the_pm_takes_back_is_not_gone_on_with(cell: Cell) -> None:
    """Another page, another run."""
    cell.tell("do it")
    first = cell.start(cell.boot())
    cell.model.replies += [calls(bash("exec sleep 1000", id="1"))]
    wait_for(lambda: "acting" in _transcripts(cell), "the command")
    first.ask_to_end()
    first.ended()
    cell.pm_edits(lambda page: page.replace("do it", "do something else"), "another thing")

    cell.model.replies.append(says("Another thing is done."))
    cell.start(cell.boot())
    wait_for(lambda: cell.reported("Another thing is done."), "the report")

    assert len(cell.model.requests[1].messages) == 3, "the opening alone"
    assert cell.model.requests[1].run != cell.model.requests[0].run


def _unit(cell: Cell, *replies: Any) -> Canned:
    """One run on all that is open, in this process."""
    canned = Canned(replies)
    context = cell.context(canned)
    seen = context.page.look()
    work_on(context, seen, seen.open, None, look_back=True)
    return canned


def _transcripts(cell: Cell) -> str:
    name = last_run(f"{cell.checkout}/logs/transcripts")
    return read(f"{cell.checkout}/logs/transcripts/{name}.jsonl") if name else ""


@each_row(
    "change, why",
    [
        ({}, None),
        ({"end": "interrupted"}, None),
        ({"end": "completed"}, ""),
        ({"done": {(1, 1): Done(ToolCall("1", "bash", {}), ToolResult("bye", hands_over=True))}}, ""),
        ({"machine": "another"}, "machine"),
        ({"completions": ()}, "had not answered"),
        ({"directives": ("d1", "d2")}, "not open any more"),
        ({"directives": ()}, "not open any more"),
        ({"end": "model_unavailable"}, None),
        ({"end": "no_op_loop"}, ""),
        ({"resumed": MOST_TIMES}, "3 times"),
        ({"resumed": MOST_TIMES - 1}, None),
        ({"at": "1969-12-31T00:00:00.000Z"}, "last line"),
        ({"at": "yesterday"}, None),
        ({"at": "2999-01-01T00:00:00.000Z"}, "last line"),
    ],
)
def test_when_a_run_is_gone_on_with(change: dict[str, Any], why: str | None) -> None:
    """It was cut short, what it is about is still asked for, and there is hope that it ends."""
    found = why_not_resumed(RUN._replace(**change), {"d1", "d3"}, "boot", MOST_AGE_SECONDS)
    assert (found is None) is (why is None)
    assert (why or "") in (found or "")
    assert bool(found) is bool(why)


class NoLog:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, event: str, **facts: object) -> None:
        self.warnings.append(event)


NAMED = "2026-01-31T104212.000Z-0123abcd"


def test_a_record_with_gaps_is_not_gone_on_with(cell: Cell, tmp_path: Path) -> None:
    """What it does not tell would be done again; so its name says that it has gaps, and the log says so once."""
    log = NoLog()
    path = tmp_path / "transcripts" / f"{NAMED}.jsonl"
    transcript = Transcript(str(path), NAMED, log)  # type: ignore[arg-type]
    transcript.opened(OPENING, ["d1"], 9)
    with _no_room_beyond(path.stat().st_size + 10):
        transcript.resumed("b" * 32, "c" * 40)
        transcript.resumed("b" * 32, "c" * 40)
    transcript.resumed("b" * 32, "c" * 40)
    assert log.warnings == ["transcript.not_written"]
    assert os.listdir(path.parent) == [f"{NAMED}.gaps.jsonl"]
    assert last_run(str(path.parent)) == f"{NAMED}.gaps"
    assert cut_short(cell.context(), str(path.parent), ["d1"]) is None


def test_what_no_line_can_hold_is_a_gap(tmp_path: Path) -> None:
    """Arguments nested without end cost the record its wholeness, and nobody the run."""
    log = NoLog()
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    path = tmp_path / f"{NAMED}.jsonl"
    transcript = Transcript(str(path), NAMED, log)  # type: ignore[arg-type]
    transcript.opened(OPENING, ["d1"], 9)
    transcript.add(Acting(1, 1, ToolCall("1", "bash", deep)))
    assert log.warnings == ["transcript.not_written"]
    assert [file.name for file in tmp_path.iterdir()] == [f"{NAMED}.gaps.jsonl"]


def _planted(cell: Cell) -> tuple[Path, str, list[str]]:
    """A run that was cut short, as a runner left it: its directory, its name, and what is open."""
    cell.tell("do it")
    context = cell.context(Canned([calls(bash("true", id="1")), _interrupted]))
    seen = context.page.look()
    assert work_on(context, seen, seen.open, None, look_back=True).reason is StopReason.INTERRUPTED
    directory = Path(cell.checkout, "logs/transcripts")
    [name] = [path.stem for path in directory.iterdir()]
    return directory, name, [task.id for task in seen.open]


def _interrupted(request: Request) -> Any:
    raise Interrupted


PLANTS: dict[str, Any] = {
    "a copy": lambda path: path.with_name("2999-01-01T000000.000Z-01234567.jsonl").write_bytes(path.read_bytes()),
    "a pipe": lambda path: os.mkfifo(path.with_name("2999-01-01T000000.000Z-01234567.jsonl")),
    "a link": lambda path: path.with_name("2999-01-01T000000.000Z-01234567.jsonl").symlink_to(path),
    "a directory": lambda path: path.with_name("2999-01-01T000000.000Z-01234567.jsonl").mkdir(),
    "numbers without end": lambda path: path.write_text(
        path.read_text().replace('"most_steps": 20', '"most_steps": 1e999')
    ),
    "a line that was damaged": lambda path: path.write_text(path.read_text().replace('{"at"', "{at", 2)),
    "depth": lambda path: path.write_text(path.read_text() + "[" * 100_000 + "\n"),
    "size": lambda path: os.truncate(path, 17 << 20),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_whatever_stands_there_the_runner_begins_anew(cell: Cell, plant: str) -> None:
    """It is an agent's file: nothing in it keeps the next version from its work, and nobody else's run is gone on
    with."""
    directory, name, tasks = _planted(cell)
    context = cell.context()
    found = cut_short(context, str(directory), tasks)
    assert found, "the control"
    assert found.run_id == name
    PLANTS[plant](directory / f"{name}.jsonl")
    assert cut_short(context, str(directory), tasks) is None


def test_a_copy_under_a_name_that_no_run_has_is_passed_over(cell: Cell) -> None:
    """As editors and people leave them beside a file."""
    directory, name, tasks = _planted(cell)
    for other in (f"{name}.orig.jsonl", "z.jsonl", "2999.jsonl"):
        (directory / other).write_bytes((directory / f"{name}.jsonl").read_bytes())
    found = cut_short(cell.context(), str(directory), tasks)
    assert found
    assert found.run_id == name


@contextlib.contextmanager
def _no_room_beyond(size: int) -> Iterator[None]:
    """No file may be larger, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_half_a_line_is_passed_over_and_ended(tmp_path: Path) -> None:
    """A power cut in the middle of a line costs that line alone."""
    path = tmp_path / f"{NAMED}.jsonl"
    transcript = Transcript(str(path), NAMED, _log())
    transcript.opened(OPENING, ["d1"], 9)
    with open(path, "ab") as file:
        file.write(b'{"at": "2026')
    transcript.resumed("b" * 32, "c" * 40)
    assert [line["kind"] for line in lines_of(str(path))] == ["opened", "resumed"]


def _log() -> Log:
    return NoLog()  # type: ignore[return-value]
