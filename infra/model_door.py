"""The model door: completes a conversation within the day's budget.

It alone holds the providers' keys. Every call is checked, reserved, written to the ledger, made, and settled, in this
order; so no call costs more than the PM allows, whatever the runner asks and whenever anything dies. With one model it
retries nothing: the runner has the patience. With several, `rotation` says which is asked next, and each try is a call
of its own in the ledger."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from functools import partial

import structlog

from infra.keep import arguments
from infra.keep.door_server import DoorServer, keep_beating, not_opened
from infra.keep.ledger.lines import Ledger
from infra.keep.ledger.prices import nano_dollars
from infra.keep.log import log_to_stderr
from infra.keep.model_door import app
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.models import make_offers
from infra.keep.settings.check import read_settings
from infra.keep.sockets import SocketTaken, listen
from infra.shared import heart
from infra.shared.exit_codes import Exit

log = structlog.get_logger("model_door")


def main(words: list[str] | None = None) -> int:
    """Serve until SIGTERM."""
    given = arguments.parser("model_door", __doc__ or "").parse_args(words)
    places = arguments.places(given)
    log_to_stderr()
    beats = partial(keep_beating, heart.inherited(os.environ))
    try:
        settings = read_settings(given.settings)
        directory = os.path.dirname(os.path.abspath(given.settings))
        offers = make_offers(settings.model, places, directory)
        prices = {(each.model.provider, each.model.name): each.price for each in offers if each.price}
        limit = nano_dollars(settings.budget.daily_usd)
        accounts = Accounts(Ledger(places.ledger), limit, prices, time.time, settings.exploration.usd)
        listening = listen(places.model_socket)
    except (OSError, ValueError, SocketTaken) as error:
        return not_opened(error)
    for offer in offers:
        log.info("door.opened", provider=offer.model.provider, model=offer.model.name, problem=offer.problem)
    door = app.ModelDoor(offers, accounts, settings.web.ghost.vision_provider)
    asyncio.run(DoorServer(app.REQUESTS, door.answer, app.failure_of, app.LIMITS).serve(listening, beats))
    return Exit.OK


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main())
