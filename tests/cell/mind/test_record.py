"""What a run did becomes events, made from the acts and their results alone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from infra.cell.actions import NOTE, ToolCall, ToolResult
from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import Acted, Answered, Entered, NotRecorded, Told
from infra.cell.mind.record import Outbox, Recorder, intent_of
from infra.cell.run_states import RunState, StopReason
from infra.cell.tools.tool import Position
from infra.shared.conversation import Completion, Text, Usage
from infra.shared.mind.event import MindEvent
from tests.cell.mind.one_mind import OneMind, places_in
from tests.shared.mind.events import logged
from tests.shared.rows import each_row

NOW = 1769856132.345
KEY = "postgres://app:tr0ub4dor@db/x"


class Bench(OneMind):
    """A recorder of one run, and the keep's log."""

    def __init__(self, root: Path, **begin: Any) -> None:
        self.lies(places_in(str(root)), NOW)
        self.checkout = Path(self.places.main_checkout)
        self.checkout.mkdir(parents=True, exist_ok=True)
        given: dict[str, Any] = {"words": "Do it.", "ids": ["0123abcd"], "shown": ["memory/beliefs.md#B-000001"]}
        self.recorder = Recorder(self.cell(), Position("run-1"), **given | begin)

    def act(self, name: str, result: ToolResult, step: int = 1, number: int = 1, **args: Any) -> MindEvent:
        self.recorder.record(Entered(str(step), RunState.PLAN))
        self.recorder.record(Acted.of(f"{step}.{number}", ToolCall("1", name, args), result, 0.0421))
        self.recorder.record(Entered(str(step + 1), RunState.PLAN))
        return self.events()[-1]

    def act_unseen(self, step: int) -> None:
        self.recorder.record(Acted.of(f"{step}.1", ToolCall("1", "bash", {}), OK, 0.0))
        self.recorder.record(Entered(str(step + 1), RunState.PLAN))

    def events(self) -> list[MindEvent]:
        return [each.event for each in logged(self.places.events)]


def test_a_run_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, words=f"Deploy it to {KEY}.", ids=["0123abcd", "TASK-001"])
    record = bench.recorder.record
    record(Entered("0", RunState.INIT))
    bench.recorder.end(RunResult(StopReason.MODEL_UNAVAILABLE))
    assert bench.events() == [], "a run that never began leaves nothing"
    record(Entered("1", RunState.PLAN))
    words = Completion((Text("I look first.\nThen more."),), "tool_use", "some-model", Usage(100, 5, 20, 3000))
    record(Answered("1", words))
    shown = ToolResult("fine\n[exit status 0]", facts={"exit": 0})
    record(Acted.of("1.1", ToolCall("1", "bash", {"command": f"curl {KEY}", "cwd": "src"}), shown, 0.842))
    record(Told("1", "…", "Also this.", "no"))
    record(Entered("2", RunState.PLAN))
    bench.recorder.end(RunResult(StopReason.COMPLETED, "All done.\nReally.", 2))
    began, act, said, ended = bench.events()
    assert (began.event_type, began.metadata.status, began.run_id) == ("task_update", "began", "run-1")
    assert began.outcomes.observations == "Deploy it to postgres://app:[secret]@db/x."
    assert began.metadata.details["directives"] == ["0123abcd", "TASK-001"]
    assert began.metadata.details["shown"] == ["memory/beliefs.md#B-000001"]
    assert (act.event_type, act.step_id, act.context.task_id) == ("skill_execution", "1.1", "0123abcd")
    assert act.context.intent == "I look first."
    [command] = act.execution.commands
    assert (command.cmd, command.args) == ("bash", ("-c", "curl postgres://app:[secret]@db/x"))
    assert command.cwd == f"{bench.checkout}/src"
    assert (act.execution.exit_codes, act.execution.duration_ms) == ((0,), 842)
    assert (act.metadata.llm_model, act.metadata.context_tokens) == ("some-model", 3120)
    assert (said.metadata.status, said.outcomes.observations) == ("said", "Also this.")
    assert (ended.metadata.status, ended.metadata.details["steps"]) == ("completed", 2)
    assert ended.outcomes.observations == "All done.\nReally."
    assert ended.metadata.details["completed"] == ["0123abcd", "TASK-001"]


@each_row(
    "said, intent",
    [
        ("\n I look first. \nThen more.", "I look first."),
        ('[{"type": "shell"}]', ""),
        ("```json\n[]\n```", ""),
        ('{"operations": []}', ""),
        (f"with {KEY}", "with postgres://app:[secret]@db/x"),
        ("", ""),
    ],
)
def test_the_intent_is_the_models_words_or_empty(said: str, intent: str) -> None:
    assert intent_of(said) == intent


@pytest.mark.parametrize("said", ["BLOCKED: which port?", "FAILED: it cannot be done."])
def test_a_run_that_asks_or_gives_up_completes_nothing(tmp_path: Path, said: str) -> None:
    bench = Bench(tmp_path)
    bench.act("bash", OK, command="true")
    bench.recorder.end(RunResult(StopReason.COMPLETED, said, 1))
    assert bench.events()[-1].metadata.details["completed"] == []


def test_changed_files_have_their_hash_after(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (bench.checkout / "a.md").write_text("words\n")
    done = bench.act("write_file", ToolResult("wrote", artifacts=("a.md",)), path="a.md", content="words\n")
    digest = hashlib.sha256(b"words\n").hexdigest()
    assert [(each.path, each.hash_after) for each in done.outcomes.files_modified] == [
        (f"{bench.checkout}/a.md", f"sha256:{digest}")
    ]
    assert "words" not in str(done.metadata.details)
    gone = bench.act("delete_file", ToolResult("deleted", artifacts=("b.md",)), path="b.md")
    assert gone.outcomes.files_modified[0].hash_after == "deleted"


OK = ToolResult("fine", facts={"exit": 0})


def test_acts_have_the_types_of_the_schema(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.act("bash", OK, command="make").event_type == "skill_execution"
    bad = bench.act("bash", OK._replace(facts={"exit": 3}), command="git push")
    assert (bad.event_type, bad.execution.exit_codes) == ("skill_execution", (3,))
    assert bench.act("bash", OK, command="cd x && git -C y push -q origin b").event_type == "self_modification"
    assert bench.act("bash", OK, command="git log; echo push").event_type == "skill_execution"
    hop = bench.act("bootstrap", ToolResult("it will", hands_over=True), branch="improve")
    assert (hop.event_type, hop.metadata.details) == ("self_modification", {"branch": "improve"})
    failed = bench.act("edit_file", ToolResult.err("refused", f"no such text at {KEY}"), path="a")
    assert (failed.event_type, failed.metadata.status) == ("error", "failed")
    assert failed.outcomes.observations == "no such text at postgres://app:[secret]@db/x"
    assert not failed.outcomes.files_modified
    facts: dict[str, Any] = {"shown": ["B-000001"], "statements": ["port=it is 8080"]}
    recalled = bench.act("recall", ToolResult("…", facts=facts), words="port")
    assert recalled.metadata.details == {"words": "port"} | facts
    page = bench.act("fetch_page", ToolResult("HTTP 200, 10 bytes\n⟦web …⟧\nobey"), url="https://example.org/")
    assert page.outcomes.observations == "HTTP 200, 10 bytes", "what a page says is no observation"
    assert page.metadata.details == {"url": "https://example.org/"}
    facts = {NOTE: {"subject": "port", "statement": "it is 8080", "check": "true", "exit_status": 0}, "exit": 0}
    note = bench.act(NOTE, ToolResult("noted", facts=facts), subject="port", statement="it is 8080", check="true")
    assert (note.event_type, note.metadata.details) == ("note", facts[NOTE])
    assert note.execution.commands[0].args == ("-c", "true")
    assert note.execution.exit_codes == (0,)


def test_long_things_are_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, words=f"{'w' * 980} {KEY} {'w' * 1_000_000}", ids=["x"] * 1000)
    many = tuple(f"{number}/{'p' * 5000}" for number in range(1000))
    bench.act("bash", ToolResult("o" * 1_000_000, artifacts=many, facts={"exit": 0}), command="c" * 1_000_000)
    bench.act("read_file", ToolResult("o" * 1_000_000), path="p" * 1_000_000, other="q" * 1_000_000)
    told = Path(f"{bench.places.events}/2026-01-31.jsonl").read_text()
    assert len(told) < 100_000
    assert "tr0" not in told, "redacted first, and cut then"


def test_a_resumed_run_goes_on_and_acts_after_a_skill_was_read_name_it(tmp_path: Path) -> None:
    Bench(tmp_path).act("bash", OK, command="true")
    again = Bench(tmp_path, resumed=True)
    text = "---\nname: web_research\nversion: 1.2.0\n---\n"
    again.act("read_file", ToolResult(text), path="/agent/skills/learned/web_research/SKILL.md")
    assert again.act("bash", OK, 2, command="true").context.triggering_skill == "learned/web_research@1.2.0"
    assert [each.metadata.status for each in again.events()] == ["began", "ok", "went on", "ok", "ok"]


@pytest.mark.fault("F88")
def test_what_could_not_be_sent_goes_with_the_next_step(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.act("bash", OK, command="true")
    bench.is_away = True
    bench.act("bash", OK, 2, command="true")
    bench.recorder.end(RunResult(StopReason.COMPLETED))
    assert [word for word, _ in bench.log] == ["mind.events_wait"] * 2
    assert len(bench.events()) == 2
    bench.is_away = False
    Bench(tmp_path, words="Then that.").act("bash", OK, command="true")
    assert [each.metadata.status for each in bench.events()] == ["began", "ok", "ok", "completed", "began", "ok"]
    assert [each.seq for each in bench.events()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.fault("F88")
def test_a_run_whose_events_nobody_takes_for_a_minute_ends(tmp_path: Path) -> None:
    bench, now = Bench(tmp_path), 0.0
    bench.recorder._outbox = Outbox(lambda: now)
    bench.is_away = True
    bench.act_unseen(1)
    now = 59.0
    bench.act_unseen(2)
    now = 61.0
    with pytest.raises(NotRecorded, match="the door is away"):
        bench.act_unseen(3)
    bench.is_away = False
    bench.act_unseen(4)
    assert [each.step_id for each in bench.events()] == ["", "1.1", "2.1", "3.1", "4.1"]
