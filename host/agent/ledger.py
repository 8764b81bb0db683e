"""The ledger of model calls, checked against its own hashes."""

from __future__ import annotations

from host.errors import conflict
from host.paths import AgentPaths
from infra.keep.ledger.chain import Checked, check
from infra.shared.safe_files import opened_file

MOST_LINE_BYTES = 1 << 20
"""A line that the model door writes has less than a thousandth of this."""


def verify(home: AgentPaths) -> Checked:
    """An agent that never asked a model has no ledger, and nothing wrong with it. Raises OSError, CommandError."""
    try:
        with opened_file(home.places.ledger) as file:
            pieces = iter(lambda: file.readline(MOST_LINE_BYTES), b"")
            return check(piece.removesuffix(b"\n") for piece in pieces)
    except FileNotFoundError:
        return check(())
    except ValueError as error:
        raise conflict(str(error)) from None
