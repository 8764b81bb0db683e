"""Which sequences of commands become a draft of a skill."""

from __future__ import annotations

from infra.cell.mind.history import History
from infra.cell.mind.skill_drafts import drafts
from infra.cell.mind.skills import skill_of
from infra.shared.mind.event import (
    Command,
    EventContext,
    EventLine,
    EventMetadata,
    EventType,
    Execution,
    MindEvent,
    Outcomes,
)
from tests.shared.rows import each_row

STEPS = ("git pull", "make build", "scp out host:/srv", "ssh host restart")


def ran(run: str, *commands: str, failed: str = "", end: str = "completed", page: bool = False) -> list[MindEvent]:
    def event(type: EventType, command: str, tool: str, status: str) -> MindEvent:
        codes = (int(command == failed),) if command else ()
        given = (Command("bash", ("-c", command)),) if command else ()
        steps = {} if command else {"steps": 1}
        facts = EventMetadata(tool=tool, status=status, origins=("a.example",) if page else (), details=steps)
        return MindEvent(type, EventContext(), Execution(given, codes), Outcomes(), facts, run, timestamp="2026-01-05")

    acts = [event("skill_execution", command, "bash", "ok") for command in commands]
    return [*acts, event("task_update", "", "", end)]


def found(*runs: list[MindEvent], since: str = "2026-01-01") -> list[list[str]]:
    history = History()
    for at, event in enumerate((event for run in runs for event in run), 1):
        history.add(EventLine("2026-01-05.jsonl", at, event))
    made = []
    for name, text in drafts(history, since).items():
        skill = skill_of(f"skills/candidates/{name}/SKILL.md", text)
        steps = skill.section("Procedure").splitlines()
        made.append([step.partition(" ")[2].strip("`") for step in steps])
    return made


@each_row(
    "runs, expected",
    [
        ([ran(run, *STEPS) for run in "abc"], [[*STEPS]]),
        ([ran(run, *STEPS) for run in "ab"], []),
        ([ran(run, *STEPS[:2]) for run in "abc"], []),
        ([ran(run, "ls", *STEPS[:2], "cat x", *STEPS[2:], f"echo {run}") for run in "abc"], [[*STEPS]]),
        ([ran(run, *STEPS, failed=STEPS[1]) for run in "abc"], []),
        ([ran(run, *STEPS, end="max_failures") for run in "abc"], []),
        ([ran(run, *STEPS, page=run == "c") for run in "abc"], []),
        ([ran("a", *STEPS, *STEPS, *STEPS)], []),
        ([ran(run, *["make"] * 8) for run in "abc"], []),
        (
            [ran(run, f"git commit -m '{run}'", "make build", f'tag {at} "a: \\b"') for at, run in enumerate("abc")],
            [["git commit -m 'c'", "make build", 'tag 2 "a: \\b"']],
        ),
    ],
)
def test_what_becomes_a_draft(runs: list[list[MindEvent]], expected: list[list[str]]) -> None:
    assert found(*runs) == expected
    assert found(*runs, since="2026-01-06") == []
