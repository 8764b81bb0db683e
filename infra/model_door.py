"""The model door: completes a conversation within the day's budget.

It alone holds the providers' keys. Every call is checked, reserved, written to the ledger, made, and settled, in this
order; so no call costs more than the PM allows, whatever the runner asks and whenever anything dies. With one model it
retries nothing: the runner has the patience. With several, `rotation` says which is asked next, and each try is a call
of its own in the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence

import structlog

from infra.keep import arguments
from infra.keep.door_server import DoorServer
from infra.keep.ledger.lines import Ledger
from infra.keep.ledger.prices import nano_dollars
from infra.keep.model_door import app
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.model import CallFailure
from infra.keep.model_door.models import Offer, make_offers, no_price
from infra.keep.settings_file import read_settings
from infra.shared.exit_codes import Exit
from infra.shared.log import log_to_stderr
from infra.shared.sockets import SocketTaken, listen

log = structlog.get_logger("model_door")


def main(words: list[str] | None = None) -> int:
    """Serve until SIGTERM."""
    parser = arguments.parser("model_door", __doc__ or "")
    # Models think for a minute without a word.
    parser.add_argument("--idle-seconds", type=float, default=120.0, help="a silent stream is given up (%(default)s)")
    given = parser.parse_args(words)
    places = arguments.places(given)
    log_to_stderr()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.OK))  # leaving when asked is no failure
    try:
        settings = read_settings(given.settings)
        directory = os.path.dirname(os.path.abspath(given.settings))
        offers = make_offers(settings.model, places, directory, given.idle_seconds)
        listening = listen(places.model_socket)
    except ValueError as error:
        return _not_opened(Exit.CONFIG, str(error))
    except SocketTaken as error:
        return _not_opened(Exit.CONFLICT, str(error))
    except OSError as error:
        return _not_opened(Exit.FAILURE, f"the socket {places.model_socket} cannot be made: {error}")
    try:
        prices = {(each.model.provider, each.model.name): each.price for each in offers if each.price}
        limit = nano_dollars(settings.budget.daily_usd)
        accounts = Accounts(Ledger(places.ledger), limit, prices, time.time, settings.exploration.usd)
        door = app.ModelDoor(offers, accounts, places.probe)
        for offer in offers:
            problem = offer.model.problem if offer.price else no_price(offer.model).message
            log.info("door.opened", provider=offer.model.provider, model=offer.model.name, problem=problem)
        # An SDK takes a second to load, and that must not come before the first answer.
        loading: list[asyncio.Future[None]] = []  # a task that nobody holds can vanish
        server = DoorServer(app.REQUESTS, door.answer, app.failure_of, app.LIMITS)
        asyncio.run(server.serve(listening, lambda: loading.append(asyncio.ensure_future(load_all(door.offers)))))
    except OSError as error:
        return _not_opened(Exit.FAILURE, f"the ledger {places.ledger} must be readable and writable: {error}")
    finally:
        listening.close()
        if os.path.lexists(places.model_socket):
            os.unlink(places.model_socket)
    return Exit.OK


def _not_opened(code: Exit, reason: str) -> Exit:
    log.error("door.not_opened", reason=reason)
    return code


async def load_all(offers: Sequence[Offer]) -> None:
    """One after the other: two threads that import what the other one is importing can see half of it."""
    for offer in offers:
        with contextlib.suppress(CallFailure):  # the first call says it
            await offer.model.load()


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main())
