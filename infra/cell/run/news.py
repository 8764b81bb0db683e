"""What a run's model is told between two steps: what the PM did to its work, new directives, answers, and money."""

from __future__ import annotations

import secrets
import time

from infra.cell.cell import Cell
from infra.cell.loop.record import Acted, args_hash
from infra.cell.loop.ways import News
from infra.cell.page import PageSeen
from infra.cell.run.approvals import waiting
from infra.cell.run.opening import Opening
from infra.cell.wakes import Wakes
from infra.cell.work.work import Work, WorkSource
from infra.shared.approvals import open_answers
from infra.shared.boot import TOOLS
from infra.shared.conversation import TOOL_USE, Completion, ToolUse
from infra.shared.repository.git import GitError

MARKS = (0.80, 0.90, 0.95, 0.99)
"""Of the day's budget: at each the model is told once."""


class RunNews:
    """The news of one run."""

    def __init__(
        self, cell: Cell, wakes: Wakes, seen: PageSeen, work: Work, source: WorkSource, start: Opening
    ) -> None:
        """A run that is resumed is told after its first step what is open beside its own work."""
        self._cell, self._wakes, self._source, self._start = cell, wakes, source, start
        self.work, self.document = work, seen.document
        """As they are now."""
        is_resumed = start.before is not None
        self._known = {*work.ticks} if is_resumed else {each.id for each in seen.open}
        self._joined = list[str]()
        self._to_look = is_resumed
        self._answered = list[Acted]()
        """Those whose answer the model was told; one that is asked about again waits again."""
        self._due = list[Acted]()
        """Calls that the PM has answered, and are to be made now."""
        self._spent = self._noticed = 0.0

    def all_words(self) -> str:
        """For a conversation that has lost its beginning."""
        return "\n\n".join((f"The work of this run is {self.work.id}:\n\n{self.work.words}", *self._joined))

    def spent(self, share: float) -> None:
        """Of the day's budget, as the model door said with its last answer."""
        self._spent = share

    def wait(self, seconds: float) -> bool:
        """Wait so long; true when main has moved: the run ends then, and goes on from its record if its work still
        stands. Raises Interrupted."""
        return self._wakes.sleep(time.time() + seconds)

    def asks(self) -> tuple[str, ...]:
        """Ids of the questions that wait for the PM's answer."""
        return tuple(self._waiting())

    def _waiting(self) -> dict[str, Acted]:
        found = waiting(self._start.record.lines)
        return {id: call for id, call in found.items() if call not in self._answered}

    def makes(self) -> Completion | None:
        """What the PM has answered is made as it was asked, in the model's name: the result is the answer."""
        due, self._due = self._due, []
        uses = (ToolUse(f"answered-{secrets.token_hex(4)}", call.tool_name, call.args) for call in due)
        return Completion(tuple(uses), TOOL_USE, "runner") if due else None

    def words(self) -> News:
        """What is new since this was asked last."""
        return News(pm=self._of_the_pm(), runtime=self._of_money())

    def _of_the_pm(self) -> str:
        self._to_look = self._wakes.moved() or self._to_look
        if not self._to_look:
            return ""
        try:
            seen = self._cell.page.look()
            changed, self.work = self._source.news(self.work, seen)
        except GitError as error:
            self._cell.log.warning("page.not_read", error=str(error))
            return ""
        self._to_look, self.document = False, seen.document
        self._wakes.seen(main=seen.commit)
        return "\n\n".join(filter(None, (changed, *self._answers(), self._new_directives(seen))))

    def _answers(self) -> list[str]:
        """To questions of this run that the model was not told of yet."""
        words, answers = list[str](), open_answers(self.document)
        for id, call in self._waiting().items():
            if id not in answers:
                continue
            self._answered.append(call)
            # It is made by calling a tool, and only as it was asked: a key may have been left out of the record.
            is_made = self._start.opened.acts == TOOLS and args_hash(call.args) == call.args_hash
            self._due += [call] if is_made else []
            then = "it is made now, as it was asked" if is_made else "make it again, with the same words"
            why = answers[id].why
            words.append(
                f"The PM approves call {id}: {then}."
                if answers[id].approved
                else f"The PM denies call {id}{': ' if why else '.'}{why}"
            )
        return words

    def _new_directives(self, seen: PageSeen) -> str:
        """Each has a run of its own; what concerns this one is taken into account now."""
        fresh = [each for each in seen.open if each.id not in self._known]
        if not fresh:
            return ""
        self._known |= {each.id for each in fresh}
        self._cell.log.info("run.directives_added", directives=[each.id for each in fresh])
        listed = "\n\n".join(f"{each.id}: {each.text}" for each in fresh)
        words = (
            "New under Directives since you looked last. Take into account what concerns this run; each has a run of "
            f"its own, and your report ticks {self.work.id} alone:\n\n{listed}"
        )
        self._joined.append(words)
        return words

    def _of_money(self) -> str:
        mark = max((each for each in MARKS if each <= self._spent), default=0.0)
        if mark <= self._noticed:
            return ""
        self._noticed = mark
        return (
            f"{self._spent:.0%} of the day's budget is used up. When all of it is, the agent waits for the next UTC "
            "day. Commit and push what you have, and finish what matters most."
        )
