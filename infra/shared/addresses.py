"""The internet addresses that a written host may mean, and whether they are private. Pure; names are not resolved.

Programs read numbers in many ways: as inet_aton(3) does (`127.1`, `0x7f.1`, `017700000001`), as decimals with leading
zeros, percent-encoded, in digits of other scripts. Where readings differ, all count."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote

from infra.shared.visible import without_ignorable

Address = IPv4Address | IPv6Address

_MOST_DIGITS = 40
_HEX, _OCTAL, _DECIMAL = re.compile(r"0x[0-9a-f]*"), re.compile(r"0[0-7]*"), re.compile(r"[0-9]+")
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
"""What IDNA takes for a dot (UTS #46)."""
_EMBEDDING = tuple(
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (
        ("::ffff:0:0/96", 0),  # IPv4-mapped, RFC 4291 2.5.5.2
        ("::/96", 0),  # IPv4-compatible, RFC 4291 2.5.5.1
        ("::ffff:0:0:0/96", 0),  # IPv4-translated, RFC 7915
        ("64:ff9b::/96", 0),  # NAT64, RFC 6052
        ("2002::/16", 80),  # 6to4, RFC 3056
    )
)
_CLOSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # a cloud's own services, at a public address
        "192.0.0.0/24",  # protocols of the IETF, RFC 6890; a cloud had its own services there
        "192.88.99.0/24",  # relays of 6to4, RFC 7526
        "64:ff9b:1::/48",  # local NAT64, RFC 8215
        "100:0:0:1::/64",  # leads nowhere, RFC 9780
        "fec0::/10",  # site-local, RFC 3879
        "5f00::/16",  # segment routing, RFC 9602
        "3fff::/20",  # documentation, RFC 9637
    )
)


def plain(text: str) -> str:
    """`text` as a resolver would see it: percent signs decoded, digits and dots of other scripts as ours, nothing that
    cannot be seen, small letters."""
    text = unicodedata.normalize("NFKC", unquote(text).translate(_DOTS)).translate(_DOTS)
    return without_ignorable(text).casefold()


def readings(host: str) -> tuple[Address, ...]:
    """The addresses that a host may mean; none for a name."""
    name = plain(host).strip().removeprefix("[").removesuffix("]").removesuffix(".")
    if ":" in name:
        try:
            return (IPv6Address(name.partition("%")[0]),)
        except ValueError:
            return ()
    labels = name.split(".")
    if len(labels) > 4 or not all(labels):
        return ()
    found = (_address([_number(label, octal) for label in labels]) for octal in (True, False))
    return tuple(dict.fromkeys(address for address in found if address is not None))


def is_private(address: Address) -> bool:
    """Whether it is outside the public internet: the registries of RFC 6890 as Python knows them, and further closed
    ranges. Loopback and the unspecified address, which means this machine, are not private."""
    if address.is_loopback or address.is_unspecified:
        return False
    if isinstance(address, IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return is_private(inner)
    if any(address.version == network.version and address in network for network in _CLOSED):
        return True
    return address.is_multicast or not address.is_global


def is_inner(address: Address) -> bool:
    """Whether it is private or means this machine, also where IPv6 wraps it: who connects to ::ffff:127.0.0.1 reaches
    127.0.0.1."""
    inner = _embedded(address) if isinstance(address, IPv6Address) else None
    return any(each.is_loopback or each.is_unspecified or is_private(each) for each in (address, inner or address))


def _embedded(address: IPv6Address) -> IPv4Address | None:
    for network, shift in _EMBEDDING:
        if address in network:
            return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return None


def _number(label: str, octal: bool) -> int | None:
    if _HEX.fullmatch(label):
        digits, base = label[2:].lstrip("0"), 16
    elif octal and len(label) > 1 and _OCTAL.fullmatch(label):
        digits, base = label.lstrip("0"), 8
    elif _DECIMAL.fullmatch(label) and label.isascii():
        digits, base = label.lstrip("0"), 10
    else:
        return None
    return int(digits or "0", base) if len(digits) <= _MOST_DIGITS else None


def _address(numbers: list[int | None]) -> IPv4Address | None:
    """As inet_aton(3): the last number fills all bytes that are left."""
    whole = 0
    for index, number in enumerate(numbers):
        last = index == len(numbers) - 1
        bits = 8 * (5 - len(numbers)) if last else 8
        if number is None or number >> bits:
            return None
        whole = whole << bits | number
    return IPv4Address(whole)
