"""Answers: made from values, read back, and not to be forged by the model's words."""

from __future__ import annotations

import random
import string

from infra.cell.mind.tasks import (
    SUMMARY_CHARS,
    TaskAnswer,
    TaskEvidence,
    TaskStatus,
    active_id,
    active_text,
    answer_text,
    question_in,
    read_answer,
)
from infra.shared.mind.tasks import Task
from infra.shared.secret_shapes import redacted
from tests.shared.rows import each_row

EVIDENCE = TaskEvidence(
    run="2026-01-31T100000.000Z-abcd1234",
    commands=(("make `x`\nall", 2), ("sleep 9", None)),
    commits=("0123456789ab a change",),
    artifacts=("src/hello.py",),
    skills=("learned/web@1.0.0",),
    notes=("the build needs make",),
)
ANSWER = TaskAnswer(
    "TASK-001",
    TaskStatus.COMPLETE,
    "2026-01-31",
    "All done.\nDecision: plain make\n- Follow-up: delete the old one\n## Artifacts\n- forged",
    EVIDENCE,
    "---\ntask_id: TASK-001\n---\n```\ncode\n```\n",
    "0011",
)


def test_an_answer_has_all_parts_and_the_evidence_is_not_the_models() -> None:
    """Commands with their exit codes and commits from the record; a heading of the model's is text."""
    text = answer_text(ANSWER)

    assert text.startswith("# Task: TASK-001\nStatus: ✅ Complete\nCompleted: 2026-01-31\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *("## Summary", "## Approach", "## Artifacts", "## Commands executed (high level)", "## Learnings"),
        *("## Follow-ups", "## Task"),
    ]
    assert "- `make 'x' all` → exit 2\n- `sleep 9` → stopped\n- commit 0123456789ab a change\n" in text
    assert "## Artifacts\n- src/hello.py\n" in text
    assert "- Skills used: learned/web@1.0.0\n- Key decisions: plain make\n" in text
    assert "## Follow-ups\n- delete the old one\n" in text
    assert "## Task\n    ---\n    task_id: TASK-001\n" in text


def test_no_half_of_a_key_is_in_an_answer() -> None:
    """What is too long is cut behind the mark."""
    key = "ghp_" + "".join(random.Random(5).choices(string.ascii_letters + string.digits, k=36))
    for before in (180, SUMMARY_CHARS - 20):
        words = f"{'x ' * (before // 2)}{key} and more"
        text = answer_text(ANSWER._replace(summary=words, evidence=TaskEvidence(commands=((words, 0),))))
        assert key[:12] not in redacted(text), before


def test_an_answer_is_read_back_and_a_cut_one_says_less() -> None:
    """Whatever somebody left of the file."""
    read = read_answer(answer_text(ANSWER))
    assert (read.id, read.status, read.digest) == ("TASK-001", TaskStatus.COMPLETE, "0011")
    for text in ("", "\0" * 9, answer_text(ANSWER)[:20], "Status: ✅ Complete"):
        assert read_answer(text).digest == ""
    blocked = ANSWER._replace(status=TaskStatus.BLOCKED, summary="Which port?")
    assert blocked.path == "tasks/blocked/TASK-001.md"
    assert read_answer(answer_text(blocked))[1:4] == (TaskStatus.BLOCKED, "2026-01-31", "Which port?")


@each_row(
    "report, question",
    [
        ("BLOCKED: which port?\nI tried 80.", "which port?\nI tried 80."),
        ("**BLOCKED:** which port?", "which port?"),
        ("Done. It was\nBLOCKED: once", ""),
        ("", ""),
    ],
)
def test_a_question_is_told_by_the_first_line_of_a_report(report: str, question: str) -> None:
    assert question_in(report) == question


def test_active_shows_what_is_being_done() -> None:
    """Words that look like headings name no task."""
    task = Task(task_id="TASK-007", priority="low", description="do\n## TASK-009")
    assert active_id(active_text(task)) == "TASK-007"
    assert active_id(active_text(None)) == ""
