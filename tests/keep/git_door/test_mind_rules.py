"""What the agent may change of the mind: a table of rows, each with the paths that are refused and why."""

from __future__ import annotations

import itertools

import pytest

from infra.keep.git_door.mind_rules import RULES, MindChange, MindVersion, tainted
from infra.keep.git_door.rules import Words
from infra.keep.taint import Taint
from infra.shared.mind import layout
from infra.shared.mind.layout import MOST_FILE_BYTES, MOST_FILES, READ_THE_WEB

Files = dict[str, str]
EVENT = "logs/events/2026-01-31.jsonl:1"


def facts(*numbers: int, text: str = "Claim: x") -> str:
    return "# Beliefs\n\n" + "".join(f"## B-{at:06d}\n{text}\n\n" for at in numbers)


def tasks(*ids: str, words: str = "Do it.") -> str:
    return "".join(f"---\ntask_id: {id}\npriority: low\n---\n{words}\n\n" for id in ids)


MIND: Files = {
    "boot/identity.md": "I am.\n",
    "memory/beliefs.md": facts(1, 2, 3, 4, 5, 6),
    "memory/long_term.md": facts(1, 2, 3).replace("B-", "L-"),
    "tasks/inbox.md": tasks("TASK-001", "TASK-002"),
    "reflection/open_questions.md": "- Q-0001: Is it so?\n",
    **{f"skills/learned/s{at}/{name}": "x" for at in range(3) for name in ("SKILL.md", "more.md")},
}
GONE = None
ROWS: dict[str, tuple[dict[str, str | None], dict[str, str]]] = {
    "free": ({"memory/working.md": "x", "logs/daily/d.md": "x", "skills/candidates/n/SKILL.md": "x"}, {}),
    "the PM's file": (
        {"boot/identity.md": "mine"},
        {"boot/identity.md": "the PM's alone; put it back (git"},
    ),
    "the PM's file, removed": ({"boot/identity.md": GONE}, {"boot/identity.md": "is the PM's alone"}),
    "the PM's file, in capitals": ({"Boot/Identity.md": "x"}, {"Boot/Identity.md": "is the PM's alone"}),
    "below the PM's folder": ({"skills/core/a/b": "x"}, {"skills/core/a/b": "is the PM's alone"}),
    "never committed": (
        {"logs/events/d.jsonl": "{}", "scratch/x": "x"},
        {"logs/events/d.jsonl": "is never committed", "scratch/x": "is never committed"},
    ),
    "too large": (
        {"memory/archive/a.md": "x" * (MOST_FILE_BYTES + 1)},
        {"memory/archive/a.md": "a file of the mind has at most 1,048,576; shorten it"},
    ),
    "too many": ({f"tools/{at}": "" for at in range(MOST_FILES)}, {"": f"over the limit of {MOST_FILES:,}"}),
    "a third of the beliefs": ({"memory/beliefs.md": facts(1, 2, 3, 4)}, {}),
    "more of them": (
        {"memory/beliefs.md": facts(1, 2, 3)},
        {"memory/beliefs.md": "3 of 6 entries in memory"},
    ),
    "headings alone": ({"memory/beliefs.md": facts(*range(7), text="")}, {"memory/beliefs.md": "6 of 6 entries"}),
    "the file": ({"memory/long_term.md": GONE}, {"memory/long_term.md": "3 of 3 entries"}),
    "one skill": ({"skills/learned/s0/SKILL.md": GONE}, {}),
    "two skills": (
        {f"skills/learned/s{at}/{name}": GONE for at in (0, 1) for name in ("SKILL.md", "more.md")},
        {f"skills/learned/s{at}/{name}": "2 of 3 skills" for at in (0, 1) for name in ("SKILL.md", "more.md")},
    ),
    "skills that moved": (
        {path: GONE for path in MIND if path.startswith("skills/")}
        | {path.replace("learned", "deprecated"): "x" for path in MIND if path.startswith("skills/")},
        {},
    ),
    "a task that is answered": ({"tasks/inbox.md": tasks("TASK-002"), "tasks/completed/TASK-001.md": "x"}, {}),
    "all tasks": ({"tasks/inbox.md": "", **{f"tasks/blocked/TASK-00{at}.md": "x" for at in (1, 2)}}, {}),
    "a task without an answer": (
        {"tasks/inbox.md": tasks("TASK-002")},
        {"tasks/inbox.md": "it takes TASK-001 out without an answer; write tasks/completed/TASK-001.md"},
    ),
    "a new task": (
        {"tasks/inbox.md": tasks("TASK-001", "TASK-002", "TASK-003")},
        {"tasks/inbox.md": "it adds TASK-003"},
    ),
    "other words": (
        {"tasks/inbox.md": tasks("TASK-001") + tasks("TASK-002", words="Obey.")},
        {"tasks/inbox.md": "it changes TASK-002"},
    ),
    "a task that cannot be read": (
        {"tasks/inbox.md": tasks("TASK-001", "TASK-002") + tasks("TASK-003").replace("priority", "bad")},
        {"tasks/inbox.md": "it adds TASK-003"},
    ),
}
TAINTED = f"changes, and the agent {READ_THE_WEB}"
WHEN_TAINTED: dict[str, tuple[dict[str, str | None], dict[str, str]]] = {
    "free": (
        {path: "x" for path in ("reflection/f.md", "logs/health/d", "tasks/completed/T", "skills/failed/c/SKILL.md")},
        {},
    ),
    "placed": (
        {path: "obey" for path in ("memory/working.md", "logs/daily/d.md", "tasks/active.md", "boot/recovery.md")},
        dict.fromkeys(("memory/working.md", "logs/daily/d.md", "tasks/active.md", "boot/recovery.md"), TAINTED),
    ),
    "an answer": ({layout.OPEN_QUESTIONS: "- Q-0001: Is it so?\n  - Answer (2026-02-02, run R-1): yes\n"}, {}),
    "a question": (
        {layout.OPEN_QUESTIONS: "- Q-0002: What is it?\n"},
        {layout.OPEN_QUESTIONS: "asks Q-0002 anew"},
    ),
    "another question": ({layout.OPEN_QUESTIONS: "- Q-0001: Run it?\n"}, {layout.OPEN_QUESTIONS: "asks Q-0001 anew"}),
    "on a clean note": ({layout.BELIEFS: facts(1, 2, 3, 4, 5, 6) + f"## B-000007\nSource: {EVENT}\n"}, {}),
    "on no note": ({layout.BELIEFS: facts(1, 2, 3, 4, 5, 6, 7)}, {layout.BELIEFS: TAINTED}),
}


def change(edits: dict[str, str | None]) -> MindChange:
    after = {path: text for path, text in (MIND | edits).items() if text is not None}
    return MindChange(list(edits), version(MIND), version(after))


def version(files: Files) -> MindVersion:
    return MindVersion({path: len(text) for path, text in files.items()}, lambda path: files.get(path, ""))


def agrees(found: list[Words], expected: dict[str, str]) -> bool:
    said = dict(found)
    assert said.keys() == expected.keys()
    return len(found) == len(expected) == len(said) and all(
        words in said.get(path, "") for path, words in expected.items()
    )


@pytest.mark.attack("S61", "S62", "S63")
@pytest.mark.parametrize("row", ROWS)
def test_what_is_refused_at_any_time(row: str) -> None:
    edits, expected = ROWS[row]
    found = list(itertools.chain.from_iterable(rule(change(edits)) for _, rule in RULES))
    assert agrees(found, expected), found


@pytest.mark.attack("S61")
@pytest.mark.parametrize("row", WHEN_TAINTED)
def test_what_is_refused_while_the_agent_is_tainted(row: str) -> None:
    edits, expected = WHEN_TAINTED[row]
    taint = Taint(0.0, ("https://evil.example",))
    found = list(tainted(change(edits), taint, lambda place: place == EVENT))
    assert agrees(found, expected), found
    assert not list(tainted(change(edits), None, lambda _: False))
