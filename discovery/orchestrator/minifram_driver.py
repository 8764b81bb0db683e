"""A model explores, through a model door of its own on this machine (`LLM_MODE=minifram`).

Each step is one call: the reply holds the post-exec block for the last result and the next pre-exec block. The door has
the key, the ledger and the budget; the container sees none of it, only the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import door_client
from door_client import BUDGETS, TOO_LONG, Completion, DoorFailure
from llm_driver import LLMDriver, Question, Result
from model_replies import SHORT_CHARS, asked_questions, read_answers, shown_result, split_reply
from model_talk import LEAST_CHARS, MOST_CHARS, Talk, Turn, messages_of, size_of, within

SOCKET, USD, RUN = "MINIFRAM_MODEL_SOCKET", "DISCOVERY_USD", "DISCOVERY_RUN"
"""In the environment: the door's socket; the most US dollars of the run; the run's name in the door's ledger."""
MOST_REFUSALS = 5
"""Blocks in a row that could not be understood; then the run ends."""
KEPT_FOR_ANSWERS = 2.0
"""Times the last call's cost: no further step is begun when less is left of the run's money."""

BEGIN = """\
Begin. Each reply of yours is one message: the post-exec block for the result that you were just shown, then the next \
pre-exec block with exactly one command. In the first reply there is no result yet, so it is a pre-exec block alone. \
When you have nothing more to find out, reply with the post-exec block and <Done> instead of a command.{bounds}"""
CUT = "Your reply was cut at the limit of tokens. Reply again, shorter."


class Settings(NamedTuple):
    """What the environment says."""

    socket: str
    usd: float | None = None
    """None: the door's own budget alone."""
    run: str = ""


def settings_from(environ: Mapping[str, str]) -> Settings:
    """Raises ValueError that says what to set."""
    path = environ.get(SOCKET, "")
    if not path:
        raise ValueError(
            f"LLM_MODE is minifram, and {SOCKET} is not set; expected the socket of a model door. "
            "'minifram discover run' starts one; without a model, leave LLM_MODE out"
        )
    if not os.path.exists(path):
        raise ValueError(f"{SOCKET} is {path}, and nothing is there; 'minifram discover run' starts a model door")
    text = environ.get(USD, "")
    try:
        usd = float(text) if text else None
    except ValueError:
        usd = -1.0
    if usd is not None and not 0 < usd < 1e12:
        raise ValueError(f"{USD} is {text!r}; expected US dollars for one run, such as 0.5")
    return Settings(path, usd, environ.get(RUN, ""))


class MiniframDriver(LLMDriver):
    """Decides by a model. `ended_by` is "model" when it had no further command, "budget", or what went wrong."""

    mode = "minifram"
    usd: float = 0.0
    """Calls that failed are in the door's ledger alone."""
    tokens: int = 0

    def __init__(
        self,
        prompt: str,
        settings: Settings,
        complete: Callable[..., Completion] = door_client.completed,
        context_chars: int = MOST_CHARS,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    ) -> None:
        self._prompt = prompt
        self._settings = settings
        self._complete = complete
        self._say = say
        self._context_chars = context_chars
        bounds = f" There are at most {settings.usd:g} US dollars for all of it." if settings.usd is not None else ""
        self._talk: Talk = (Turn("user", BEGIN.format(bounds=bounds)),)
        self._next: str | None = None
        """The pre-exec block that came with the last note, until `decide` gives it."""
        self._steps = 0
        self._refusals = 0
        self._last_usd = 0.0

    def open(self) -> None:
        """Learn who answers. Raises DoorFailure when its calls cannot work."""
        self.model = door_client.model_of(self._settings.socket)

    def decide(self, last: Result | None) -> str:
        if self._next is None and not self.ended_by:
            self._step()
        block, self._next = self._next or "", None
        return block

    def refused(self, plan: str, error: str) -> None:
        """The model is told why by the next `decide`."""
        self._refusals += 1
        self._hear(f"This block was not carried out: {error}")
        if self._refusals >= MOST_REFUSALS:
            self.ended_by = f"{MOST_REFUSALS} blocks in a row were refused; the last: {error}"

    def note(self, result: Result) -> str:
        """The reply's pre-exec block is kept for `decide`."""
        self._steps += 1
        self._refusals = 0
        self._hear(shown_result(result), shown_result(result, SHORT_CHARS))
        return self._step()

    def answer(self, questions: list[Question]) -> dict[str, str]:
        """What the model says from its conversation alone; nothing when it cannot be asked, or saw no result."""
        if not questions or not self._steps:
            return {}
        before = self._talk
        self._hear(asked_questions(questions))
        try:
            said = self._said(shorter_for=(TOO_LONG, *BUDGETS))
        except DoorFailure as failure:
            self._say(f"the questions were not answered: {failure}")
            return {}
        finally:
            self._talk = before
        return read_answers(said.text, questions)

    def _step(self) -> str:
        """One call: keeps the next pre-exec block, and gives the post-exec block."""
        most = self._settings.usd
        if most is not None and self.usd + KEPT_FOR_ANSWERS * self._last_usd >= most:
            return self._end("budget")
        try:
            said = self._said()
        except DoorFailure as failure:
            self._say(f"the run ends: {failure}")
            return self._end("budget" if failure.type in BUDGETS else f"model: {failure}")
        if said.stop_reason == "refusal":
            return self._end(f"model: it refused: {said.text[:500]}")
        if said.text:
            self._talk = (*self._talk, Turn("assistant", said.text))
        if said.stop_reason == "max_tokens":  # a cut command may look whole
            self._refusals += 1
            if self._refusals >= MOST_REFUSALS:
                return self._end(f"model: {MOST_REFUSALS} replies in a row could not be used")
            self._hear(CUT)
            return self._step()
        reply = split_reply(said.text)
        self._next = reply.pre
        if not reply.pre:
            self.ended_by = "model"
        return reply.post

    def _end(self, why: str) -> str:
        self.ended_by, self._next = why, ""
        return ""

    def _said(self, shorter_for: tuple[str, ...] = (TOO_LONG,)) -> Completion:
        """One completion of the conversation, which is made shorter after a failure of these types. Raises DoorFailure.

        The door reserves what a call could cost at worst, so a shorter conversation may fit where this one does not."""
        limit = self._context_chars
        while True:
            self._talk = within(self._talk, limit)
            try:
                said = self._complete(
                    self._settings.socket,
                    self._prompt,
                    messages_of(self._talk),
                    run=self._settings.run,
                    say=self._say,
                )
            except DoorFailure as failure:
                shorter = min(limit, size_of(self._talk)) // 2
                if failure.type not in shorter_for or shorter < LEAST_CHARS:
                    raise
                limit = shorter
            else:
                self.usd += said.usd
                self.tokens += said.tokens
                self._last_usd = said.usd
                return said

    def _hear(self, text: str, short: str = "") -> None:
        """What the model is told next. Two messages to it in a row are one: roles take turns."""
        last = self._talk[-1]
        if last.role == "user":
            self._talk = (*self._talk[:-1], Turn("user", f"{last.text}\n\n{text}", _joined(last, text, short)))
        else:
            self._talk = (*self._talk, Turn("user", text, short))


def _joined(last: Turn, text: str, short: str) -> str:
    """What stands for two messages in one once they are old."""
    return f"{last.short or last.text}\n\n{short or text}" if last.short or short else ""
