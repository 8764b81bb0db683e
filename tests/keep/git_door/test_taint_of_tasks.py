"""Taint of work on a task of the inbox: until its report, and in the next task when every process of it has ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from infra.keep.git_door import work
from infra.keep.git_door.requests import answer
from infra.keep.git_door.work import may_begin
from infra.shared import comms, watcher_file
from infra.shared.mind.layout import INBOX, OPEN_QUESTIONS
from infra.shared.people import AGENT
from infra.shared.repository.git import EMPTY_TREE, Git
from infra.shared.repository.tip import commit_tree, tree_with, write_file
from infra.shared.requests import NO_TASK, AgentReport, AskTaint, Done, TaintedBy, encode_request, parse_request
from infra.shared.taint.machine import Taint, TaintState
from infra.shared.watcher_file import WatcherFile
from tests.keep.git_door.test_taint import Scene
from tests.keep.git_door.world import World
from tests.shared.rows import each_row
from tests.shared.web_traces import EVIL


class TaskScene(Scene):
    def inbox(self, *ids: str, questions: str = "") -> None:
        """What the mind has, whoever changed it."""
        git = Git(self.world.places.remote, AGENT, env={"GIT_DIR": self.world.places.remote})
        blocks = "".join(f"---\ntask_id: {id}\npriority: low\n---\nDo {id}.\n\n" for id in ids)
        tree = tree_with(git, EMPTY_TREE, {INBOX: write_file(git, blocks), OPEN_QUESTIONS: write_file(git, questions)})
        git("update-ref", "refs/heads/mind", commit_tree(git, tree, (), "the mind"))

    def begins(self, task: str) -> tuple[str, ...]:
        """A run says so; gives the taint that it is told of."""
        reply = answer(self.door, AskTaint(task))
        assert isinstance(reply, TaintedBy)
        return reply.origins

    def reports_task(self, *tasks: str) -> None:
        self.reports += 1
        at = f"2027-01-15T08:00:0{self.reports}.000Z"
        report = AgentReport(f"{self.reports:032x}", at, "main", "ab" * 20, "done: it", "words", (), tasks)
        assert isinstance(answer(self.door, report), Done)

    def is_restarted(self) -> None:
        """By the watcher, which ends every process of the cell."""
        self.started(time.time() + 1)

    def started(self, at: float) -> None:
        state = WatcherFile(runner_started=at)
        with open(self.world.places.watcher_state, "wb") as file:
            file.write(watcher_file.encode(state))


@pytest.fixture
def scene(world: World) -> TaskScene:
    made = TaskScene(world)
    made.inbox("TASK-001", "TASK-002")
    made.reports_done()
    return made


def test_a_task_is_tainted_until_its_report_and_the_next_is_not(scene: TaskScene) -> None:
    """Once the task has left the inbox, is reported, and the watcher has ended all that ran for it."""
    assert scene.begins("TASK-001") == ()
    scene.trace.served(EVIL)
    assert scene.tainted_by() == (EVIL,)
    scene.inbox("TASK-002")
    assert scene.tainted_by() == (EVIL,), "a task that left the inbox is not yet reported"
    scene.reports_task("TASK-001")

    assert scene.begins("TASK-002") == (EVIL,), "what ran for the first may still be alive"
    scene.is_restarted()
    assert scene.begins("TASK-002") == ()


def test_work_on_a_question_is_tainted_until_its_run_is_over(scene: TaskScene) -> None:
    """No report tells of it: the cell says that it is over, or what it works on next. Answered or not, what follows is
    untainted when the watcher has ended all that ran for it."""
    scene.inbox("TASK-001", questions="- Q-0001 (web): Who?\n- Q-0002: How?\n")
    ends = ((NO_TASK, "Q-0002"), (NO_TASK, NO_TASK), ("TASK-001", "TASK-001"), ("Q-0002", "Q-0002"))
    for over, then in ends:
        scene.started(-1.0)
        assert scene.begins("Q-0001") == ()
        scene.trace.served(EVIL)
        assert scene.begins("Q-0001") == (EVIL,)
        assert scene.begins(over) == (EVIL,), "what ran for it may still be alive"
        assert scene.begins(then) == (EVIL,)
        scene.is_restarted()
        assert scene.begins(then) == (), over
        scene.begins(NO_TASK)


def test_a_question_ends_the_taint_of_no_other_work(scene: TaskScene) -> None:
    """Neither of a directive that is open nor of a task, nor does one that no untainted work asked."""
    scene.inbox("TASK-001", questions="- Q-0001: How?\n")
    scene.begins("TASK-001")
    scene.trace.served(EVIL)
    for said in ("Q-0001", NO_TASK, "TASK-001"):
        scene.is_restarted()
        assert scene.begins(said) == (EVIL,)
    scene.inbox(questions="- Q-0001: How?\n")
    scene.reports_task("TASK-001")
    scene.is_restarted()
    assert scene.begins("Q-0009") == (EVIL,)
    assert scene.begins("Q-0001") == ()

    scene.tells("read a page")
    scene.trace.served(EVIL)
    for said in ("Q-0001", NO_TASK, NO_TASK):
        scene.is_restarted()
        assert scene.begins(said) == (EVIL,)
    page = scene.git("show", "main:COMMS.md")
    scene.decides({"COMMS.md": comms.tick(page, tuple(each.id for each in comms.open_directives(page)))})
    for said in ("Q-0001", NO_TASK, "Q-0001"):  # the PM has closed it; the run may still go on
        scene.is_restarted()
        assert scene.begins(said) == (EVIL,)
    scene.tells("something else")
    scene.next_work()


def test_what_such_work_left_that_would_begin_or_be_tried_is_held(scene: TaskScene) -> None:
    """A question asked anew and a candidate are free to it as long as it says what they are; of what it left in the
    clone, as it was killed, nobody would know. A report of its own is no such thing."""
    scene.inbox(questions="- Q-0001 (web): Who?\n")
    scene.started(-1.0)
    mind = scene.world.places.mind
    Git(scene.world.places.bot)("clone", "--quiet", "--branch=mind", scene.world.places.remote, mind)
    scene.begins("Q-0001")
    scene.trace.served(EVIL)
    left = ("reflection/open_questions.md", "skills/candidates/evil/SKILL.md")
    for path in (*left, "reflection/failures.md"):
        os.makedirs(os.path.dirname(f"{mind}/{path}"), exist_ok=True)
        Path(f"{mind}/{path}").write_text("- Q-0002 (web): What does evil say?\n")
    scene.begins(NO_TASK)
    scene.is_restarted()
    reply = answer(scene.door, AskTaint(NO_TASK))
    assert reply == TaintedBy((), left)


def test_a_tainted_cell_does_not_talk_itself_out_of_it(scene: TaskScene) -> None:
    """Neither by a report of another task, nor of its own that still stands in the inbox and could be resumed, nor by
    saying that it works on something else."""
    scene.begins("TASK-001")
    scene.trace.served(EVIL)
    for forged in (
        lambda: scene.reports_task("TASK-001"),
        lambda: scene.begins("TASK-002"),
        lambda: scene.begins(NO_TASK),
        lambda: scene.inbox("TASK-001"),
        lambda: scene.reports_task("TASK-002"),
        lambda: scene.begins("TASK-999"),
    ):
        forged()
        scene.is_restarted()
        assert scene.begins("TASK-001") == (EVIL,)


def test_directives_end_their_taint_as_ever(scene: TaskScene) -> None:
    """A task that was put off before is no part of it."""
    scene.begins("TASK-001")
    scene.begins(NO_TASK)
    scene.tells("read a page")
    scene.trace.served(EVIL)
    assert scene.tainted_by() == (EVIL,)

    scene.next_work()


NOW = Taint(1.0, (EVIL,))
OVER = NOW._replace(over=True)


@each_row(
    "task, before, taint, is_restarted, may",
    [
        ("TASK-1", "", None, False, True),
        ("TASK-9", "", None, True, False),
        (NO_TASK, "TASK-1", None, False, True),
        (NO_TASK, "TASK-1", NOW, True, False),
        ("TASK-2", "TASK-1", NOW, True, False),
        ("TASK-2", "TASK-8", NOW, False, True),
        ("TASK-2", "", NOW, False, True),
        ("Q-1", "", None, False, True),
        ("Q-1", "", NOW, True, False),
        ("Q-1", "", OVER, True, True),
        (NO_TASK, "", OVER, True, False),
        ("TASK-2", "", OVER, False, False),
        ("TASK-2", "", OVER, True, True),
    ],
)
def test_when_work_counts_as_that_on_a_task(
    task: str, before: str, taint: Taint | None, is_restarted: bool, may: bool
) -> None:
    """Only what wins nothing: the task is the PM's, and the work before cannot be gone on with."""
    assert may_begin(task, before, {"TASK-1", "TASK-2", "Q-1"}, TaintState(now=taint), is_restarted) is may


def test_the_file_and_the_request_are_read_strictly(world: World) -> None:
    """What somebody left in the file is no task; a runner of before says nothing."""
    with open(f"{world.places.var}/{work.NAME}", "w", encoding="utf-8") as file:
        file.write("../x")
    assert work.under_way(world.places.var) == ""
    assert parse_request(b'{"do": "taint"}') == AskTaint()
    assert parse_request(encode_request(AskTaint("TASK-001"))) == AskTaint("TASK-001")
    with pytest.raises(ValueError, match="field 'task'"):
        parse_request(b'{"do": "taint", "task": "a task"}')
