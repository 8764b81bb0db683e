"""Which sequences of commands are procedures, and the draft of a skill for one."""

from __future__ import annotations

from infra.cell.mind.procedures import draft, procedures
from infra.cell.mind.skills import skill_of
from infra.shared.mind.event import Command, EventContext, EventMetadata, EventType, Execution, MindEvent, Outcomes
from tests.shared.rows import each_row

STEPS = ("git pull", "make build", "scp out host:/srv", "ssh host restart")


def ran(run: str, *commands: str, failed: str = "", end: str = "completed", page: bool = False) -> list[MindEvent]:
    def event(type: EventType, command: str, tool: str, status: str) -> MindEvent:
        codes = (int(command == failed),) if command else ()
        given = (Command("bash", ("-c", command)),) if command else ()
        facts = EventMetadata(tool=tool, status=status, origins=("a.example",) if page else ())
        return MindEvent(type, EventContext(), Execution(given, codes), Outcomes(), facts, run)

    acts = [event("skill_execution", command, "bash", "ok") for command in commands]
    return [*acts, event("task_update", "", "", end)]


def found(*runs: list[MindEvent], successes: int = 3) -> list[tuple[str, ...]]:
    events = [event for run in runs for event in run]
    placed = [(f"logs/events/2026-01-05.jsonl:{at}", event) for at, event in enumerate(events, 1)]
    return [each.commands for each in procedures(placed, successes)]


@each_row(
    "runs, expected",
    [
        ([ran(run, *STEPS) for run in "abc"], [STEPS]),
        ([ran(run, *STEPS) for run in "ab"], []),
        ([ran(run, *STEPS[:2]) for run in "abc"], []),
        ([ran(run, "ls", *STEPS[:2], "cat x", *STEPS[2:], f"echo {run}") for run in "abc"], [STEPS]),
        ([ran(run, *STEPS, f"only {run}") for run in "abc"], [STEPS]),
        ([ran(run, *STEPS, failed=STEPS[1]) for run in "abc"], []),
        ([ran(run, *STEPS, end="max_failures") for run in "abc"], []),
        ([ran(run, *STEPS, page=run == "c") for run in "abc"], []),
        ([ran("a", *STEPS, *STEPS, *STEPS)], []),
        ([ran(run, *["make"] * 8) for run in "abc"], []),
    ],
)
def test_what_is_a_procedure(runs: list[list[MindEvent]], expected: list[tuple[str, ...]]) -> None:
    assert found(*runs) == expected


def test_texts_and_numbers_may_differ() -> None:
    runs = [ran(run, f"git commit -m '{run}'", "make build", f"tag {number}") for number, run in enumerate("abc")]
    assert found(*runs) == [("git commit -m 'c'", "make build", "tag 2")]


def test_a_draft_is_a_skill() -> None:
    events = [("x:1", event) for run in "abc" for event in ran(run, 'say "a: \\b"', *STEPS)]
    [procedure] = procedures(events, 3)
    skill = skill_of(f"skills/candidates/{procedure.name}/SKILL.md", draft(procedure).encode())
    assert skill.reference == f"candidates/{procedure.name}@0.1.0"
