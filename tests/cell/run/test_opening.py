"""A run that is cut short is gone on with by the next runner, and nothing in it is done twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.interruption import Interrupted
from infra.cell.loop.loop import UNKNOWN
from infra.cell.loop.record import Acted, Answered, Ended, Line, Opened, Resumed, RunRecord, standing
from infra.cell.run.opening import MOST_TIMES, cut_short, why_not_resumed
from infra.cell.run_states import StopReason
from infra.shared.boot import TOOLS
from infra.shared.conversation import Request
from tests.cell.cell import Cell, read
from tests.cell.life.days import one_run
from tests.cell.loop.records import OPENING
from tests.cell.loop.replies import Canned, bash, calls, results, says, texts
from tests.cell.loop.waiting import wait_for
from tests.shared.rows import each_row

OPENED = Opened(OPENING, TOOLS, ("d1",), 9)
ANSWERED = Answered("1", calls(bash("true")))
RUN: tuple[Line, ...] = (OPENED, ANSWERED)
HANDED_OVER = Acted.of("1.1", ToolCall("1", "bash", {}), ToolResult("bye", hands_over=True), 0.0)
TIMES = (Resumed(),) * MOST_TIMES


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
    path = f"{cell.checkout}/logs/transcripts/{before.run}.jsonl"

    def kinds() -> list[str]:
        return [json.loads(line)["kind"] for line in read(path).splitlines()]

    wait_for(lambda: kinds()[-1] == "ended", "the last line, behind the report")
    assert kinds().count("opened") == kinds().count("resumed") == 1
    second.ask_to_end()


def session_of_the_command(runner: int) -> int:
    """The command leads a session of its own."""
    [child] = Path(f"/proc/{runner}/task/{runner}/children").read_text().split()
    return int(child)


def opened(**facts: Any) -> tuple[Line, ...]:
    return replace(OPENED, **facts), ANSWERED


@each_row(
    "lines, why",
    [
        (RUN, None),
        ((*RUN, Ended("interrupted")), None),
        ((*RUN, Ended("model_unavailable")), None),
        ((*RUN, Ended("completed")), ""),
        ((*RUN, Ended("no_op_loop")), ""),
        ((*RUN, HANDED_OVER), ""),
        ((OPENED,), "had not answered"),
        (opened(directives=("d2",)), "other work is first"),
        ((*RUN, *TIMES), "3 times"),
        ((*RUN, *TIMES, Ended("model_unavailable", 1, "invalid_request: x")), "3 times"),
        ((*RUN, *TIMES, Ended("model_unavailable", 1, "unavailable: x")), None),
        ((*RUN, *TIMES[1:]), None),
    ],
)
def test_when_a_run_is_gone_on_with(lines: tuple[Line, ...], why: str | None) -> None:
    """It was cut short, what it is about is still asked for, and there is hope that it ends."""
    found = why_not_resumed(standing(lines), "d1", TOOLS)
    assert (found is None) is (why is None)
    assert (why or "") in (found or "")
    assert bool(found) is bool(why)


@pytest.mark.parametrize(
    ("end", "is_resumed"), [("awaiting_approval", True), ("interrupted", True), ("", True), ("completed", False)]
)
def test_a_run_with_the_pms_answer_is_gone_on_with_though_it_was_cut_short_again(
    cell: Cell, tmp_path: Path, end: str, is_resumed: bool
) -> None:
    """What it did since the answer is not begun anew."""
    name = "2026-01-31T104212.345Z-0a1b2c3d"
    context = cell.context()
    record = RunRecord(str(tmp_path / f"{name}.jsonl"), name)
    lines = (OPENED, ANSWERED, Ended("awaiting_approval"), Resumed())
    for line in (*lines, *((Ended(end),) if end else ())):
        record.append(line)
    assert bool(cut_short(context, str(tmp_path), "d1", name)) is is_resumed


def _planted(cell: Cell) -> tuple[Path, str, str]:
    """A run that was cut short, as a runner left it: its directory, its name, and what is open."""
    cell.tell("do it")
    context = cell.context(Canned([calls(bash("true", id="1")), _interrupted]))
    seen = context.page.look()
    assert one_run(context).reason is StopReason.INTERRUPTED
    directory = Path(cell.checkout, "logs/transcripts")
    [name] = [path.stem for path in directory.iterdir()]
    return directory, name, seen.open[0].id


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
    "a line that was damaged": lambda path: path.write_text(path.read_text().replace('{"kind"', "{kind", 2)),
    "depth": lambda path: path.write_text("[" * 100_000 + "\n" + path.read_text()),
    "size": lambda path: os.truncate(path, 17 << 20),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_whatever_stands_there_the_runner_begins_anew(cell: Cell, plant: str) -> None:
    """It is an agent's file: nothing in it keeps the next version from its work, and nobody else's run is gone on
    with."""
    directory, name, work = _planted(cell)
    context = cell.context()
    found = cut_short(context, str(directory), work)
    assert found, "the control"
    assert found[0].run_id == name
    PLANTS[plant](directory / f"{name}.jsonl")
    assert cut_short(context, str(directory), work) is None
