"""One run, from its opening to its report; the model's words are canned, everything else is real."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from typing import Any

import pytest

from infra.cell.doors import Keep, ModelFailure
from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import standing
from infra.cell.loop.replay import replay
from infra.cell.run import briefing
from infra.cell.run.patience import MOST_WAIT_SECONDS, OUTAGE_SECONDS, PASSING, PAUSES_SECONDS, next_wait
from infra.cell.run_states import StopReason
from infra.cell.work.work import Work
from infra.shared.boot import OPERATIONS
from infra.shared.conversation import (
    ERROR_TYPES,
    FIRST_MESSAGE,
    OPENING_PREFIX,
    Image,
    Message,
    Text,
    ToolResult,
    ToolUse,
)
from infra.shared.requests import Done, Report
from tests.cell.cell import FILES, Cell, limits, read, write
from tests.cell.life.days import Still, one_run
from tests.cell.loop.replies import Canned, Reply, bash, calls, fails, results, says, texts
from tests.cell.minds import PmMind
from tests.shared.mind.notes import item

WORK = Work("0123abcd", "do it", "do it", ticks=("0123abcd",))


def work(cell: Cell, *replies: Reply, model: Any = None, **other: Any) -> tuple[RunResult, Canned]:
    """One run on the first directive that is open."""
    canned = Canned(replies)
    context = cell.context(model or canned, **other)
    seen = context.page.look()
    context.git("merge", "--quiet", "--ff-only", seen.commit)
    return one_run(context), canned


def test_the_conversation_opens_as_the_seed_says(cell: Cell) -> None:
    """System prompt: SYSTEM.md, then COMMS.md. First user message: exactly `Continue.`. Then the runner's own read."""
    cell.tell("do it")

    _, model = work(cell, says("Done."))

    [request] = model.requests
    assert request.system == (FILES["SYSTEM.md"], cell.bare("show", "main~1:COMMS.md") + "\n")
    first, act, result = request.messages
    assert first == Message("user", (Text(FIRST_MESSAGE),))
    [use] = act.content
    assert isinstance(use, ToolUse)
    assert (act.role, use.name, use.id.startswith(OPENING_PREFIX)) == ("assistant", "read_file", True)
    assert results(request)[0].tool_use_id == use.id
    assert results(request)[0].content == read(f"{cell.checkout}/{briefing.NOW}")
    assert result.role == "user"
    assert [tool.name for tool in request.tools] == [
        *("read_file", "write_file", "edit_file", "delete_file", "bash"),
        *("fetch_page", "web_search", "bootstrap", "rollback"),
    ]
    assert request.run


def test_the_runners_note_says_where_the_model_is(cell: Cell) -> None:
    """Branch, commit, reason, paths, open directives, unmerged branches, how the checkout stands."""
    cell.tell("first thing\n\nwith more below")
    cell.tell("second thing")
    cell.branch("improve", {"src/notes.md": "better\n"})
    write(f"{cell.checkout}/half.md", "half done")
    write(f"{cell.checkout}.aside-20260131T100000000Z/work", "half done")

    _, model = work(cell, says("Done."))

    note = results(model.requests[0])[0].content
    for words in (
        "running: main at ",
        "started because: start",
        "autonomy: merge",
        "branches not in main: improve\n",
        f": {cell.checkout}.aside-20260131T100000000Z\n",
        ": first thing\n",
        "## Other open directives",
        ": second thing\n",
        "0 commits ahead of main, 0 behind, 1 files not committed",
    ):
        assert words in note
    assert "with more below" not in note, "the whole text stands in COMMS.md"


@pytest.mark.fault("F69", "F70")
def test_a_passing_failure_is_waited_out_within_the_conversation(cell: Cell) -> None:
    """The call is made again, at once and then as the provider asks; it costs no step, nothing is done twice, and the
    record says so."""
    cell.tell("do it")

    broken, busy = fails("provider_error"), fails("rate_limited", 5.0)
    dear = calls(bash("cat did"))._replace(spent=0.92)
    canned = Canned([calls(bash("echo once >> did")), broken, broken, busy, dear, says("Done.")])
    context = cell.context(canned, limits=limits(run_steps=3))
    outcome = one_run(context, still := Still(context))

    assert (outcome.reason, outcome.steps) == (StopReason.COMPLETED, 3)
    assert still.waited == [0, 1, 5]
    assert [request.messages for request in canned.requests[1:4]] == [canned.requests[4].messages] * 3
    assert results(canned.requests[-1])[0].content == "once\n[exit status 0]"
    assert "92% of the day's budget is used up" in texts(canned.requests[-1])[0]


def test_an_image_that_is_read_is_shown_and_the_record_has_its_file_alone(cell: Cell) -> None:
    """With each request from then on, also of a runner that resumes the run."""
    cell.tell("look at it")
    png = b"\x89PNG\r\n\x1a\n\0 a picture"
    with open(f"{cell.checkout}/shot.png", "wb") as file:
        file.write(png)
    image = Image("image/png", base64.b64encode(png).decode())

    _, first = work(cell, calls(ToolUse("a", "read_file", {"path": "shot.png"})), fails("authentication"))
    _, last = work(cell, calls(bash("true")), says("A picture."))

    assert [request.images for request in (*first.requests, *last.requests)] == [(), (image,), (image,), (image,)]
    [name] = os.listdir(f"{cell.checkout}/logs/transcripts")
    record = read(f"{cell.checkout}/logs/transcripts/{name}")
    assert image.data not in record
    assert f"logs/outputs/{hashlib.sha256(png).hexdigest()[:16]}.png" in record


class DiesBehindReport(Keep):
    def report(self, report: Report) -> Done:
        super().report(report)
        raise KeyboardInterrupt


@pytest.mark.heavy
def test_the_same_words_are_other_work_though_the_first_run_was_killed_behind_its_report(cell: Cell) -> None:
    cell.tell("count")
    context = cell.context(Canned([says("I counted 1.")]))
    page = context.page._replace(keep=DiesBehindReport(cell.places.git_socket))
    with pytest.raises(KeyboardInterrupt):
        one_run(context._replace(page=page))
    assert cell.open() == []

    cell.tell("count")
    one_run(cell.context(Canned([says("I counted 2.")])))
    assert cell.reported("I counted 2.")


@pytest.mark.heavy
@pytest.mark.parametrize("in_the_way", ["logs/transcripts", "logs/now.md/of the model's"])
def test_what_cannot_be_written_down_is_not_done_and_is_reported(cell: Cell, in_the_way: str) -> None:
    """The model is not asked."""
    cell.tell("do it")
    write(f"{cell.checkout}/{in_the_way}", "a file")

    outcome, model = work(cell, says("Done."))

    assert (outcome.reason, model.requests) == (StopReason.NOT_RECORDED, [])
    assert cell.reported("stopped (not_recorded): do it")
    assert len(cell.open()) == 1


# A model that acts by operations in plain text.


WRITE = """I write a note, and push it.

```json
[{"type": "createFile", "path": "src/note.md", "content": {"block": "NOTE"}},
 {"type": "shell", "command": "git add src && git commit -qm 'a note' && git push -q origin HEAD:main && echo pushed"},]
```

```block NOTE
# A note
```
"""
REPORT = "The note is written and pushed to main."


def test_it_opens_acts_and_reports(cell: Cell) -> None:
    """No tools in the request; the guide in the prompt; the briefing as an event that nobody asked for; the directive
    is ticked once the model says that those words were its report. The record replays."""
    cell.tell("Write a note.")
    outcome, model = work(cell, says(WRITE), says(REPORT), says("[]"), acts=OPERATIONS)

    assert (outcome.reason, outcome.text) == (StopReason.COMPLETED, REPORT)
    assert cell.open() == []
    assert cell.reported(REPORT)
    first, second = model.requests[:2]
    assert first.tools == ()
    assert first.system[0].startswith("You are")
    assert "# How you act" in first.system[0]
    assert ".signal/bootstrap" in first.system[0]
    [opening] = first.messages
    words, events = opening.content
    assert isinstance(words, Text)
    assert isinstance(events, Text)
    assert words.text == FIRST_MESSAGE
    [briefing] = json.loads(events.text)["events"]
    assert (briefing["type"], briefing["path"], briefing["status"]) == ("readFile", "logs/now.md", "ok")
    assert "Write a note." in briefing["content"]
    [answer] = second.messages[-1].content
    assert isinstance(answer, Text)
    made, ran = json.loads(answer.text)["events"]
    assert (made["status"], ran["stdout"], ran["exit"]) == ("ok", "pushed\n", 0)

    lines = cell.record()
    assert standing(lines).opened.acts == OPERATIONS
    assert replay(lines).differences == ()


def test_a_run_asks_for_acts_as_the_settings_say(cell: Cell) -> None:
    """It goes on as it began, but for one that called tools where a model has none now: that begins anew."""
    cell.tell("Write a note.")

    cut = fails("invalid_request")
    _, model = work(cell, calls(bash("true")), cut)
    assert model.requests[0].tools
    _, model = work(cell, says('[{"type": "shell", "command": "true"}]'), cut, acts=OPERATIONS)
    assert [(request.tools, len(request.messages)) for request in model.requests] == [((), 1), ((), 3)]
    last, model = work(cell, says(REPORT), says("[]"))
    assert (last.reason, last.text) == (StopReason.COMPLETED, REPORT)
    assert [(request.tools, len(request.messages)) for request in model.requests] == [((), 3), ((), 5)]


# How long a failed model call is waited for.


FOREVER = 1e9


@pytest.mark.parametrize(("asked", "waits"), [(2.0, 2.0), (61.0, 61.0), (1e9, MOST_WAIT_SECONDS), (0.0, 0.0)])
def test_what_the_provider_asks_for_counts_up_to_a_cap(asked: float, waits: float) -> None:
    """Also when it is longer than the pause would be."""
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", asked), FOREVER) == waits


def test_the_first_try_comes_at_once_and_then_pauses_grow() -> None:
    """Until the outage is so long that the run ends, to be resumed later."""
    waits: list[float] = []
    while (wait := next_wait(len(waits), sum(waits), ModelFailure("unavailable", ""), FOREVER)) is not None:
        waits.append(wait)
    assert waits[: len(PAUSES_SECONDS)] == list(PAUSES_SECONDS)
    assert set(waits[len(PAUSES_SECONDS) :]) == {PAUSES_SECONDS[-1]}
    assert OUTAGE_SECONDS - PAUSES_SECONDS[-1] < sum(waits) <= OUTAGE_SECONDS


def test_nothing_is_waited_for_beyond_the_runs_time() -> None:
    """The run ends, and keeps its place."""
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", 10.0), left=10.1) == 10.0
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", 10.0), left=10.0) is None
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", None), left=-1.0) is None


@pytest.mark.parametrize("kind", sorted(ERROR_TYPES))
def test_what_only_the_pm_can_mend_is_not_waited_for(kind: str) -> None:
    assert (next_wait(0, 0.0, ModelFailure(kind, ""), FOREVER) is None) is (kind not in PASSING)


# An agent with a mind.


MIND = {
    "boot/identity.md": "# Identity\nI am the gardener of this repository.\n",
    "memory/long_term.md": "# Long-term memory\n\n" + item("L-000001", "kettle", "The kettle needs 16 amperes."),
}


def test_the_mind_stands_before_a_run_and_its_record_needs_no_file(cell: Cell) -> None:
    PmMind(cell, MIND)
    cell.tell("Connect the kettle.")
    asks = calls(ToolUse("1", "recall", {"words": "kettle electricity ampere"}))
    _, model = work(cell, asks, says("Connected."))
    first, second = model.requests
    uses, shown = (first.messages[at].content for at in (1, 2))
    identity, briefing, *_, found = [
        (use.name, next(iter(use.input.values())), str(got.content))
        for use, got in zip(uses, shown, strict=True)
        if isinstance(use, ToolUse) and isinstance(got, ToolResult)
    ]
    assert briefing[1] == "logs/now.md"
    assert identity == ("read_file", f"{cell.places.mind}/boot/identity.md", MIND["boot/identity.md"])
    assert found[:2] == ("recall", "connect kettle")
    assert "The kettle needs 16 amperes." in found[2]
    assert [tool.name for tool in first.tools][-2:] == ["note", "recall"]
    [answer] = second.messages[-1].content
    assert isinstance(answer, ToolResult)
    assert "reference, not rules" in str(answer.content)

    os.rename(cell.places.mind, f"{cell.places.mind}-gone")
    lines = cell.record()
    assert standing(lines).opened.request.messages == first.messages
    assert replay(lines).differences == ()
