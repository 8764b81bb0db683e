"""What the model door answers: a completion within the day's budget, and what it knows of itself."""

from __future__ import annotations

import asyncio
import binascii
import time
from collections.abc import Sequence

import msgspec
import structlog

from infra.keep.door_server import Caller, ClientLeft, Limits
from infra.keep.ledger.lines import Opened, Settled
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.models import Offer, no_price
from infra.keep.model_door.rotation import PASSING, REFUSED_KEY, first_answer
from infra.shared.conversation import (
    Complete,
    Completion,
    Image,
    ModelHealth,
    Probe,
    Probed,
    Request,
    Usage,
    media_type_of,
    to_plain,
)
from infra.shared.door import Failure, Health

log = structlog.get_logger("model_door")

REQUESTS = Complete | Health | Probe
LIMITS = Limits(line_bytes=32 << 20, too_long="context_overflow")
"""No provider takes more."""
PROBE_CHARS = 200


class ModelDoor:
    """`probe` is the file whose word is given to every client that asks: one that knows it has used this door."""

    def __init__(self, offers: Sequence[Offer], accounts: Accounts, probe: str) -> None:
        self.offers = tuple(offer for place, offer in enumerate(offers) if place == 0 or offer.price)
        """Those that may be called. A first one without a price stays, so that it is noticed."""
        self._left_out = [no_price(offer.model).message for offer in offers if not offer.price]
        self.accounts = accounts
        self._refused_keys: dict[int, str] = {}
        """Models, by their place, whose key the provider refused at the last call; and what it said."""
        self._probe = probe

    async def answer(self, request: Complete | Health | Probe, caller: Caller) -> msgspec.Struct:
        """What a provider has begun is paid, so it goes on when the client leaves. Raises CallFailure, ClientLeft."""
        match request:
            case Complete(asked, must_see):
                return await self.complete(asked, must_see, caller.left)
            case Probe():
                return Probed(_word_in(self._probe))
        return self.health()

    def health(self) -> ModelHealth:
        first = self.offers[0].model
        problems = [offer.model.problem for offer in self.offers if offer.model.problem]
        problems += [*self._refused_keys.values(), *self._left_out]
        return ModelHealth(first.provider, first.name, problems[0] if problems else None)

    async def complete(
        self, request: Request, must_see: bool = False, left: asyncio.Future[None] | None = None
    ) -> Completion:
        """One completion, from the first model that gives one. Raises CallFailure; ClientLeft before a try that nobody
        would hear of."""
        offers = _able(_asked_first(self.offers, request.model), request, must_see)
        for image in request.images:
            if problem := problem_with_image(image):
                raise CallFailure("invalid_request", problem)

        async def attempt(offer: Offer) -> Completion:
            if left and left.done():
                raise ClientLeft
            return await self._try(offer, request)

        return await first_answer(offers, attempt, self._note)

    def _note(self, offer: Offer, failure: CallFailure | None) -> None:
        place = self.offers.index(offer)
        if failure is None:
            self._refused_keys.pop(place, None)
            return
        if failure.type == REFUSED_KEY:
            self._refused_keys[place] = f"{offer.model.provider}: {failure.message}"
        if len(self.offers) > 1:
            log.warning("model.failed", provider=offer.model.provider, model=offer.model.name, error=failure.type)

    async def _try(self, offer: Offer, request: Request) -> Completion:
        """One paid call. Raises CallFailure."""
        if offer.price is None:
            raise no_price(offer.model)
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
        told = {name: getattr(line, name) for name in ("model", "usd", "measured", "stop_reason", "error")}
        log.info("call.settled", call=entry.id, duration_ms=milliseconds, **told, **to_plain(line.usage))
        return line


def failure_of(error: Exception) -> Failure:
    """For the server: what a call, or a request that is none, comes to."""
    if isinstance(error, CallFailure):
        return Failure(error.type, error.message, error.type in PASSING, error.retry_after_seconds)
    if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
        return Failure("invalid_request", f"that is no request: {error}")
    log.error("door.bug", exc_info=error)
    return Failure("unavailable", f"the model door has a bug: {type(error).__name__}; see its log", retriable=True)


def _asked_first(offers: Sequence[Offer], name: str) -> Sequence[Offer]:
    """In the PM's order, but first the one of this name, if one is given. Raises CallFailure."""
    wished = [offer for offer in offers if offer.model.name == name]
    if name and not wished:
        known = ", ".join(offer.model.name for offer in offers)
        raise CallFailure("invalid_request", f"no such model: {name[:200]!r}; the PM's settings have {known}")
    return (*wished, *(offer for offer in offers if offer not in wished))


def _able(offers: Sequence[Offer], request: Request, must_see: bool) -> Sequence[Offer]:
    """Those that may be asked this. Raises CallFailure when none may."""
    names = ", ".join(f"{offer.model.provider} {offer.model.name}" for offer in offers)
    if not (acting := [offer for offer in offers if offer.has_tools or not request.tools]):
        words = f"the conversation has tools, and {names} cannot call any; expected operations in plain text"
        raise CallFailure("invalid_request", words)
    if not (seeing := [offer for offer in acting if offer.model.sees or not must_see]):
        raise CallFailure("tool_unavailable", f"{names} takes no images")
    return seeing


def problem_with_image(image: Image) -> str:
    """By its first bytes: a provider refuses what is not what it says, and with it every later call of the
    conversation that holds it."""
    try:
        found = media_type_of(binascii.a2b_base64(image.data[:32], strict_mode=True))
    except ValueError as error:
        return f"an image is not base64: {error}"
    return "" if found == image.media_type else f"an image is {found or 'none'}, and says that it is {image.media_type}"


def _word_in(path: str) -> str:
    """What the watcher wrote for probes; empty for nothing. Raises CallFailure."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read(PROBE_CHARS)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CallFailure("unavailable", f"what the watcher wrote for probes cannot be read: {error}") from None
