"""The machine's own public addresses, and the networks they are in: a rootless container reaches them as if it stood
there, while no range of any RFC tells them from the rest of the world. Called on the host, which alone knows them.

What the machine is given later, by another provider or a new prefix, is closed with the next start."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

WIDEST = {4: 16, 6: 32}
"""A wider network is somebody's mistake or the whole world; then only the address itself is closed."""


def networks_of(listed: str) -> tuple[str, ...]:
    """From `ip -j address`. Raises ValueError when it cannot be understood."""
    try:
        links: Any = json.loads(listed)
        found = {
            ipaddress.ip_interface(f"{one['local']}/{one['prefixlen']}")
            for link in links
            for one in link.get("addr_info", ())
            if "local" in one
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the machine's addresses cannot be understood ({error!r}): {listed[:200]!r}") from None
    networks = {
        one.network if one.network.prefixlen >= WIDEST[one.version] else ipaddress.ip_network(one.ip)
        for one in found
        if one.ip.is_global
    }
    return tuple(map(str, sorted(networks, key=lambda network: (network.version, network))))
