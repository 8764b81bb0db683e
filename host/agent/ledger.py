"""The ledger of model calls, checked against its own hashes."""

from __future__ import annotations

from typing import NamedTuple

from host.errors import conflict
from host.paths import AgentPaths
from infra.keep.ledger.chain import Checked, check
from infra.shared.safe_files import opened_file

MOST_LINE_BYTES = 1 << 20
"""A line that the model door writes has less than a thousandth of this."""


class LabelSum(NamedTuple):
    calls: int
    tokens: int
    usd: float


def by_label(home: AgentPaths) -> dict[str, LabelSum]:
    """What all calls came to, by what the runner said that they were for. Raises OSError."""
    from infra.keep.ledger.ledger import Settled, line_of

    found: dict[str, LabelSum] = {}
    try:
        with opened_file(home.places.ledger) as file:
            for piece in iter(lambda: file.readline(MOST_LINE_BYTES), b""):
                line = line_of(piece)
                if isinstance(line, Settled):
                    before = found.get(line.label, LabelSum(0, 0, 0.0))
                    tokens = before.tokens + sum(line.usage)
                    found[line.label] = LabelSum(before.calls + 1, tokens, before.usd + line.usd)
    except FileNotFoundError:
        return {}
    return dict(sorted(found.items()))


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
