from __future__ import annotations

from typing import Any

import msgspec

from infra.cell.mind.history import Drafted, History, LogEntry, Trial
from infra.cell.mind.skill_gate import TRIALS, TrialKind, confidence, lacking, why_disabled
from infra.cell.mind.skills import skill_of
from infra.shared.mind.event import EventContext, EventLine, EventMetadata, EventType, MindEvent
from tests.cell.mind.test_skills import PATH, SKILL, a_skill, named
from tests.shared.rows import each_row

REFERENCE, HASH = "candidates/csv-sum@0.1.0", "sha256:0a"
CORE = (a_skill("core/files@1.0.0"), a_skill("core/shell@2.1.0"))


class Log:
    """Events in their order."""

    def __init__(self) -> None:
        self.lines: list[EventLine] = []

    def add(
        self, type: EventType, run: str = "", skill: str | None = None, label: str = "task", **metadata: Any
    ) -> Log:
        seq = len(self.lines) + 1
        about, facts = EventContext(triggering_skill=skill), EventMetadata(label=label, **metadata)
        at = f"2026-01-31T10:{seq % 60:02}:00.000Z"
        event = MindEvent(type, about, metadata=facts, run_id=run, timestamp=at, seq=seq)
        self.lines.append(EventLine("2026-01-31.jsonl", seq, event))
        return self

    def fact(self, fact: LogEntry) -> Log:
        return self.add("skill_execution", details=msgspec.to_builtins(fact), label="maintenance")

    def trial(self, kind: TrialKind, passed: bool = True, hash: str = HASH) -> Log:
        return self.fact(Trial(kind, REFERENCE, hash, passed))

    def tried(self) -> Log:
        for kind in TRIALS:
            self.trial(kind)
        return self

    def used(self, run: str, status: str = "completed", skill: str = REFERENCE, **more: Any) -> Log:
        self.add("skill_execution", run, skill, **more)
        self.add("skill_execution", run, skill, **more)
        return self.add("task_update", run, status=status, details={"steps": 2}, **more)

    @property
    def history(self) -> History:
        history = History()
        for line in self.lines:
            history.add(line)
        return history


def passing(uses: int = 3) -> Log:
    log = Log().tried()
    for run in range(uses):
        log.used(f"r{run}")
    return log


def lacks(log: Log, text: str = SKILL, hash: str = HASH, *others: dict[str, bytes | OSError]) -> dict[Any, str]:
    skills = named({PATH: text.encode()}, *CORE, *others)
    return lacking(skill_of(PATH, text), hash, skills, log.history)


NEEDY = a_skill("learned/needy@1.0.0", "learned/csv-sum@1.0.0") | a_skill("learned/csv-sum@1.0.0")


@each_row(
    "log,text,others,expected",
    [
        (passing(), SKILL, (), []),
        *((passing().trial(kind, False), SKILL, (), [kind]) for kind in TRIALS),
        (passing(2), SKILL, (), ["uses"]),
        (passing(), SKILL.replace("- No file: say so.", "- ..."), (), ["failure_modes"]),
        (passing(), SKILL.replace("```bash", "```").replace("```", ""), (), ["self_test"]),
        (passing(), SKILL.replace("core/files@1.0.0", "core/files@2.0.0"), (), ["regression"]),
        (passing(), SKILL, (NEEDY,), ["regression"]),
        (Log(), SKILL, (), [*TRIALS, "uses"]),
        (passing().fact(Drafted("csv-sum", "sha256:01", ("evil.example",))), SKILL, (), ["review"]),
    ],
)
def test_each_condition_alone_keeps_it_out(
    log: Log, text: str, others: tuple[dict[str, bytes | OSError], ...], expected: list[str]
) -> None:
    """A page's hand in an earlier version is one; that others need the version before is another."""
    assert list(lacks(log, text, HASH, *others)) == expected


def test_what_is_no_use_is_not_counted() -> None:
    """One run counts once; a run that failed, explores, goes on or was cut short does not; nor one of another
    version, nor one before this content was tried."""
    log = Log().used("before").tried().used("r1").used("r1").used("r2", "max_steps").used("r3", "interrupted")
    log.used("r4", label="exploration").used("r5", skill="candidates/csv-sum@0.0.9").used("r6", skill="x")
    log.add("skill_execution", "r7", REFERENCE)
    assert list(lacks(log, hash="sha256:0b")) == [*TRIALS, "uses"], "a change of the folder starts anew"
    assert lacks(log)["uses"].startswith("1 of 3 runs")
    assert confidence(skill_of(PATH, SKILL), log.history) == 3 / 5, "two good ones and one that failed"


def test_more_failures_than_allowed_disable_it() -> None:
    skill, log = skill_of(PATH, SKILL), Log().tried()
    log.used("r1", "max_steps").used("r2", "max_failures").used("r3", "refusal").used("s", "model_unavailable")
    assert why_disabled(skill, log.history) == ""
    why = why_disabled(skill, log.used("r4", "no_op_loop").history)
    assert why.startswith("it failed 4 times, more than 3: run r1 (logs/events/")
    for run in range(20):
        log.used(f"good{run}")
    assert why_disabled(skill, log.history) == "", "they are long past"
