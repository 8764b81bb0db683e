"""A run that is cut short is gone on with by the next runner, and nothing in it is done twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.interruption import Interrupted
from infra.cell.loop.loop import UNKNOWN
from infra.cell.loop.record import Acted, Answered, Ended, Line, Opened, Resumed, standing
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


@each_row(
    "lines, why",
    [
        (RUN, ""),
        ((*RUN, HANDED_OVER), "handed over"),
        ((OPENED,), "had not answered"),
        ((*RUN, *TIMES), "3 times"),
        ((*RUN, *TIMES, Ended("model_unavailable", 1, "invalid_request: x")), "3 times"),
        ((*RUN, *TIMES, Ended("model_unavailable", 1, "unavailable: x")), ""),
        ((*RUN, *TIMES[1:]), ""),
    ],
)
def test_when_a_run_is_gone_on_with(lines: tuple[Line, ...], why: str) -> None:
    """There is something to go on with, and hope that it ends."""
    found = why_not_resumed(standing(lines), TOOLS)
    assert why in found
    assert bool(found) is bool(why)


@pytest.mark.heavy
def test_work_goes_on_with_its_own_run_though_other_work_came_between(cell: Cell) -> None:
    cell.tell("do it")
    one_run(cell.context(Canned([calls(bash("true")), _interrupted])))
    cell.pm_edits(lambda page: page.replace("- [ ] do it", "- [ ] first\n- [ ] do it"), "more")
    model = Canned([says("First.")])
    one_run(cell.context(model))
    one_run(cell.context(model := Canned([says("Done.")])))
    assert len(model.requests[0].messages) == 5
    assert cell.open() == []


def _interrupted(request: Request) -> Any:
    raise Interrupted


def _a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


PLANTS: dict[str, Any] = {
    "a run of another name": lambda path: path.write_text(path.read_text().replace(path.stem, "2999-01-01")),
    "a pipe": _a_pipe,
    "a link": lambda path: (path.rename(f"{path}.old"), path.symlink_to(f"{path}.old")),
    "nothing": lambda path: path.unlink(),
    "numbers without end": lambda path: path.write_text(
        path.read_text().replace('"most_steps": 20', '"most_steps": 1e999')
    ),
    "a line that was damaged": lambda path: path.write_text(path.read_text().replace('{"kind"', "{kind", 2)),
    "depth": lambda path: path.write_text("[" * 100_000 + "\n" + path.read_text()),
    "size": lambda path: os.truncate(path, 17 << 20),
}


def test_whatever_stands_there_the_runner_begins_anew(cell: Cell, tmp_path: Path) -> None:
    """It is an agent's file: nothing in it keeps the next version from its work."""
    cell.tell("do it")
    context = cell.context(Canned([calls(bash("true", id="1")), _interrupted]))
    assert one_run(context).reason is StopReason.INTERRUPTED
    directory = Path(cell.checkout, "logs/transcripts")
    [path] = directory.iterdir()
    assert cut_short(context, str(directory), path.stem), "the control"
    for plant, lay in PLANTS.items():
        copied = Path(shutil.copytree(directory, tmp_path / plant))
        lay(copied / path.name)
        assert cut_short(context, str(copied), path.stem) is None, plant
