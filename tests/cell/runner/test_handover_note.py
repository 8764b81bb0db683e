"""A directive that takes more than one conversation can hold: a run shortens, sums up, begins anew, and ends well."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from infra.cell.doors import ModelFailure
from infra.cell.loop.context.summarise import COMPACT, HAND_OVER
from infra.cell.runner import handover_note
from infra.cell.runner.handover_note import MOST_STARTS, FreshStarts
from infra.cell.runner.work import Next, Work
from infra.shared.conversation import Completion, Request, ToolResult
from infra.shared.paths import HANDOVER_NOTE
from tests.cell.loop.replies import bash, calls, results, says, texts
from tests.cell.runner.cell import Cell, limits, read
from tests.shared.rows import each_row

SUMMARY = "Half of it is done in 0123abc; the other half is open."
TOKENS = 20_000


class Digger:
    """Prints a lot, talks a lot, and is done when a run's opening tells it what a run before found out."""

    def __init__(self, until_runs: int = 2) -> None:
        self.until_runs = until_runs
        self.openings: list[str] = []
        self.steps = 0
        self.asked: list[str] = []
        self.after_summary: list[str] = []

    def __call__(self, request: Request) -> Completion:
        words = texts(request)
        if words and words[-1].startswith((COMPACT, HAND_OVER)):
            self.asked.append(words[-1].partition(":")[0])
            return says(SUMMARY)
        if len(request.messages) == 3:
            self.openings.append(results(request)[0].content)
        if SUMMARY in str(request.messages[3:4]):
            self.after_summary.append(str(request.messages[4]))
        if len(self.openings) == self.until_runs:
            read_it = any(SUMMARY in result.content for result in results(request))
            return says("All is done.") if read_it else calls(bash(f"cat {HANDOVER_NOTE}", id="read"))
        self.steps += 1
        return calls(bash(f"seq {self.steps} 900", id=f"call-{self.steps}"), text=f"{self.steps} " + "words " * 120)


def work_of(cell: Cell, model: Any, **other: Any) -> Work:
    context = cell.context(model, limits=limits(run_steps=200, context_tokens=TOKENS, **other))
    return Work(context, cell.wakes(context))


def lines(cell: Cell) -> list[list[dict[str, Any]]]:
    """The transcripts, oldest first."""
    place = f"{cell.checkout}/logs/transcripts"
    return [[json.loads(line) for line in read(f"{place}/{name}").splitlines()] for name in sorted(os.listdir(place))]


def test_a_directive_outlives_its_conversation(cell: Cell) -> None:
    """Every stage comes in its turn, each is on record, and the run after reads what the one before wrote down."""
    cell.tell("dig\n\nas deep as you can")
    model = Digger()
    work = work_of(cell, model)

    assert work.look(ticked=False) is Next.LOOK_AGAIN
    assert cell.open() == ["dig\n\nas deep as you can"]
    assert cell.reports() == []
    assert SUMMARY in read(f"{cell.checkout}/{HANDOVER_NOTE}")
    assert work.look(ticked=False) is Next.LOOK_AGAIN

    assert cell.open() == []
    assert "All is done." in cell.reports()[0]
    assert not os.path.exists(f"{cell.checkout}/{HANDOVER_NOTE}"), "nothing is left to go on with"
    first, second = lines(cell)
    marks = [line for line in first if line["kind"] in ("shortened", "summed_up", "ended")]
    cut, compacted, handed, ended = marks[0], *(line for line in marks if line["kind"] != "shortened")
    assert cut["kind"] == "shortened"
    assert cut["tokens_after"] <= TOKENS / 2 < TOKENS < cut["tokens_before"]
    assert cut["blocks"] > 0
    assert [(line["for"], line["by"], line["content"]) for line in (compacted, handed)] == [
        ("compaction", "model", SUMMARY),
        ("hand-over", "model", SUMMARY),
    ]
    assert all(line["tokens_before"] > TOKENS > line["tokens_after"] > 0 for line in (compacted, handed))
    assert ended["end"] == "context"
    assert second[-1]["end"] == "completed"
    assert HANDOVER_NOTE not in model.openings[0]
    assert HANDOVER_NOTE in model.openings[1]
    assert "as deep as you can" in model.after_summary[0], "the PM's words come after the summary again"
    assert model.asked == [COMPACT.partition(":")[0], HAND_OVER.partition(":")[0]]


def test_what_was_cut_can_be_read_where_it_says(cell: Cell) -> None:
    """The path in a shortened result leads to the whole of it."""
    cell.tell("dig")
    seen: list[str] = []
    digger = Digger(until_runs=99)

    def model(request: Request) -> Completion:
        every = [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]
        found = [result.content for result in every if "cut later" in result.content]
        if not found:
            return digger(request)
        path = found[0].partition("the whole is in ")[2].partition(",")[0]
        seen.append(path)
        return says("Enough.") if len(seen) > 1 else calls(bash(f"wc -l {path}", id="count"))

    work_of(cell, model).look(ticked=False)

    assert cell.open() == []
    assert read(f"{cell.checkout}/{seen[0]}").startswith("1\n2\n3\n")
    assert read(f"{cell.checkout}/{seen[0]}").endswith("\n900\n[exit status 0]")


@pytest.mark.heavy
def test_beginning_anew_has_an_end(cell: Cell) -> None:
    """Three times at once; then it is reported, and goes on at the tick, one run at a time."""
    cell.tell("dig")
    model = Digger(until_runs=99)
    work = work_of(cell, model, work_seconds=0.01)

    assert [work.look(ticked=False) for _ in range(MOST_STARTS + 2)] == [
        *[Next.LOOK_AGAIN] * MOST_STARTS,
        *[Next.SLEEP] * 2,
    ]
    assert len(model.openings) == MOST_STARTS + 1
    [report] = cell.reports()
    assert "stopped (context): dig" in report
    assert "what the runner or the model takes" in report
    assert SUMMARY in report
    assert cell.open() == ["dig"]

    assert [work.look(ticked=True), work.look(ticked=False)] == [Next.SLEEP, Next.SLEEP]
    assert len(model.openings) == MOST_STARTS + 2
    assert HANDOVER_NOTE in model.openings[-1], "also then"


def test_a_conversation_that_cannot_even_begin_is_the_pms_to_mend(cell: Cell) -> None:
    """A page that is too long for the model is a failure as before, not one fresh start after the other."""
    cell.tell("do it")

    def refuse(request: Request) -> Completion:
        raise ModelFailure("context_overflow", "prompt is too long")

    assert work_of(cell, refuse).look(ticked=False) is Next.SLEEP
    assert [each[-1]["end"] for each in lines(cell)] == ["model_unavailable"]


def test_a_note_about_other_directives_is_none(cell: Cell) -> None:
    """Nor one that is damaged, a pipe or a directory; and without it a run begins all the same."""
    cell.tell("one thing")
    context = cell.context()
    tasks = context.page.look().open
    note = f"{cell.checkout}/{HANDOVER_NOTE}"
    assert not handover_note.exists(context, tasks)
    handover_note.leave(context, "unit", tasks, "words")
    assert handover_note.exists(context, tasks)
    assert not handover_note.exists(context, [tasks[0]._replace(id="00000000")])
    os.unlink(note)
    assert not handover_note.exists(context, tasks)
    os.mkfifo(note)
    assert not handover_note.exists(context, tasks)
    os.unlink(note)
    os.mkdir(note)
    assert not handover_note.exists(context, tasks)
    handover_note.leave(context, "unit", tasks, "words")
    handover_note.drop(context)


@each_row(
    "runs, allowed",
    [
        (["a", "a", "a", "a", "a"], [True, True, True, False, False]),
        (["ab", "a", "b", "ab"], [True, True, True, False]),
        (["a", "a", "a", "ab", "a"], [True, True, True, True, True]),
    ],
)
def test_a_row_of_fresh_starts(runs: list[str], allowed: list[bool]) -> None:
    """A directive that is new begins another row, one that went does not; so does a run that ended otherwise."""
    starts = FreshStarts()
    assert [starts.another(set(ids)) for ids in runs] == allowed
    starts.none()
    assert [starts.another("ab") for _ in range(MOST_STARTS + 1)] == [*[True] * MOST_STARTS, False]
