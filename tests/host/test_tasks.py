"""`minifram task`: the PM's tasks on the branch of the mind."""

from __future__ import annotations

from pathlib import Path

from infra.cell.mind.tasks import TaskAnswer, TaskStatus, answer_text, read_answer
from infra.shared.mind.layout import ACTIVE, INBOX
from infra.shared.mind.tasks import inbox_of
from tests.host.desk import Desk

HEAD = "# Inbox\n\nWords of the PM.\n"


def shown(desk: Desk, path: str) -> str:
    return desk.git().raw("cat-file", "blob", f"mind:{path}").decode()


def test_a_task_is_added_as_a_block_and_a_commit_of_the_pms(desk: Desk) -> None:
    """All else stays byte for byte; the id is one that was never used, whatever became of its task."""
    desk.puts_mind({INBOX: HEAD, "tasks/completed/TASK-006.md": "old\n"})
    git = desk.git()
    first = desk.done("task", "add", "Write it.", "--json").json
    text = "Do it.\n\n## Success criteria\n- It works."
    more = ("--priority", "high", "--deadline", "2026-02-10T00:00:00Z", "--context", "Only at night.")

    second = desk.done("task", "add", text, *more).out

    assert first["id"] == "TASK-007"
    assert second.endswith("task TASK-008\n")
    inbox = shown(desk, INBOX)
    assert inbox.startswith(HEAD)
    done, task = inbox_of(inbox).tasks
    assert (done.priority, done.deadline) == ("medium", None)
    assert (task.priority, task.context, task.criteria) == ("high", "Only at night.", "- It works.")
    assert git("log", "-2", "--format=%an %s", "mind").splitlines() == [
        "PM task: TASK-008 Do it.",
        "PM task: TASK-007 Write it.",
    ]
    desk.puts_mind({INBOX: HEAD})
    assert desk.done("task", "add", "Again.", "--json").json["id"] == "TASK-009", "removed by hand, and not used again"


def test_tasks_are_listed_with_their_state(desk: Desk) -> None:
    """What is next at the top, then what waits for the PM, then the answers. What the agent
    works on is said by its own clone: the branch has it when the run is over."""
    desk.puts_mind({INBOX: HEAD})
    for priority, words in (("low", "one"), ("high", "two"), ("medium", "three"), ("medium", "four")):
        desk.done("task", "add", words, "--priority", priority)
    three = inbox_of(shown(desk, INBOX)).find("TASK-003")
    assert three
    asked = TaskAnswer("TASK-003", TaskStatus.BLOCKED, "2026-01-31", "Which port?", digest=three.digest)
    failed = TaskAnswer("TASK-000", TaskStatus.FAILED, "2026-01-30", "It cannot be done.")
    desk.puts_mind(
        {
            INBOX: shown(desk, INBOX) + "\n---\ntask_id: TASK-9\npriority: urgent\n---\nx\n",
            asked.path: answer_text(asked),
            failed.path: answer_text(failed),
        }
    )

    active = Path(desk.home().places.mind) / ACTIVE
    active.parent.mkdir(parents=True)
    active.write_text("# Active\n\n## TASK-001\n")
    assert "active" not in desk.done("task", "list").out, "nothing is while the agent is down"
    assert desk.call("up").code == 0

    listed = desk.done("task", "list", "--json").json
    lines = desk.done("task", "list").out.splitlines()

    assert [(each["id"][-1], each["state"]) for each in listed["tasks"]] == [
        *(("1", "active"), ("2", "open"), ("4", "open"), ("3", "blocked"), ("0", "failed")),
    ]
    assert "expected high, medium, low" in lines[0]
    assert "Which port?" in lines[4]
    assert "Which port?" in desk.done("task", "show", "3").out
    assert "active" in desk.done("task", "show", "TASK-001").out


def test_a_cancelled_task_leaves_the_inbox_with_a_note(desk: Desk) -> None:
    """A second time there is nothing to cancel; its answer is shown as cancelled."""
    desk.puts_mind({INBOX: HEAD})
    desk.done("task", "add", "one")
    desk.done("task", "add", "two")
    two = inbox_of(shown(desk, INBOX)).tasks[1].text

    assert "cancelled" in desk.done("task", "cancel", "task-001", "no longer needed").out

    assert shown(desk, INBOX) == f"{HEAD}\n{two}"
    note = read_answer(shown(desk, "tasks/completed/TASK-001.md"))
    assert (note.status, note.summary) == (TaskStatus.FAILED, "Cancelled by the PM. no longer needed")
    assert desk.done("task", "show", "1", "--json").json["state"] == "cancelled"
    assert desk.run("task", "cancel", "1").code == desk.run("task", "show", "TASK-777").code == 4


def test_what_cannot_be_a_task_is_refused_with_what_to_do(desk: Desk) -> None:
    """And an agent without a mind is told how it gets one."""
    desk.puts_mind({INBOX: HEAD})
    for words, said in (
        (("x", "--deadline", "tomorrow"), "expected one like 2026-02-10T00:00:00Z"),
        ((" ",), "the task is empty"),
        (("x\n---\ntask_id: TASK-1\n---\ny",), "say it in other words"),
        (("x" * (1 << 19),), "put the rest into a file"),
    ):
        ended = desk.run("task", "add", *words)
        assert (ended.code, said in ended.err) == (2, True), ended.err
    assert shown(desk, INBOX) == HEAD
    desk.git()("update-ref", "-d", "refs/heads/mind")
    assert "'minifram up' makes one" in desk.run("task", "add", "x").err
