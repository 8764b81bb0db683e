"""A conversation that is kept within a budget of tokens.

Over the budget, or refused by the provider as too long, everything between the opening and the last steps becomes a
summary, by the model or else from the record of its calls; as often as needed, and seldom, because the provider caches
what stays the same from the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from infra.cell.doors import ModelFailure
from infra.cell.loop.context import summarise, tokens
from infra.shared.conversation import Completion, Message, Request, Text

KEPT_STEPS = 4
"""Of the last steps, each a reply and its results, so many outlive a summary."""
KEPT_SHARE = 0.2
"""Of the budget, so much may these take."""
OVERFLOW_SHARE = 0.9
"""Of what a provider once refused as too long, so much is the budget from then on."""
OVERFLOW = "context_overflow"
NO_MONEY = ("budget_exhausted", "exploration_exhausted")


class Room(NamedTuple):
    """What a conversation may take, and what its caller does for it."""

    tokens: int
    remind: Callable[[], str]
    """What the model must know again after a summary."""
    recall: Callable[[int], str | None] = lambda step: None
    """The summary before this step that is on record."""
    ask: Callable[[Request], Completion] | None = None
    """Answers requests for summaries; None: the model of all other requests."""


class Summarised(NamedTuple):
    """The conversation was summarised."""

    step: int
    """Before its model call."""
    words: str
    by_model: bool
    """False: made from the record."""
    answers: tuple[Completion, ...]
    """Of the model, useful ones or not."""
    seconds: float
    tokens_before: int
    tokens_after: int


class Context:
    """The messages of one run of the loop, and how long they are."""

    def __init__(
        self,
        complete: Callable[[Request], Completion],
        request: Request,
        room: Room | None,
        monotonic: Callable[[], float],
        record: Callable[[Summarised], None],
    ) -> None:
        """Without `room` nothing is ever left out."""
        self._complete = complete
        self._request = request
        self._room = room
        self._monotonic = monotonic
        self._record = record
        self._messages = list(request.messages)
        self._opening = self._least = len(request.messages)
        """How many messages open the conversation, and how many it had when nothing could be left out."""
        self._sizes = [tokens.bytes_of(message) for message in request.messages]
        self._bytes = tokens.bytes_before_messages(request) + sum(self._sizes)
        self._tokens_per_byte = tokens.FIRST_TOKENS_PER_BYTE
        self._budget = room.tokens if room else 0
        self._summary = ""

    @property
    def size(self) -> int:
        """In tokens."""
        return self._tokens_of(self._bytes)

    def append(self, message: Message) -> None:
        size = tokens.bytes_of(message)
        self._messages.append(message)
        self._sizes.append(size)
        self._bytes += size

    def make_room(self, step: int) -> None:
        """Bring the conversation within its budget. Raises ModelFailure when that cannot be, or there is no money left,
        and Interrupted."""
        if self._room is None or self.size <= self._budget or len(self._messages) == self._least:
            return
        self._compact(self._room, step, KEPT_STEPS)
        if self.size > self._budget:
            sizes = f"{self.size} of {self._budget} tokens (limits.context_tokens)"
            raise ModelFailure(OVERFLOW, f"the opening of the conversation and its summary take {sizes}")

    def ask(self, step: int) -> Completion:
        """The model's next reply. Raises ModelFailure, Interrupted."""
        try:
            completion = self._complete(self._whole())
        except ModelFailure as failure:
            if failure.type != OVERFLOW or self._room is None or len(self._messages) == self._least:
                raise
            self._budget = min(self._budget, round(self.size * OVERFLOW_SHARE))
            self._compact(self._room, step, 0)  # the provider knows better than we do
            completion = self._complete(self._whole())
        self._tokens_per_byte = tokens.tokens_per_byte(self._bytes, completion.usage, self._tokens_per_byte)
        return completion

    def _compact(self, room: Room, step: int, most_steps: int) -> None:
        before, began = self.size, self._monotonic()
        recalled = room.recall(step)
        words, by_model, answers = (recalled, True, ()) if recalled else self._summarised(room.ask or self._complete)
        share = self._bytes_of(self._budget * KEPT_SHARE)
        kept = summarise.last_steps(self._sizes, self._opening, share, most_steps)
        go_on = "\n\n".join(filter(None, (summarise.GO_ON, room.remind())))
        between = [Message("assistant", (Text(words),)), Message("user", (Text(go_on),))]
        self._set([*self._messages[: self._opening], *between, *self._messages[len(self._messages) - kept :]])
        self._summary, self._least = words, len(self._messages)
        seconds = self._monotonic() - began
        self._record(Summarised(step, words, by_model, answers, seconds, before, self.size))

    def _summarised(self, ask: Callable[[Request], Completion]) -> tuple[str, bool, tuple[Completion, ...]]:
        """The summary, whether the model wrote it, and what the model answered."""
        answers: list[Completion] = []
        told, problem = self._messages, ""
        for _ in range(summarise.ATTEMPTS):
            again = summarise.AGAIN.format(problem=problem) if problem else ""
            messages = summarise.asked_for(told, f"{summarise.COMPACT}\n\n{again}".strip())
            try:
                answers.append(ask(self._request._replace(messages=messages)))
            except ModelFailure as failure:
                if failure.type in NO_MONEY:
                    raise
                if failure.type != OVERFLOW or len(told) - 2 <= self._opening:
                    break
                told = told[:-2]  # the last step is what made it too long
                continue
            problem = summarise.problem_with(answers[-1])
            if not problem:
                return summarise.words_of(answers[-1]), True, tuple(answers)
        words = summarise.from_record(self._messages[self._opening :], self._summary)
        return words, False, tuple(answers)

    def _whole(self) -> Request:
        return self._request._replace(messages=tuple(self._messages))

    def _set(self, messages: Sequence[Message]) -> None:
        """Other messages than before; what is the same message still has the same size."""
        known = {id(message): size for message, size in zip(self._messages, self._sizes, strict=True)}
        before = sum(self._sizes)
        self._sizes = [known.get(id(message)) or tokens.bytes_of(message) for message in messages]
        self._messages = list(messages)
        self._bytes += sum(self._sizes) - before

    def _tokens_of(self, size: float) -> int:
        return round(size * self._tokens_per_byte)

    def _bytes_of(self, tokens: float) -> int:
        return int(tokens / self._tokens_per_byte)
