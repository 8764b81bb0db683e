"""The inbox: what is read, what is named, and that an edit of one block leaves all others as they are."""

from __future__ import annotations

import datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.mind.tasks import Task, ids_in, inbox_of, next_id, order, task_text, with_task, without_task
from tests.shared.rows import any_text, each_row

GIVEN = """# Inbox

---
task_id: TASK-001
priority: high
deadline: 2026-02-10T00:00:00Z   # optional
context: |
  Background and constraints.
---

# Task description
Write the thing.

## Success criteria
- It is written.
"""
NOW = 1_770_000_000.0
DAY = 86_400.0


def block(id: str = "TASK-001", more: str = "", priority: str = "low") -> str:
    return f"---\ntask_id: {id}\npriority: {priority}\n{more}---\n\n# Task description\nDo {id}.\n\n"


def at(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def task(id: str, priority: str = "medium", deadline: float | None = None) -> Task:
    return Task(task_id=id, priority=priority, deadline=at(deadline), description="do it")  # type: ignore[arg-type]


def test_a_block_is_read_as_it_was_written() -> None:
    """All parts of the format, with a remark behind a value."""
    (read,), problems = inbox_of(GIVEN)
    assert problems == ()
    assert next_id(ids_in(GIVEN) | {"TASK-120"}) == "TASK-121"
    assert (read.task_id, read.priority, read.until) == ("TASK-001", "high", "2026-02-10T00:00:00Z")
    assert read.text == GIVEN[GIVEN.index("---") :]
    assert read.words == (
        "Write the thing.\n\nContext:\n\nBackground and constraints.\n\nSuccess criteria:\n\n- It is written."
    )


@each_row(
    "old, new, words",
    [
        ("priority: low", "priority: urgent", "priority is 'urgent': expected high, medium, low"),
        ("priority: low", "title: x", "unknown field `title`"),
        ("priority: low", "priority: low\ndeadline: 2026-02-10T00:00:00", "timezone"),
        ("TASK-001\n", "../x\n", "task_id is '../x'"),
        ("Do TASK-001.", "## Success criteria\n- x", "no description"),
        ("low\n---", "low", "between two lines"),
        ("Do TASK-001.", "x\n<<<<<<< HEAD\n", "conflict markers"),
        ("Do TASK-001.", "\udcff", "no text"),
    ],
)
def test_a_problem_is_named_with_its_line_and_stops_no_other(old: str, new: str, words: str) -> None:
    """The block before and the one behind are read."""
    found = inbox_of(block("TASK-007") + block().replace(old, new, 1) + block("TASK-008"))
    assert [each.task_id for each in found.tasks] == ["TASK-007", "TASK-008"]
    (problem,) = found.problems
    assert problem.line == 9
    assert words in problem.what


def test_what_is_no_block_of_its_own() -> None:
    """A second task of one id; a line that divides a text; a fence, which hides no task; keys without a block."""
    found = inbox_of(block() + block().replace("Do", "Undo"))
    assert [each.description for each in found.tasks] == ["Do TASK-001."]
    assert "a task before it has this id" in found.problems[0].what
    divided = f"```\n{block()}more\n\n---\n\nand more\n"
    assert inbox_of(divided).tasks[0].description.endswith("and more")
    assert "begins with a line '---'" in inbox_of("task_id: TASK-001\n").problems[0].what


def test_order_is_by_priority_then_deadline_and_what_is_due_goes_up() -> None:
    """Stable; a deadline in the past is due."""
    tasks = [
        task("TASK-001", "low"),
        task("TASK-002", "low", NOW - 9 * DAY),
        task("TASK-003", "medium", 253_402_300_799.0),
        task("TASK-004", "medium"),
        task("TASK-005", "high"),
        task("TASK-006", "medium", NOW + DAY),
        task("TASK-007", "medium", NOW + DAY + 1),
        task("TASK-008", "high"),
    ]
    assert "".join(each.task_id[-1] for each in order(tasks, NOW)) == "65827341"


WORDS = st.lists(st.sampled_from(["do", "it", "- x", "  deep", "# Title", "a: b", "é", "'", '"', "{", "", "|", "```"]))
BLOCKS = st.builds(
    lambda priority, deadline, context, description, criteria: Task(
        task_id="TASK-001", priority=priority, deadline=at(deadline), context="\n".join(context).rstrip(),
        description="\n".join(description).strip() or "x", criteria="\n".join(criteria).strip(),
    ),
    st.sampled_from(["high", "medium", "low"]),
    st.none() | st.integers(0, 253_402_300_799).map(float),
    *([WORDS] * 3),
)  # fmt: skip


@given(BLOCKS)
def test_what_is_written_reads_back(given_block: Task) -> None:
    """Every task that can be written at all; what would read back as another is refused."""
    try:
        text = task_text(given_block)
    except ValueError:
        return

    assert msgspec.structs.replace(inbox_of(text).tasks[0], text="") == given_block


@given(st.lists(st.integers(1, 9), unique=True, min_size=1), st.data())
def test_an_edit_of_one_leaves_all_others_byte_for_byte(numbers: list[int], data: st.DataObject) -> None:
    blocks = [block(f"TASK-{number}", "" if number < 9 else "bad: key\n") for number in numbers]
    text = "# Inbox\n" + "".join(blocks)
    number = data.draw(st.sampled_from(numbers))
    found = inbox_of(text).find(f"TASK-{number}")
    assert (found is None) == (number == 9)
    if found:
        assert without_task(text, found) == "# Inbox\n" + "".join(each for each in blocks if each != found.text)
    assert with_task(text, block("TASK-10")).startswith(text.rstrip())


@given(any_text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    """As a whole, and as a part of a block."""
    for each in (text, block() + text, f"---\n{text}\n---\n{text}", f"---\ntask_id: TASK-1\n{text}\n---\nx"):
        inbox_of(each)
