"""The model door: completes a conversation within the day's budget, over HTTP on a unix socket (DESIGN §1).

It alone holds the provider's key. Every call is checked, reserved, written to the ledger, made, and settled, in this
order; so no call costs more than the PM allows, whatever the runner asks and whenever anything dies. It retries
nothing: the runner has the patience."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time

import structlog
from msgspec import structs
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.contract import arguments
from infra.contract.control import PROBE_PATH
from infra.contract.conversation import (
    COMPLETE_PATH,
    HEALTH_PATH,
    Completion,
    Request,
    completion_to_dict,
)
from infra.contract.exit_codes import Exit
from infra.contract.places import Places
from infra.contract.settings import BudgetSettings, ModelSettings, Settings, SettingsError, provider_of, read_settings
from infra.contract.sockets import SocketTaken, listen
from infra.models import log_lines
from infra.models.accounts import Accounts
from infra.models.anthropic import AnthropicModel
from infra.models.bodies import Bodies, Calls, weight_of
from infra.models.budget import Cost
from infra.models.incoming import read_request
from infra.models.keys import read_key
from infra.models.ledger import Ledger, Opened
from infra.models.model import CallFailure, Model
from infra.models.prices import FREE, Tariff, nano_dollars, tariff
from infra.models.script import ScriptError, read_script
from infra.models.scripted import DEMO, ScriptedModel
from infra.models.serving import BUDGET_PATH, ERROR_HANDLERS, serve
from infra.models.surroundings import remove_foreign_settings

log = structlog.get_logger("model_door")

PROBE_CHARS = 200


def main(words: list[str] | None = None) -> int:
    """Serve until SIGTERM."""
    given = arguments.parser("model_door", __doc__ or "").parse_args(words)
    places = arguments.places(given)
    log_lines.configure()
    signal.signal(signal.SIGTERM, _leave)
    ignored = remove_foreign_settings(os.environ)
    if ignored:
        log.warning("environment.ignored", names=ignored)
    try:
        settings = settled(read_settings(given.settings), places)
        model = make_model(settings.model, places, os.path.dirname(os.path.abspath(given.settings)))
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
        return open_and_serve(model, settings, places, server)
    finally:
        server.close()
        if os.path.lexists(places.model_socket):
            os.unlink(places.model_socket)


def open_and_serve(model: Model, settings: Settings, places: Places, server: socket.socket) -> Exit:
    """The door's life, from the ledger's opening to the signal that ends it."""
    try:
        accounts = make_accounts(settings.model, settings.budget, places)
    except OSError as error:
        log.error("door.not_opened", reason=f"the ledger {places.ledger} must be readable and writable: {error}")
        return Exit.FAILURE
    log.info("door.opened", provider=model.provider, model=model.name, problem=model.problem)
    # The SDK takes a second to load, and that must not come before the first answer.
    serve(
        Door(model, accounts, probe=places.probe).app,
        server,
        model.warm_up if isinstance(model, AnthropicModel) else None,
    )
    return Exit.OK


def settled(settings: Settings, places: Places) -> Settings:
    """The settings with one provider: `auto` is settled by whether there is a key."""
    provider = provider_of(settings.model, os.path.lexists(key_path(places)))
    return structs.replace(settings, model=structs.replace(settings.model, provider=provider))


def key_path(places: Places) -> str:
    return f"{places.secrets}/anthropic_api_key"


def make_model(settings: ModelSettings, places: Places, settings_directory: str) -> Model:
    """The model that the settings name. Raises ScriptError."""
    if settings.provider == "anthropic":
        return AnthropicModel(settings, read_key(key_path(places)))
    path = os.path.join(settings_directory, settings.script) if settings.script else DEMO
    return ScriptedModel(settings.name, read_script(path), settings.max_tokens)


def make_accounts(model: ModelSettings, budget: BudgetSettings, places: Places) -> Accounts | None:
    """None when the price of the model is not known. Raises OSError."""
    price = price_of(model, budget)
    limit = Cost(nano_dollars(budget.daily_usd), budget.daily_tokens)
    unit_limit = Cost(nano_dollars(budget.unit_usd), budget.unit_tokens)
    return Accounts(Ledger(places.ledger), limit, unit_limit, price, time.time) if price else None


def price_of(model: ModelSettings, budget: BudgetSettings) -> Tariff | None:
    if model.provider == "scripted":
        return FREE
    return tariff(model.name, model.prices) or (FREE if budget.unpriced else None)


class Door:
    """What the door answers."""

    def __init__(
        self, model: Model, accounts: Accounts | None, bodies: Bodies | None = None, probe: str = os.devnull
    ) -> None:
        """`probe` is the file whose word is given out to whoever asks."""
        self.model = model
        self.accounts = accounts
        self._bodies = bodies or Bodies()
        self._calls = Calls()
        self._probe = probe
        self.app = Starlette(
            routes=[
                Route(HEALTH_PATH, self.health, methods=["GET"]),
                Route(PROBE_PATH, self.probe, methods=["GET"]),
                Route(BUDGET_PATH, self.budget, methods=["GET"]),
                Route(COMPLETE_PATH, self.complete, methods=["POST"]),
            ],
            exception_handlers=ERROR_HANDLERS,
        )

    async def health(self, _: HttpRequest) -> Response:
        known = self.model.problem or (None if self.accounts else self._no_price().message)
        answer = {"status": "ok", "provider": self.model.provider, "model": self.model.name, "problem": known}
        return JSONResponse(answer | ({"sdk": self.model.sdk} if isinstance(self.model, AnthropicModel) else {}))

    async def probe(self, _: HttpRequest) -> Response:
        """What the watcher wrote last: whoever knows it has been here."""
        try:
            with open(self._probe, encoding="ascii") as file:
                word = file.read(PROBE_CHARS)
        except FileNotFoundError:
            word = ""
        except (OSError, UnicodeDecodeError) as error:
            raise CallFailure("unavailable", f"what the watcher wrote for probes cannot be read: {error}") from None
        return JSONResponse({"probe": word})

    async def budget(self, _: HttpRequest) -> Response:
        if self.accounts is None:
            raise self._no_price()
        return JSONResponse(await self.accounts.today())

    async def complete(self, http: HttpRequest) -> Response:
        try:
            body = await self._bodies.receive(http)
            with self._calls.room_for(weight_of(body)):
                request = read_request(body)
                del body
                return JSONResponse(completion_to_dict(await self.call(request)))
        except asyncio.CancelledError:
            # Only a door that was asked to leave cancels. A call that was under way keeps its worst case in the ledger.
            raise CallFailure("unavailable", "the model door is being stopped; try again when it is back") from None

    async def call(self, request: Request) -> Completion:
        """One paid call. Raises CallFailure."""
        if self.accounts is None:
            raise self._no_price()
        call = self.model.prepare(request)
        entry = await self.accounts.open(self.model.provider, self.model.name, request.unit, call.most)
        began = time.monotonic()
        try:
            completion = await call.make()
        except CallFailure as failure:
            await self._settle(self.accounts, entry, began, failure=failure)
            raise
        await self._settle(self.accounts, entry, began, completion=completion)
        return completion._replace(spent=self.accounts.spent(request.unit))

    async def _settle(
        self,
        accounts: Accounts,
        entry: Opened,
        began: float,
        completion: Completion | None = None,
        failure: CallFailure | None = None,
    ) -> None:
        usage = completion.usage if completion else failure.usage if failure else None
        milliseconds = round((time.monotonic() - began) * 1000)
        try:
            line = await accounts.settle(
                entry, usage, milliseconds, completion.stop_reason if completion else None, failure
            )
        except OSError as error:
            # The answer is paid for and the budget in memory is right, so the runner gets it all the same.
            log.error("ledger.write_failed", call=entry.id, reason=str(error))
            return
        if line.usd > entry.worst_usd or sum(line.usage) > entry.worst_tokens:
            log.error("call.passed_its_worst_case", call=entry.id, usd=line.usd, worst_usd=entry.worst_usd)
        log.info(
            "call.settled",
            call=entry.id,
            model=entry.model,
            **line.usage._asdict(),
            usd=line.usd,
            measured=line.measured,
            duration_ms=milliseconds,
            stop_reason=line.stop_reason,
            error=line.error,
        )

    def _no_price(self) -> CallFailure:
        return CallFailure(
            "invalid_request",
            f"no price is known for the model {self.model.name!r}, so its calls cannot be kept within the budget; "
            "set model.prices for it in minifram.yaml (US dollars per million tokens: input, output), or "
            "budget.unpriced to have its tokens counted alone",
        )


def _leave(*_: object) -> None:
    """The default would end the process with the signal's number; leaving when asked is no failure."""
    raise SystemExit(Exit.OK)


if __name__ == "__main__":
    sys.exit(main())
