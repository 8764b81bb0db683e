"""Budget and ledger together: a call is reserved and written down before it is made, and settled after it.

The lock makes check, reservation and line one step, so that calls at the same time cannot pass the limit together.
A call whose opening cannot be written is not made; one whose end cannot be written keeps its worst case at the
next start."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from infra.keep.ledger.budget import Budget, Cost, day_end, opened, problem_with_call, settled
from infra.keep.ledger.labels import labels_of, problem_with_exploration
from infra.keep.ledger.ledger import Ledger, Opened, Settled, opening_cost, replay
from infra.keep.ledger.prices import Tariff, cost, dollars, nano_dollars, tokens, worst_cost
from infra.keep.model_door.model import CallFailure
from infra.shared.clock import timestamp
from infra.shared.conversation import Usage, to_plain
from infra.shared.labels import TASK
from infra.shared.secret_shapes import redacted_and_cut

SCHEMA = "minifram.budget/1"
RUN_CHARACTERS = 200


Tariffs = Mapping[tuple[str, str], Tariff]
"""By provider and model."""


class Accounts:
    """The money side of the door."""

    def __init__(
        self,
        ledger: Ledger,
        limit: int,
        tariffs: Tariffs,
        wall_clock: Callable[[], float],
        on_unsynced: Callable[[BaseException], None] = lambda error: None,
        exploration_usd: float | None = None,
    ) -> None:
        """Reads today's sums. `limit`: nano-dollars; `on_unsynced` is told when the disk does not take a call's end.

        Raises OSError."""
        self._on_unsynced = on_unsynced
        self._ledger = ledger
        self._limit = limit
        self._tariffs = tariffs
        self._wall_clock = wall_clock
        self._lock = asyncio.Lock()
        self._exploration_usd = exploration_usd
        self._budget, self._labels = self._of_day(self._now()[:10])

    async def open(self, provider: str, model: str, most: Usage, run: str = "", label: str = TASK) -> Opened:
        """Reserve and write down a call; `run` is what the caller names it by, and `label` what the caller says that it
        is for. Raises CallFailure when it may not be made."""
        worst = worst_cost(self._tariffs[provider, model], most)
        async with self._lock:
            budget, now = await self._today()
            reservation = Cost(worst, tokens(most))
            problem = problem_with_call(budget, reservation)
            if problem:
                raise CallFailure("budget_exhausted", problem, self._seconds_left(budget, reservation))
            problem = problem_with_exploration(self._labels, label, reservation, self._exploration_usd)
            if problem:
                raise CallFailure("exploration_exhausted", problem, self._seconds_left(budget, Cost()))
            line = Opened(
                time=now,
                day=budget.day,
                id=uuid.uuid4().hex,
                run=redacted_and_cut(run, RUN_CHARACTERS),  # the runner chose it
                provider=provider,
                model=model,
                worst_usd=dollars(worst),
                worst_tokens=reservation.tokens,
                label=label,
            )
            try:
                await asyncio.to_thread(self._ledger.append, line)
            except OSError as error:
                raise CallFailure("unavailable", f"the ledger cannot be written ({error}); no call is made") from error
            self._budget = opened(budget, line.id, opening_cost(line))
            of_label = self._labels.get(label) or Budget(budget.day, self._limit)
            self._labels[label] = opened(of_label, line.id, opening_cost(line))
        return line

    @property
    def spent(self) -> float:
        """How much of the day's budget is used up."""
        return round(self._budget.share, 4)

    async def settle(
        self,
        call: Opened,
        usage: Usage | None,
        duration_ms: int,
        stop_reason: str | None = None,
        failure: CallFailure | None = None,
        measured: bool = True,
    ) -> Settled:
        """Write down a call's end; `usage` None counts its worst case, `measured` False says that a part is assumed.

        Nobody waits for the disk: what a power cut takes of this line was reserved, and stays so. Raises OSError, with
        the budget in memory already right."""
        if usage is None:
            nano = nano_dollars(call.worst_usd)
        else:
            price = worst_cost if failure and not failure.has_classes else cost
            nano = price(self._tariffs[call.provider, call.model], usage)
        used = Usage(input_tokens=call.worst_tokens) if usage is None else usage
        line = Settled(
            time=self._now(),
            day=call.day,
            id=call.id,
            run=call.run,
            provider=call.provider,
            model=call.model,
            **to_plain(used),
            usd=dollars(nano),
            duration_ms=duration_ms,
            stop_reason=stop_reason,
            error=failure.type if failure else None,
            measured=failure.measured if failure else measured,
            label=call.label,
        )
        async with self._lock:
            self._budget = settled(self._budget, call.id, Cost(nano, tokens(used)), failure is not None)
            if of_label := self._labels.get(call.label):
                self._labels[call.label] = settled(of_label, call.id, Cost(nano, tokens(used)), failure is not None)
            self._ledger.write(line)
        syncing = asyncio.get_running_loop().run_in_executor(None, self._ledger.sync)
        syncing.add_done_callback(self._synced)
        return line

    def _synced(self, syncing: asyncio.Future[None]) -> None:
        if not syncing.cancelled() and (error := syncing.exception()):
            self._on_unsynced(error)

    async def today(self) -> dict[str, Any]:
        """For people and `minifram status`. Raises OSError."""
        async with self._lock:
            budget, _ = await self._today()
            labels = dict(self._labels)
        return {
            "schema": SCHEMA,
            "day": budget.day,
            "ends_at": day_end(budget.day),
            "spent_usd": dollars(budget.spent.nano_usd),
            "spent_tokens": budget.spent.tokens,
            "reserved_usd": dollars(budget.reserved.nano_usd),
            "reserved_tokens": budget.reserved.tokens,
            "limit_usd": dollars(budget.limit),
            "calls": budget.calls,
            "failed_calls": budget.failed,
            "open_calls": len(budget.open),
            "labels": {
                label: {"usd": dollars(each.spent.nano_usd), "tokens": each.spent.tokens, "calls": each.calls}
                for label, each in sorted(labels.items())
            },
            "exploration_usd": self._exploration_usd,
        }

    async def _today(self) -> tuple[Budget, str]:
        """The budget of this moment's day. On another day, later or by a clock put back earlier, the ledger knows."""
        now = self._now()
        if now[:10] != self._budget.day:
            self._budget, self._labels = await asyncio.to_thread(self._of_day, now[:10])
        return self._budget, now

    def _of_day(self, day: str) -> tuple[Budget, dict[str, Budget]]:
        """Raises OSError."""
        lines = self._ledger.day(day)
        return replay(lines, day, self._limit), labels_of(lines, day)

    def _now(self) -> str:
        return timestamp(self._wall_clock())

    def _seconds_left(self, budget: Budget, worst: Cost) -> float | None:
        """Until a call that is refused now could be made; None when no day is long enough for it."""
        return 86400 - self._wall_clock() % 86400 if worst.within(budget.limit) else None
