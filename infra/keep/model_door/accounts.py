"""Limits and ledger together: a call is reserved and written down before it is made, and settled after it.

The lock makes check, reservation and line one step, so that calls at the same time cannot pass a limit together.
A call whose opening cannot be written is not made; one whose end cannot be written keeps its worst case at the
next start."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping

from infra.keep.ledger.budgets import Used, by_label, limits_of, passed
from infra.keep.ledger.lines import Ledger, Line, OfCall, Opened, Settled
from infra.keep.ledger.prices import NANO, Tariff, cost, nano_dollars, worst_cost
from infra.keep.model_door.model import Answer, CallFailure
from infra.shared.clock import timestamp
from infra.shared.conversation import TASK, Usage, to_plain
from infra.shared.secret_shapes import redacted_and_cut

RUN_CHARACTERS = 200


class Accounts:
    """The money side of the door."""

    def __init__(
        self,
        ledger: Ledger,
        daily_nano_usd: int,
        tariffs: Mapping[tuple[str, str], Tariff],
        wall_clock: Callable[[], float],
        exploration_usd: float | None = None,
    ) -> None:
        """Reads today's sums. `tariffs`: by provider and model. Raises OSError."""
        self._ledger = ledger
        self._limits = limits_of(daily_nano_usd, exploration_usd)
        self._tariffs = tariffs
        self._wall_clock = wall_clock
        self._lock = asyncio.Lock()
        self._day = timestamp(wall_clock())[:10]
        self._used = by_label(ledger.day(self._day))

    @property
    def spent(self) -> float:
        """How much of the day's budget is used up, from 0 to 1."""
        spent = sum(each.spent for each in self._used.values())
        return round(spent / max(1, self._limits[0].nano_usd), 4)

    async def open(self, provider: str, model: str, most: Usage, run: str = "", label: str = TASK) -> Opened:
        """Reserve and write down a call; `run` is what the caller names it by, and `label` what the caller says that it
        is for. Raises CallFailure when it may not be made."""
        worst = worst_cost(self._tariffs[provider, model], most)
        async with self._lock:
            now = timestamp(self._wall_clock())
            if now[:10] != self._day:  # a later day or, by a clock put back, an earlier one: the ledger knows
                self._used = by_label(await asyncio.to_thread(self._ledger.day, now[:10]))
                self._day = now[:10]
            if problem := passed(self._limits, self._used, label, worst, self._day):
                seconds = None if problem.is_for_ever else 86400 - self._wall_clock() % 86400
                raise CallFailure(problem.error, problem.words, seconds)
            line = Opened(
                time=now,
                day=self._day,
                id=uuid.uuid4().hex,
                run=redacted_and_cut(run, RUN_CHARACTERS),  # the runner chose it
                provider=provider,
                model=model,
                worst_usd=worst / NANO,
                worst_tokens=sum(most),
                label=label,
            )
            try:
                await asyncio.to_thread(self._ledger.append, line)
            except OSError as error:
                raise CallFailure("unavailable", f"the ledger cannot be written ({error}); no call is made") from error
            self._count(line)
        return line

    async def settle(self, call: Opened, ended: Answer | CallFailure, duration_ms: int) -> Settled:
        """Write down a call's end, at its worst case when nobody knows what it cost.

        Not synced: if a power cut loses this line, the reservation stands. Raises OSError, with the sums in memory
        already right."""
        failure = ended if isinstance(ended, CallFailure) else None
        answer = ended if isinstance(ended, Answer) else None
        usage = failure.usage if failure else answer.completion.usage if answer and answer.measured else None
        used = Usage(input_tokens=call.worst_tokens) if usage is None else usage
        price = worst_cost if failure and not failure.has_classes else cost
        nano = nano_dollars(call.worst_usd) if usage is None else price(self._tariffs[call.provider, call.model], used)
        of_call = {name: getattr(call, name) for name in OfCall.__struct_fields__}
        line = Settled(
            **of_call | {"time": timestamp(self._wall_clock())},
            **to_plain(used),
            usd=nano / NANO,
            duration_ms=duration_ms,
            stop_reason=answer.completion.stop_reason if answer else None,
            error=failure.type if failure else None,
            measured=ended.measured,
        )
        async with self._lock:
            self._count(line)
            self._ledger.append(line)
        return line

    def _count(self, line: Line) -> None:
        """The end of a call of another day changes nothing: it is not open in this one's sums."""
        self._used[line.label] = self._used.get(line.label, Used()).after(line)
