"""A conversation that is kept within a budget of tokens.

Three stages, each rare and thorough, because the provider caches what stays the same from the start: over the budget,
old long texts are trimmed until half of it is left; where that is not enough, once, a summary by the model replaces all
but the opening and the last steps; after that, a hand-over is written and the conversation is out of room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from infra.cell.doors import ModelFailure
from infra.cell.loop.context import summarise, tokens, trim
from infra.cell.loop.context.images import without_the_oldest
from infra.cell.loop.context.trim import Cut, Cuts
from infra.shared.conversation import Completion, Message, Request, Text, images_of

LOW_WATER = 0.5
"""Shares of the budget: so much is left after cutting."""
KEPT_SHARE = 0.2
"""So much the last steps may take that outlive a summary."""
OVERFLOW_SHARE = 0.9
"""Of what a provider once refused as too long, so much is the budget from then on."""
OVERFLOW = "context_overflow"
NO_MONEY = ("budget_exhausted", "exploration_exhausted")


class Room(NamedTuple):
    """What a conversation may take, and what its caller does for it."""

    tokens: int
    spill: Callable[[bytes], str]
    """Keeps a text where the model can search it; gives the path. Raises OSError."""
    remind: Callable[[], str]
    """What the model must know again after a summary."""
    recall: Callable[[int, bool], str | None] = lambda step, hands_over: None
    """The summary before this step, for a new conversation or not, that is on record."""
    ask: Callable[[Request], Completion] | None = None
    """Answers requests for summaries; None: the model of all other requests."""


class Trimmed(NamedTuple):
    """Old texts were cut to their ends."""

    step: int
    """Before its model call."""
    blocks: int
    tokens_before: int
    tokens_after: int


class Summarised(NamedTuple):
    """The conversation was summarised."""

    step: int
    hands_over: bool
    """For a new conversation; False: for the rest of this one."""
    words: str
    by_model: bool
    """False: made from the record."""
    answers: tuple[Completion, ...]
    """Of the model, useful ones or not."""
    seconds: float
    tokens_before: int
    tokens_after: int


class OutOfRoom(Exception):
    """Nothing more can be made room for; carries the hand-over."""


class Context:
    """The messages of one run of the loop, and how long they are."""

    def __init__(
        self,
        complete: Callable[[Request], Completion],
        request: Request,
        room: Room | None,
        monotonic: Callable[[], float],
        record: Callable[[Trimmed | Summarised], None],
    ) -> None:
        """Without `room` nothing is ever left out."""
        self._complete = complete
        self._request = request
        self._room = room
        self._monotonic = monotonic
        self._record = record
        self._messages = list(request.messages)
        self._opening = len(request.messages)
        self._sizes = [tokens.bytes_of(message) for message in request.messages]
        self._bytes = tokens.bytes_before_messages(request) + sum(self._sizes)
        self._tokens_per_byte = tokens.FIRST_TOKENS_PER_BYTE
        self._budget = room.tokens if room else 0
        self._summary = ""
        self._refused = False

    @property
    def size(self) -> int:
        """In tokens."""
        return self._tokens_of(self._bytes)

    def append(self, message: Message) -> None:
        """Also what is in the way: the oldest images, where there are more than a request may have."""
        size = tokens.bytes_of(message)
        self._messages.append(message)
        self._sizes.append(size)
        self._bytes += size
        if any(images_of(block) for block in message.content):
            self._set(without_the_oldest(self._messages))

    def make_room(self, step: int) -> None:
        """Bring the conversation within its budget. Raises OutOfRoom, ModelFailure when there is no money left,
        Interrupted."""
        if self._room is None or len(self._messages) == self._opening:
            return
        if large := trim.choose_large(self._messages, self._sizes, self._opening):
            self._cut(step, large)
        if self.size <= self._budget:
            return
        low = self._bytes_of(self._budget * LOW_WATER)
        cuts = self._cuts(low, trim.LEAST_STEPS)
        if cuts.size <= low:
            self._cut(step, cuts.chosen)
        elif not self._summary:
            self._compact(step)
        else:
            raise OutOfRoom(self._hand_over(step))

    def ask(self, step: int) -> Completion:
        """The model's next reply. Raises ModelFailure, OutOfRoom, Interrupted."""
        try:
            completion = self._complete(self._whole())
        except ModelFailure as failure:
            if failure.type != OVERFLOW or self._room is None or len(self._messages) == self._opening:
                raise  # an opening that is too long cannot be helped from here
            completion = self._ask_shorter(step)
        self._tokens_per_byte = tokens.tokens_per_byte(self._bytes, completion.usage, self._tokens_per_byte)
        return completion

    def _ask_shorter(self, step: int) -> Completion:
        """Once more, with half of it, the last steps too where it must be; the provider knows better than we do."""
        half = self._bytes // 2
        cuts = self._cuts(half, least_steps=0)
        if self._refused or not cuts.chosen:
            raise OutOfRoom(self._hand_over(step))
        self._refused = True
        self._budget = min(self._budget, round(self.size * OVERFLOW_SHARE))
        self._cut(step, cuts.chosen)
        try:
            return self._complete(self._whole())
        except ModelFailure as failure:
            if failure.type != OVERFLOW:
                raise
        raise OutOfRoom(self._hand_over(step))

    def _cuts(self, target: int, least_steps: int) -> Cuts:
        """Cuts down to `target` bytes, with fewer of the last steps left alone where it must be."""
        cuts = trim.choose(self._messages, self._bytes, target, self._opening, trim.KEPT_STEPS)
        if cuts.size <= target:
            return cuts
        return trim.choose(self._messages, self._bytes, target, self._opening, least_steps)

    def _cut(self, step: int, cuts: Sequence[Cut]) -> None:
        before = self.size
        self._set(trim.made(self._messages, cuts, self._where))
        self._record(Trimmed(step, len(cuts), before, self.size))

    def _compact(self, step: int) -> None:
        assert self._room is not None  # noqa: S101 - only called with a budget
        before, began = self.size, self._monotonic()
        self._summary, by_model, answers = self._recalled(step, False) or self._summarised(summarise.COMPACT)
        share = self._bytes_of(self._budget * KEPT_SHARE)
        kept = summarise.last_steps(self._sizes, self._opening, share, trim.KEPT_STEPS)
        go_on = "\n\n".join(filter(None, (summarise.GO_ON, self._room.remind())))
        between = [Message("assistant", (Text(self._summary),)), Message("user", (Text(go_on),))]
        last = self._messages[len(self._messages) - kept :]
        self._set([*self._messages[: self._opening], *between, *last])
        took = self._monotonic() - began
        self._record(Summarised(step, False, self._summary, by_model, answers, took, before, self.size))

    def _hand_over(self, step: int) -> str:
        before, began = self.size, self._monotonic()
        words, by_model, answers = self._recalled(step, True) or self._summarised(summarise.HAND_OVER)
        after = self._tokens_of(len(words.encode(errors="replace")))
        self._record(Summarised(step, True, words, by_model, answers, self._monotonic() - began, before, after))
        return words

    def _recalled(self, step: int, hands_over: bool) -> tuple[str, bool, tuple[Completion, ...]] | None:
        words = self._room.recall(step, hands_over) if self._room else None
        return (words, True, ()) if words else None

    def _summarised(self, what: str) -> tuple[str, bool, tuple[Completion, ...]]:
        """The summary, whether the model wrote it, and what the model answered."""
        answers: list[Completion] = []
        ask = (self._room and self._room.ask) or self._complete
        told, problem = self._messages, ""
        for _ in range(summarise.ATTEMPTS):
            again = summarise.AGAIN.format(problem=problem) if problem else ""
            messages = summarise.asked_for(told, f"{what}\n\n{again}".strip())
            try:
                answers.append(ask(self._request._replace(messages=messages)))
            except ModelFailure as failure:
                if failure.type in NO_MONEY:
                    raise
                if failure.type != OVERFLOW:
                    break
                every = trim.choose(told, self._bytes, 0, self._opening, 0)
                told = trim.made(told, every.chosen, self._where)
                continue
            problem = summarise.problem_with(answers[-1])
            if not problem:
                return summarise.words_of(answers[-1]), True, tuple(answers)
        words = summarise.from_record(self._messages[self._opening :], self._summary)
        return words, False, tuple(answers)

    def _whole(self) -> Request:
        return self._request._replace(messages=tuple(self._messages))

    def _where(self, text: str) -> str:
        assert self._room is not None  # noqa: S101 - only called with a budget
        try:
            return self._room.spill(text.encode(errors="replace"))
        except OSError:
            return ""

    def _set(self, messages: list[Message]) -> None:
        """Other messages than before; what is the same message still has the same size."""
        known = {id(message): size for message, size in zip(self._messages, self._sizes, strict=True)}
        before = sum(self._sizes)
        self._sizes = [known.get(id(message)) or tokens.bytes_of(message) for message in messages]
        self._messages = messages
        self._bytes += sum(self._sizes) - before

    def _tokens_of(self, size: float) -> int:
        return round(size * self._tokens_per_byte)

    def _bytes_of(self, tokens: float) -> int:
        return int(tokens / self._tokens_per_byte)
