"""Questions of the agent's own, for when there is nothing else to do, within what the PM allows for a UTC day. Money is
counted by the model door, time is counted here."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator

from infra.cell.cell import Cell
from infra.cell.mind.mind import UNKNOWN_ORIGIN
from infra.cell.page import PageSeen
from infra.cell.run_states import StopReason
from infra.cell.state import Explored
from infra.cell.work.tasks import Tasks
from infra.cell.work.work import Over, Report, Work
from infra.shared.branches import MIND
from infra.shared.conversation import SHARES
from infra.shared.mind.layout import OPEN_QUESTIONS
from infra.shared.mind.questions import OpenQuestion, new_question, open_questions, with_answer
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import read_file

DAY_SECONDS = 3600.0
"""Of exploration in a UTC day: a model that costs nothing has no other bound."""
_EXPLORE = f"""\
Nobody waits for this: it is an open question of your own, from {OPEN_QUESTIONS}. Find out what you can within a few
steps, note what you learn, change nothing on main, and end your turn with the answer in a few sentences.{{may}}"""
_MAY = {
    "": "\nThe web and the installing of packages are for questions that are marked so: `(web)`, `(tools)`.",
    "web": "\nYou may read the web for it, and install nothing.",
    "tools": "\nYou may install packages for it, outside of main, and read no pages.",
    "skills": "\nWhat you change is a skill in skills/candidates/.",
}


def work_on(question: OpenQuestion) -> Work:
    words = f"Task {question.id}: {question.text}\n\n{_EXPLORE.format(may=_MAY[question.part])}"
    return Work(question.id, f"Task {question.id}: {question.text}", words, label=question.label)


class Questions:
    def __init__(self, cell: Cell, tasks: Tasks) -> None:
        self._cell, self._tasks = cell, tasks
        self._began = 0.0

    def open(self, seen: PageSeen) -> Iterator[Work]:
        """Those that the branch has as well, where no tainted agent asks any."""
        cell, commit = self._cell, self._tasks.commit
        if cell.boot.exploration_usd is None or not commit:
            return
        pushed = set(open_questions(read_file(cell.git, commit, OPEN_QUESTIONS) or ""))
        asked = [each for each in open_questions(self._tasks.files.questions()) if each in pushed]
        yield from map(work_on, with_time(asked, cell.state.explored(cell.now()[:10])))

    def begin(self, work: Work, run: str) -> None:
        """A question is tried once a day."""
        self._began = time.monotonic()
        self._cell.state.explores(self._cell.now()[:10], Explored(work.id, work.label))

    def news(self, work: Work, seen: PageSeen) -> tuple[str, Work]:
        return "", work

    def end(self, work: Work, over: Over) -> Report | None:
        """Nobody waits for a report."""
        self._answer(work, over)
        self._tasks.rest()
        return None

    def _answer(self, work: Work, over: Over) -> None:
        """Write the answer below the question."""
        cell, result, today = self._cell, over.result, self._cell.now()[:10]
        cell.state.explores(today, Explored(work.id, work.label, time.monotonic() - self._began))
        if result.reason is not StopReason.COMPLETED or not result.text.strip():
            cell.log.info("exploration.ended", question=work.id, end=result.reason.value)
            return
        text = self._tasks.files.questions()
        try:
            origins, is_tainted = over.reads.origins(), over.reads.is_tainted()
        except OSError:
            origins, is_tainted = (UNKNOWN_ORIGIN,), True
        try:
            if is_tainted:
                text = self._without_new(text, over.run)
            self._tasks.files.write_questions(with_answer(text, work.id, result.text, today, over.run, origins))
            cell.log.info("exploration.answered", question=work.id)
        except OSError as error:
            cell.log.error("tasks.not_written", error=str(error), next="see the disk and reflection/ of the mind")

    def _without_new(self, text: str, run: str) -> str:
        """A tainted agent asks nothing anew: what it wrote goes aside, or the answer could not be pushed. Raises
        OSError."""
        try:
            pushed = read_file(self._cell.git, f"refs/remotes/origin/{MIND}", OPEN_QUESTIONS) or ""
        except GitError:
            pushed = ""
        if not new_question(pushed, text):
            return text
        self._tasks.files.write_questions(text, held_of=run)
        return pushed


def with_time(
    questions: Iterable[OpenQuestion], explored: Collection[Explored], day_seconds: float = DAY_SECONDS
) -> list[OpenQuestion]:
    """Those that were not tried on this day, and for which there is time. Pure."""
    tried = {each.question for each in explored}

    def has_time(label: str) -> bool:
        of_label = sum(each.seconds for each in explored if each.label == label)
        return of_label < day_seconds * SHARES.get(label, 1.0)

    if sum(each.seconds for each in explored) >= day_seconds:
        return []
    return [each for each in questions if each.id not in tried and has_time(each.label)]
