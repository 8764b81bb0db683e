"""Hosts as they are written: the address that one means, whether that is private, and which words can be a name. Pure;
names are not resolved."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote

from infra.shared.text import cut, without_invisible

Address = IPv4Address | IPv6Address

INNER_NAMES = (
    # Names of the machine's own network, its cloud and its containers; an upstream may know them (RFC 6761, 6762
    # appendix G, 7686, 8375, 9476). What is asked of the public would only tell it what somebody looks for here.
    *("alt", "corp", "home", "home.arpa", "internal", "intranet", "invalid", "lan", "local", "localdomain"),
    *("localhost", "onion", "podman", "private", "test"),
)
MAX_HOST_LENGTH = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
"""What IDNA takes for a dot (UTS #46)."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_CLOSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # a cloud's own services, at a public address
        "192.0.0.0/24",  # protocols of the IETF, RFC 6890; a cloud had its own services there
        "192.88.99.0/24",  # relays of 6to4, RFC 7526
        "::/96",  # IPv4-compatible, RFC 4291 2.5.5.1; this and the next two hold any IPv4 address, and nobody uses them
        "::ffff:0:0:0/96",  # IPv4-translated, RFC 7915
        "2002::/16",  # 6to4, RFC 3056
        "64:ff9b:1::/48",  # local NAT64, RFC 8215
        "100:0:0:1::/64",  # leads nowhere, RFC 9780
        "fec0::/10",  # site-local, RFC 3879
        "5f00::/16",  # segment routing, RFC 9602
        "3fff::/20",  # documentation, RFC 9637
    )
)


def as_resolved(text: str) -> str:
    """`text` as a resolver would see it: percent signs decoded, digits and dots of other scripts as ours, nothing that
    cannot be seen, small letters."""
    text = unicodedata.normalize("NFKC", unquote(text).translate(_DOTS)).translate(_DOTS)
    return without_invisible(text).casefold()


def address_of(host: str) -> Address | None:
    """The address that a host is; None for a name. Numbers are read as programs read them, by inet_aton(3): `127.1`,
    `0x7f.1`, `017700000001`."""
    name = as_resolved(host).strip().removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        if ":" in name:
            return IPv6Address(name.partition("%")[0])
        return IPv4Address(socket.inet_aton(name)) if re.fullmatch("[0-9a-fx.]+", name) else None
    except (ValueError, OSError):
        return None


def is_private(address: Address) -> bool:
    """Whether it is outside the public internet: the registries of RFC 6890 as Python knows them, and further closed
    ranges. Loopback and the unspecified address, which means this machine, are not private."""
    address = _inner(address)
    if address.is_loopback or address.is_unspecified:
        return False
    return address.is_multicast or not address.is_global or any(address in network for network in _CLOSED)


def is_inner(address: Address) -> bool:
    """Whether it is private or means this machine."""
    return is_private(address) or _inner(address).is_loopback or _inner(address).is_unspecified


def _inner(address: Address) -> Address:
    """Who connects to ::ffff:127.0.0.1 reaches 127.0.0.1."""
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address)
    return address


def problem_with_host_name(name: str) -> str | None:
    """Why `name` cannot be the name of a host on the internet (RFC 1123 §2.1); None when it can. Those of other scripts
    are written as xn--…; what the PM lists becomes a word on the resolver's command line."""
    shown = ascii(cut(name, 80))
    if "://" in name or "/" in name or ":" in name:
        return f"{shown} is an address; give the name of the host alone, such as 'pypi.org'"
    if name.startswith(("*.", ".")):
        return f"{shown} begins with a wildcard; a name stands for those below it as well: give {name.lstrip('*.')!r}"
    labels = name.split(".")
    if len(name) > MAX_HOST_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        return f"{shown} is not a name of a host; expected something like 'pypi.org', in lower case"
    if labels[-1].isdigit() or address_of(name):
        return f"{shown} is an address; give a name such as 'pypi.org'"
    return f"{shown} is a single word; expected a whole name such as 'pypi.org'" if len(labels) == 1 else None


def host_matches(names: Iterable[str], host: str) -> bool:
    """Whether a host is one of the names of the PM's policy or below it, or an address in one of its networks."""
    address = address_of(host)
    for name in names:
        try:
            network = ipaddress.ip_network(name)
        except ValueError:
            if host == name or host.endswith(f".{name}"):
                return True
        else:
            if address is not None and address in network:
                return True
    return False
