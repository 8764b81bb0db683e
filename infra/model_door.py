"""The model door: completes a conversation within the day's budget, over HTTP on a unix socket.

It alone holds the providers' keys. Every call is checked, reserved, written to the ledger, made, and settled, in this
order; so no call costs more than the PM allows, whatever the runner asks and whenever anything dies. With one model it
retries nothing: the runner has the patience. With several, `rotation` says which is asked next, and each try is a call
of its own in the ledger."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence

import structlog
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.keep import arguments
from infra.keep.ledger.lines import Ledger, Opened, Settled
from infra.keep.ledger.prices import nano_dollars
from infra.keep.model_door import log_lines
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.acts import Acts
from infra.keep.model_door.background import load_all, worst_state
from infra.keep.model_door.bodies import Bodies, Calls, weight_of
from infra.keep.model_door.incoming import read_request
from infra.keep.model_door.model import Answer, CallFailure, Model
from infra.keep.model_door.providers import ProviderContext, make_models, no_price, price_of
from infra.keep.model_door.rotation import REFUSED_KEY
from infra.keep.model_door.script import ScriptError
from infra.keep.model_door.serving import ERROR_HANDLERS, read_probe
from infra.keep.model_door.turns import asked_first, first_answer
from infra.keep.model_settings import ModelSettings
from infra.keep.serving import serve
from infra.keep.settings import Settings
from infra.keep.settings_file import SettingsError, read_settings
from infra.shared.control import PROBE_PATH
from infra.shared.conversation import (
    ACTS_PATH,
    COMPLETE_PATH,
    HEALTH_PATH,
    Completion,
    Request,
    Usage,
    to_plain,
)
from infra.shared.exit_codes import Exit
from infra.shared.paths import Paths
from infra.shared.sockets import SocketTaken, listen

log = structlog.get_logger("model_door")


def main(words: list[str] | None = None) -> int:
    """Serve until SIGTERM."""
    parser = arguments.parser("model_door", __doc__ or "")
    idle = ProviderContext._field_defaults["idle_seconds"]
    parser.add_argument("--idle-seconds", type=float, default=idle, help="a silent stream is given up (%(default)s)")
    given = parser.parse_args(words)
    places = arguments.places(given)
    log_lines.configure()
    signal.signal(signal.SIGTERM, _leave)
    try:
        settings = read_settings(given.settings)
        directory = os.path.dirname(os.path.abspath(given.settings))
        models = make_models(ProviderContext(settings.model, places, directory, given.idle_seconds))
        server = listen(places.model_socket)
    except (SettingsError, ScriptError, ValueError) as error:
        log.error("door.not_opened", reason=str(error))
        return Exit.CONFIG
    except SocketTaken as error:
        log.error("door.not_opened", reason=str(error))
        return Exit.CONFLICT
    except OSError as error:
        log.error("door.not_opened", reason=f"the socket {places.model_socket} cannot be made: {error}")
        return Exit.FAILURE
    try:
        return open_and_serve(models, settings, places, server)
    finally:
        server.close()
        if os.path.lexists(places.model_socket):
            os.unlink(places.model_socket)


def open_and_serve(models: Sequence[Model], settings: Settings, places: Paths, server: socket.socket) -> Exit:
    """The door's life, from the ledger's opening to the signal that ends it."""
    found = {(model.provider, model.name): price_of(model, settings.model) for model in models}
    prices = {which: price for which, price in found.items() if price is not None}
    limit = nano_dollars(settings.budget.daily_usd)
    try:
        ledger = Ledger(places.ledger)
        accounts = Accounts(ledger, limit, prices, time.time, _unsynced, settings.exploration.usd)
    except OSError as error:
        log.error("door.not_opened", reason=f"the ledger {places.ledger} must be readable and writable: {error}")
        return Exit.FAILURE
    priced = tuple(model for place, model in enumerate(models) if place == 0 or (model.provider, model.name) in prices)
    for model in models:
        problem = model.problem if (model.provider, model.name) in prices else no_price(model).message
        log.info("door.opened", provider=model.provider, model=model.name, problem=problem)
    left_out = [no_price(model).message for model in models if model not in priced]
    counted = accounts if (models[0].provider, models[0].name) in prices else None
    acts = Acts(settings.model, priced)
    door = Door(priced, counted, left_out, places.probe, acts=acts)
    # An SDK takes a second to load, and that must not come before the first answer.
    loads = [thing for model in priced for thing in model.loads]
    serve(door.app, server, (lambda: load_all(loads)) if loads else None)
    return Exit.OK


def _unsynced(error: BaseException) -> None:
    log.error("ledger.write_failed", reason=str(error))


class Door:
    """What the door answers."""

    def __init__(
        self,
        models: Sequence[Model],
        accounts: Accounts | None,
        left_out: Sequence[str] = (),
        probe: str = os.devnull,
        bodies: Bodies | None = None,
        acts: Acts | None = None,
    ) -> None:
        """`accounts` None: the first model has no price. `left_out`: why other models are not among `models`. `probe`
        is the file whose word is given to every client that asks."""
        self.models = models
        self.accounts = accounts
        self._acts = acts or Acts(ModelSettings(), models)
        self._left_out = left_out
        self._refused_keys: dict[int, str] = {}
        """Models, by their place, whose key the provider refused at the last call; and what it said."""
        self._bodies = bodies or Bodies()
        self._calls = Calls()
        self._probe = probe
        self.app = Starlette(
            routes=[
                Route(HEALTH_PATH, self.health, methods=["GET"]),
                Route(PROBE_PATH, self.probe, methods=["GET"]),
                Route(ACTS_PATH, self.acts, methods=["GET"]),
                Route(COMPLETE_PATH, self.complete, methods=["POST"]),
            ],
            exception_handlers=ERROR_HANDLERS,
        )

    async def health(self, _: HttpRequest) -> Response:
        first = self.models[0]
        no_accounts = [] if self.accounts else [no_price(first).message]
        problems = [model.problem for model in self.models if model.problem]
        problems += [*no_accounts, *self._refused_keys.values(), *self._left_out]
        answer: dict[str, object] = {
            "status": "ok",
            "provider": first.provider,
            "model": first.name,
            "problem": problems[0] if problems else None,
        }
        if len(self.models) > 1:
            answer["then"] = [f"{model.provider} {model.name}" for model in self.models[1:]]
        states = [thing.state for model in self.models for thing in model.loads]
        return JSONResponse(answer | ({"sdk": worst_state(states)} if states else {}))

    async def probe(self, _: HttpRequest) -> Response:
        """What the watcher wrote last: a runner that knows it has used this door."""
        return JSONResponse({"probe": read_probe(self._probe)})

    async def acts(self, _: HttpRequest) -> Response:
        return JSONResponse({"acts": await self._acts.chosen(), "lacking": self._acts.lacking})

    async def complete(self, http: HttpRequest) -> Response:
        try:
            body = await self._bodies.receive(http)
            with self._calls.room_for(weight_of(body)):
                request = read_request(body)
                del body
                return JSONResponse(to_plain(await self.call(request)))
        except asyncio.CancelledError:
            # Only a door that was asked to leave cancels. A call that was under way keeps its worst case in the ledger.
            raise CallFailure("unavailable", "the model door is being stopped; try again when it is back") from None

    async def call(self, request: Request) -> Completion:
        """One completion, from the first model that gives one; also for a client that has disconnected, since what a
        provider has begun is paid. Raises CallFailure."""
        models = self._acts.able(asked_first(self.models, request.model), request)

        async def attempt(model: Model) -> Completion:
            await self._acts.check(model, request)
            return await self._try(model, request)

        return await first_answer(models, attempt, self._note)

    def _note(self, model: Model, failure: CallFailure | None) -> None:
        place = self.models.index(model)
        if failure is None:
            self._refused_keys.pop(place, None)
            return
        if failure.type == REFUSED_KEY:
            self._refused_keys[place] = f"{model.provider}: {failure.message}"
        if len(self.models) > 1:
            log.warning("model.failed", provider=model.provider, model=model.name, error=failure.type)

    async def _try(self, model: Model, request: Request) -> Completion:
        """One paid call. Raises CallFailure."""
        if self.accounts is None:
            raise no_price(model)
        call = model.prepare(request)
        entry = await self.accounts.open(model.provider, model.name, call.most, request.run, request.label)
        began = time.monotonic()
        try:
            answer = await call.make()
        except CallFailure as failure:
            await self._settle(self.accounts, entry, began, failure=failure)
            raise
        except Exception as error:
            # A bug of ours. What the provider charges nobody knows, and nobody else comes back to this call.
            unknown = CallFailure("unavailable", f"{type(error).__name__}", usage=None)
            await self._settle(self.accounts, entry, began, failure=unknown)
            raise
        settled = await self._settle(self.accounts, entry, began, answer)
        usage = answer.completion.usage if answer.measured else Usage()  # the worst case is no count to go by
        usd = settled.usd if settled else entry.worst_usd
        return answer.completion._replace(usage=usage, spent=self.accounts.spent, usd=usd)

    async def _settle(
        self,
        accounts: Accounts,
        entry: Opened,
        began: float,
        answer: Answer | None = None,
        failure: CallFailure | None = None,
    ) -> Settled | None:
        """None when it could not be written down."""
        usage = failure.usage if failure else answer.completion.usage if answer and answer.measured else None
        measured = answer.measured if answer else True
        reason = answer.completion.stop_reason if answer else None
        milliseconds = round((time.monotonic() - began) * 1000)
        try:
            line = await accounts.settle(entry, usage, milliseconds, reason, failure, measured)
        except OSError as error:
            # The answer is paid for and the budget in memory is right, so the runner gets it all the same.
            log.error("ledger.write_failed", call=entry.id, reason=str(error))
            return None
        if line.usd > entry.worst_usd or sum(line.usage) > entry.worst_tokens:
            log.error("call.passed_its_worst_case", call=entry.id, usd=line.usd, worst_usd=entry.worst_usd)
        log.info(
            "call.settled",
            call=entry.id,
            model=entry.model,
            **to_plain(line.usage),
            usd=line.usd,
            measured=line.measured,
            duration_ms=milliseconds,
            stop_reason=line.stop_reason,
            error=line.error,
        )
        return line


def _leave(*_: object) -> None:
    """The default would end the process with the signal's number; leaving when asked is no failure."""
    raise SystemExit(Exit.OK)


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main())
