"""Approvals from the runner's side: a call that the policy wants asked becomes a report on the page, and the PM's line
under Directives its answer. What is asked and answered is read from the page each time, never remembered elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from infra.contract.approvals import Answer, answer_lines, asked, call_hash, id_of, open_answers, title
from infra.contract.files import write_whole
from infra.contract.secret_shapes import redacted_value
from infra.life.home import Home
from infra.life.page import Seen
from infra.loop.recorded import Recorded
from infra.loop.registry import Verdict
from infra.loop.truncation import shorten
from infra.policy.gate import DENIED, INSTEAD
from infra.repository.git import GitError

AWAITING = "awaiting_approval"
SHOWN_CHARS = 8000
"""Of the arguments of a call that the PM is asked about."""
STANDSTILL = ".awaiting"
"""Beside the clones: the Directives for which work waits for an answer, as a hash; outlives the runner."""


class Approvals:
    """Of one unit of work: what it asked, what it waits for, what it was told."""

    def __init__(self, home: Home, seen: Seen) -> None:
        self._home = home
        self._document = seen.document
        self._waiting: set[str] = set()
        self._told: set[Answer] = set()
        self.lines = set(answer_lines(seen.document))
        """Directives that are answers, to be ticked with the unit."""

    def recall(self, run: Recorded) -> None:
        """What the record of this unit tells of calls that wait."""
        for _, (call, reply) in sorted(run.done.items()):
            id = id_of(call_hash(call.name, call.input))
            if reply.error_code == AWAITING:
                self._waiting.add(id)
            elif reply.policy_flags:
                self._waiting.discard(id)

    def awaits(self) -> bool:
        """Whether a call of this unit was asked about and neither made nor denied."""
        return bool(self._waiting)

    def ask(self, tool: str, given: Mapping[str, Any], why: str) -> Verdict:
        """What the PM says of this call; asks when nobody has. An answer without its question is none: the id alone is
        too short to say which call it is for. Raises OSError: then nothing waits."""
        whole = call_hash(tool, given)
        id = id_of(whole)
        try:
            self._see(self._home.page.look().document)
        except GitError as error:  # what was known before is as good: an answer is found by the next call
            self._home.log.warning("page.not_read", error=str(error))
        question, answer = self._question(id), open_answers(self._document).get(id)
        if question and whole not in question:
            words = f"the PM was asked about another call that has the same id, {id}; change the call a little"
            return Verdict(False, words, DENIED, (DENIED,))
        if question and answer:
            self._waiting.discard(id)
            if answer.approved:
                return Verdict(True, flags=("approved",))
            said = f": {answer.why}" if answer.why else ""
            return Verdict(False, f"the PM denies this call ({id}){said}. {INSTEAD}", DENIED, (DENIED,))
        if not question:
            home = self._home
            home.log.info("approval.asked", id=id, tool=tool)
            home.page.report(title(home.boot.branch, home.head_or_boot(), id, tool), _text(tool, given, why, id, whole))
        self._waiting.add(id)
        words = (
            f"the PM is asked about this call ({id}; {why}) and has not answered yet. Nothing was done. Do something "
            "else meanwhile, or end your turn; you are started again when the PM has answered"
        )
        return Verdict(False, words, AWAITING, ("asked",))

    def news(self, seen: Seen) -> str | None:
        """Words for the model on answers to what this unit asked that are new on the page."""
        self._see(seen.document)
        words = []
        for answer in open_answers(seen.document).values():
            if answer.id not in self._waiting or answer in self._told:
                continue
            self._told.add(answer)
            if answer.approved:
                words.append(f"The PM approves call {answer.id}: make it again, with the same arguments.")
            else:
                self._waiting.discard(answer.id)
                words.append(f"The PM denies call {answer.id}{': ' if answer.why else '.'}{answer.why}")
        return "\n\n".join(words) or None

    def _question(self, id: str) -> str | None:
        """The report that asks about the call with this id, on the page or on its way there."""
        known = asked(self._document).get(id)
        if known:
            return known.report
        return next((report.text for report in self._home.page.underway() if f" [{id}]: " in report.title), None)

    def _see(self, document: str) -> None:
        self._document = document
        self.lines |= answer_lines(document)


def _text(tool: str, given: Mapping[str, Any], why: str, id: str, whole: str) -> str:
    call = json.dumps(redacted_value(dict(given)), ensure_ascii=False)
    shown = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in shorten(call, SHOWN_CHARS))
    return (
        f"May I make this call of `{tool}`? ({why})\n\n    {shown}\n\n"
        f"Write under Directives `approve {id}`, or `deny {id}: why`; or use 'minifram approve {id}', 'minifram deny'. "
        f"Until then the work waits. The call's SHA-256 is {whole}."
    )


def stand_still(home: Home, directives: str) -> None:
    """Note that with these Directives nothing can be done before the PM answers."""
    try:
        write_whole(_path(home), _hash(directives))
    except OSError as error:
        home.log.warning("standstill.not_noted", error=str(error))


def stands_still(home: Home, directives: str) -> bool:
    try:
        descriptor = os.open(_path(home), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read(100) == _hash(directives)
    except OSError:
        return False


def go_on(home: Home) -> None:
    try:
        os.unlink(_path(home))
    except OSError:
        return


def _path(home: Home) -> str:
    return os.path.join(home.boot.places.bot, STANDSTILL)


def _hash(directives: str) -> bytes:
    return hashlib.sha256(directives.encode(errors="surrogatepass")).hexdigest().encode()
