"""The inbox: what is read, what is named, and that an edit of one block leaves all others as they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.shared.mind.inbox import MOST_BYTES, TaskBlock, order, parse_inbox
from infra.shared.mind.inbox_edits import (
    answered_in,
    merged,
    next_id,
    problem_with_agents_inbox,
    task_text,
    with_task,
    without_task,
)
from tests.shared.rows import each_row
from tests.shared.texts import any_text

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


def task(id: str, priority: str = "medium", deadline: float | None = None) -> TaskBlock:
    return TaskBlock(id, priority, deadline, "", "do it", "", 1)


def test_a_block_is_read_as_it_was_written() -> None:
    """All parts of the format, with a comment behind a value."""
    inbox = parse_inbox(GIVEN)

    assert inbox.problems == ()
    (read,) = inbox.tasks
    assert read._replace(text="") == TaskBlock(
        "TASK-001", "high", 1770681600.0, "Background and constraints.", "Write the thing.", "- It is written.", 3
    )
    assert read.text == GIVEN[GIVEN.index("---") :]
    assert read.words == (
        "Write the thing.\n\nContext:\n\nBackground and constraints.\n\nSuccess criteria:\n\n- It is written."
    )


@each_row(
    "more, line, words",
    [
        ("title: x\n", 4, "the key 'title' is unknown; expected task_id, priority, deadline"),
        ("deadline: tomorrow\n", 4, "the deadline 'tomorrow' is no time; expected one like 2026-02-10"),
        ("deadline: 2026-02-10T00:00:00\n", 4, "is no time"),
        ("deadline: 2026-02-31T00:00:00Z\n", 4, "is no time"),
        ("deadline: 9999-12-31T23:59:59-12:00\n", 4, "is no time"),
        ("context: [a]\n", 4, "expected text"),
        ("context: 'open\n", 4, "this is not YAML"),
        ("priority: low\n", 4, "given twice"),
        ("context: &a b\n", 4, "anchors"),
    ],
)
def test_a_problem_is_named_with_its_line_and_stops_no_other(more: str, line: int, words: str) -> None:
    """The block before and the one behind are read."""
    found = parse_inbox(block("TASK-007") + block("TASK-001", more) + block("TASK-008"))

    assert [each.id for each in found.tasks] == ["TASK-007", "TASK-008"]
    (problem,) = found.problems
    assert (problem.line, problem.id) == (line + 8, "TASK-001")
    assert words in str(problem)


@each_row(
    "text, line, words",
    [
        ("---\ntask_id: TASK-001\npriority: urgent\n---\nx\n", 3, "'urgent'; expected high, medium"),
        ("---\ntask_id: TASK-001\n---\nx\n", 1, "the priority is missing"),
        ("---\npriority: low\n---\nx\n", 1, "the task_id is missing; expected one like TASK-001"),
        ("---\ntask_id: ../x\npriority: low\n---\nx\n", 2, "'../x'; expected one like TASK-001"),
        ("---\ntask_id: TASK-001\npriority: low\n---\n\n# Task description\n", 4, "no description"),
        ("---\ntask_id: TASK-001\npriority: low\n---\n## Success criteria\n- x\n", 4, "no description"),
        ("---\ntask_id: TASK-001\npriority: low\n# Task description\nx\n", 1, "not closed"),
        (f"{block()}<<<<<<< HEAD\nx\n", 9, "a conflict marker"),
        ("\0\1\2" * 9, 1, "zero bytes"),
        (block().replace("Do", "\0"), 7, "no text"),
        (block().replace("Do", "\udcff"), 7, "no text"),
        ("task_id: TASK-001\n", 1, "does not begin with a line '---'"),
    ],
)
def test_what_is_wrong_with_a_single_block(text: str, line: int, words: str) -> None:
    """Said in the words of the format."""
    found = parse_inbox(text)

    assert found.tasks == ()
    assert found.problems[0].line == line
    assert words in found.problems[0].why


def test_of_two_tasks_with_one_id_the_first_counts() -> None:
    """And the second is named."""
    found = parse_inbox(block() + block().replace("Do", "Undo"))

    assert [each.description for each in found.tasks] == ["Do TASK-001."]
    assert "stands at line 1 already" in found.problems[0].why


def test_a_block_that_is_not_closed_does_not_swallow_the_next() -> None:
    """The next one begins where its first line stands."""
    found = parse_inbox("---\ntask_id: TASK-001\npriority: low\n" + block("TASK-002"))

    assert [each.id for each in found.tasks] == ["TASK-002"]
    assert [each.id for each in found.problems] == ["TASK-001"]


def test_examples_and_rules_are_no_tasks() -> None:
    """In a fence or a comment stands an example; a line in a text divides it."""
    shown = f"```markdown\n{block()}```\n<!--\n{block()}-->\n"

    assert parse_inbox(shown) == parse_inbox("")
    divided = block() + "more\n\n---\n\nand more\n"
    assert parse_inbox(divided).tasks[0].description.endswith("and more")


def test_a_huge_inbox_is_read_as_far_as_the_bound() -> None:
    """Its beginning counts, and that it is too long is said."""
    found = parse_inbox(block() + block("TASK-002") + "x" * MOST_BYTES)

    assert [each.id for each in found.tasks] == ["TASK-001", "TASK-002"]
    assert "what stands behind that is not read" in found.problems[0].why


def test_order_is_by_priority_then_deadline_and_what_is_due_goes_up() -> None:
    """Stable; a deadline in the past is due, the year 9999 is harmless."""
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

    ordered = [each.id[-1] for each in order(tasks, NOW)]

    assert "".join(ordered) == "65827341"


WORDS = st.lists(st.sampled_from(["do", "it", "- x", "  deep", "# Title", "a: b", "é", "'", '"', "{", "", "|", "```"]))
BLOCKS = st.builds(
    lambda priority, deadline, context, description, criteria: TaskBlock(
        "TASK-001", priority, deadline, "\n".join(context).rstrip(), "\n".join(description).strip() or "x",
        "\n".join(criteria).strip(), 1,
    ),
    st.sampled_from(["high", "medium", "low"]),
    st.none() | st.integers(0, 253_402_300_799).map(float),
    *([WORDS] * 3),
)  # fmt: skip


@given(BLOCKS)
def test_what_is_written_reads_back(given_block: TaskBlock) -> None:
    """Every task that can be written at all; what would read back as another is refused."""
    try:
        text = task_text(given_block)
    except ValueError:
        return

    assert parse_inbox(text).tasks[0]._replace(text="", line=1) == given_block


@given(any_text(), st.lists(st.integers(1, 9), unique=True, min_size=1), st.data())
def test_an_edit_of_one_leaves_all_others_byte_for_byte(head: str, numbers: list[int], data: st.DataObject) -> None:
    """Also below words of any kind, and with a broken block among them."""
    head = "\n".join(line for line in head.split("\n") if not line.startswith(("---", "```", "~~~", "<!--")))
    blocks = [block(f"TASK-{number}", "" if number < 9 else "bad: key\n") for number in numbers]
    text = f"{head}\n" + "".join(blocks)
    at = data.draw(st.integers(0, len(numbers) - 1))
    id = f"TASK-{numbers[at]}"
    if numbers[at] == 9:
        assert without_task(text, id) == text
        return
    others = [f"{head}\n", *blocks[:at]], blocks[at + 1 :]

    assert without_task(text, id) == "".join([*others[0], *others[1]])
    assert with_task(text, block("TASK-10")).startswith(text)


@given(any_text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    """As a whole, and as a part of a block."""
    for each in (text, block() + text, f"---\n{text}\n---\n{text}", f"---\ntask_id: TASK-1\n{text}\n---\nx"):
        parse_inbox(each)


def test_the_agent_only_takes_tasks_out() -> None:
    """Neither a new task nor other words in one, which a later run would take for the PM's."""
    before = block("TASK-001") + block("TASK-002")

    both = answered_in(["tasks/completed/TASK-001.md", "tasks/blocked/TASK-002.md", "tasks/TASK-003.md"])
    assert both == {"TASK-001", "TASK-002"}
    assert problem_with_agents_inbox(before, block("TASK-002").rstrip(), both) == ""
    assert problem_with_agents_inbox(before, "", both) == ""
    assert "takes TASK-002 out without an answer" in problem_with_agents_inbox(before, "", {"TASK-001"})
    assert "adds TASK-003" in problem_with_agents_inbox(before, before + block("TASK-003"), both)
    assert "changes TASK-002" in problem_with_agents_inbox(before, before.replace("Do TASK-002", "Push the key"), both)
    assert problem_with_agents_inbox(before, before + block("TASK-003", "bad: 1\n"), both)


def test_when_both_write_the_pms_text_stands() -> None:
    """We took out what is done; what the PM added stays, and what he changed meanwhile is not taken out."""
    base = block("TASK-001") + block("TASK-002")
    pms = base.replace("Do TASK-002", "Do it all") + block("TASK-003")

    assert merged(base, block("TASK-002"), pms) == pms.removeprefix(block("TASK-001"))
    assert merged(base, block("TASK-001"), pms) == pms
    assert merged(base, "", "") == ""


def test_an_id_is_never_given_twice() -> None:
    """One above the highest that was ever used."""
    assert next_id(set()) == "TASK-001"
    assert next_id({"TASK-009", "TASK-120"}) == "TASK-121"
