"""What the rules have counted, by the name of the rule. Reading it needs CAP_NET_ADMIN in the network namespace, which
nobody in the sealed container has any more: it is read from the host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

LET_THROUGH = frozenset({"cell_out", "keep_out", "web_out", "dns_out", "dns_in", "tcp_in", "last_words"})
OWN = frozenset({"canary", "multicast_report"})
"""Rejected, but of the keep's or the kernel's own making."""


class Count(NamedTuple):
    packets: int
    bytes: int


class CountersError(Exception):
    """The counters cannot be read."""


def parse_counters(text: str) -> dict[str, Count]:
    """From what `nft -j list counters` prints. Raises CountersError."""
    try:
        listed: Any = json.loads(text)["nftables"]
        found = [entry["counter"] for entry in listed if "counter" in entry]
        return {str(one["name"]): Count(int(one["packets"]), int(one["bytes"])) for one in found}
    except (ValueError, KeyError, TypeError) as error:
        raise CountersError(f"nft's list of counters cannot be understood ({error!r}): {text[:200]!r}") from None


def rejected(counted: Mapping[str, Count]) -> dict[str, Count]:
    """What the PM should see: rules that stopped something, the busiest first."""
    hit = {name: one for name, one in counted.items() if one.packets and name not in LET_THROUGH | OWN}
    return dict(sorted(hit.items(), key=lambda item: (-item[1].packets, item[0])))
