"""What the model door answers: a completion within the day's budget, and what it knows of itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec
import structlog

from infra.keep.door_server import Caller, ClientLeft, Limits
from infra.keep.ledger.lines import Opened, Settled
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.models import Offer
from infra.keep.model_door.rotation import PASSING, REFUSED_KEY, FailedTry, failure_of_all, next_try
from infra.shared.conversation import Complete, Completion, ModelHealth, Request, Usage
from infra.shared.door import Failure, Health

log = structlog.get_logger("model_door")

REQUESTS = Complete | Health
LIMITS = Limits(line_bytes=32 << 20, too_long="context_overflow")
"""No provider takes more."""


class ModelDoor:
    def __init__(self, offers: Sequence[Offer], accounts: Accounts, sees_by: str | None = None) -> None:
        """`sees_by`: the provider that is asked about pictures of pages; None: the first that takes images."""
        self.offers = tuple(offers)
        self.accounts = accounts
        self._sees_by = sees_by
        self._refused_keys: dict[Offer, str] = {}
        """Those whose key the provider refused at the last call; and what it said."""

    async def answer(self, request: Complete | Health, caller: Caller) -> msgspec.Struct:
        """What a provider has begun is paid, so it goes on when the client leaves. Raises CallFailure, ClientLeft."""
        match request:
            case Complete(asked, must_see):
                return await self.complete(asked, must_see, caller.left)
        return self.health()

    def health(self) -> ModelHealth:
        first = self.offers[0].model
        problems = (*(offer.problem for offer in self.offers), *self._refused_keys.values())
        return ModelHealth(first.provider, first.name, next(filter(None, problems), None))

    async def complete(
        self, request: Request, must_see: bool = False, left: asyncio.Future[None] | None = None
    ) -> Completion:
        """One completion, from the first model that gives one. Raises CallFailure; ClientLeft before a try that nobody
        would hear of."""
        # A first one without a price stays, so that it is noticed.
        priced = [offer for place, offer in enumerate(self.offers) if place == 0 or offer.price]
        offers = _able(priced, request, must_see, self._sees_by)
        began, failed = time.monotonic(), list[FailedTry]()
        while following := next_try(failed, len(offers), time.monotonic() - began):
            await asyncio.sleep(following.wait_seconds)
            if left and left.done():
                raise ClientLeft
            offer = offers[following.model]
            try:
                completion = await self._try(offer, request)
            except CallFailure as failure:
                failed.append(FailedTry(following.model, failure))
                if failure.type == REFUSED_KEY:
                    self._refused_keys[offer] = f"{offer.model.provider}: {failure.message}"
                log.warning("model.failed", provider=offer.model.provider, model=offer.model.name, error=failure.type)
            else:
                self._refused_keys.pop(offer, None)
                return completion
        raise failure_of_all(failed, [offer.words for offer in offers])

    async def _try(self, offer: Offer, request: Request) -> Completion:
        """One paid call. Raises CallFailure."""
        if offer.price is None:
            raise CallFailure("invalid_request", str(offer.problem))
        call = offer.model.prepare(request)
        entry = await self.accounts.open(offer.model.provider, offer.model.name, call.most, request.run, request.label)
        began = time.monotonic()
        try:
            answer = await call.make()
        except CallFailure as failure:
            await self._settle(entry, failure, began)
            raise
        except Exception as error:
            # A bug of ours. What the provider charges nobody knows, and nobody else comes back to this call.
            await self._settle(entry, CallFailure("unavailable", type(error).__name__, usage=None), began)
            raise
        settled = await self._settle(entry, answer, began)
        usage = answer.completion.usage if answer.measured else Usage()  # the worst case is no count to go by
        usd = settled.usd if settled else entry.worst_usd
        return answer.completion._replace(usage=usage, spent=self.accounts.spent, usd=usd)

    async def _settle(self, entry: Opened, ended: Answer | CallFailure, began: float) -> Settled | None:
        """None when it could not be written down."""
        milliseconds = round((time.monotonic() - began) * 1000)
        try:
            line = await self.accounts.settle(entry, ended, milliseconds)
        except OSError as error:
            # The answer is paid for and the budget in memory is right, so the runner gets it all the same.
            log.error("ledger.write_failed", call=entry.id, reason=str(error))
            return None
        if line.usd > entry.worst_usd or sum(line.usage) > entry.worst_tokens:
            log.error("call.passed_its_worst_case", call=entry.id, usd=line.usd, worst_usd=entry.worst_usd)
        return line


def failure_of(error: Exception) -> Failure:
    """For the server: what a call, or a request that is none, comes to."""
    if isinstance(error, CallFailure):
        return Failure(error.type, error.message, error.type in PASSING, error.retry_after_seconds)
    if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
        return Failure("invalid_request", f"that is no request: {error}")
    log.error("door.bug", exc_info=error)
    return Failure("unavailable", f"the model door has a bug: {type(error).__name__}; see its log", retriable=True)


def _able(offers: Sequence[Offer], request: Request, must_see: bool, sees_by: str | None) -> Sequence[Offer]:
    """Those that may be asked this. Raises CallFailure when none may."""
    names = ", ".join(offer.words for offer in offers)
    if not (acting := [offer for offer in offers if offer.has_tools or not request.tools]):
        words = f"the conversation has tools, and {names} cannot call any; expected operations in plain text"
        raise CallFailure("invalid_request", words)
    if not must_see:
        return acting
    if not (seeing := [each for each in acting if each.model.sees and sees_by in (None, each.model.provider)]):
        of = f" or is of {sees_by} (web.ghost.vision_provider)" if sees_by else ""
        raise CallFailure("tool_unavailable", f"{names} takes no images{of}")
    return seeing
