"""Hosts against the names, addresses and networks that the PM's policy lists. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from infra.shared.addresses import readings


def host_matches(names: Iterable[str], host: str) -> bool:
    """Whether a host is one of the names or below it, or an address that it may mean lies in one of the networks."""
    addresses = readings(host)
    for name in names:
        try:
            network = ipaddress.ip_network(name)
        except ValueError:
            if host == name or host.endswith(f".{name}"):
                return True
        else:
            if any(address.version == network.version and address in network for address in addresses):
                return True
    return False
