"""The egress rules as one text, and loading it: a few defines in front of `nftables/egress.nft`, and in mode `door`
`nftables/door.nft` behind it.

What is loaded replaces what was there in a single transaction, so that there is no moment without rules. Whether
they hold is for `proof` to say."""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
from collections.abc import Iterable
from typing import NamedTuple

from infra.keep.settings.schema import EgressMode
from infra.shared.paths import ROOT

FOLDER = f"{ROOT}/nftables"
SECONDS = 30.0
QUICK = "route change table local local {} dev lo proto kernel scope host src 127.0.0.1 quickack 1"
"""As the kernel makes it when lo comes up, but that TCP acknowledges at once (ip-route(8))."""


class RulesError(Exception):
    """The rules do not stand; the text says why and what to do."""


class Exits(NamedTuple):
    """What the rules have to know of the container they are for."""

    resolver_uid: int
    """As nft in the container sees it."""
    web_uid: int
    """Whose connections the web door's are; as above."""
    upstreams: tuple[str, ...]
    """Addresses of the resolvers that the keep's own asks; private ones are fine."""
    mode: EgressMode = "open"
    host: tuple[str, ...] = ()
    """The machine's own addresses or networks, for those that are public: a rootless network reaches them."""


def prelude(exits: Exits) -> str:
    """The defines that `egress.nft` needs. Raises ValueError for what is not an address."""
    upstreams = [ipaddress.ip_address(address) for address in exits.upstreams]
    host = [ipaddress.ip_network(address, strict=False) for address in exits.host]
    lines = [f"define resolver_uid = {exits.resolver_uid}", f"define web_uid = {exits.web_uid}"]
    for version in (4, 6):
        lines.append(f"define upstream{version} = {_set(one for one in upstreams if one.version == version)}")
        lines.append(f"define host{version} = {_set(one for one in host if one.version == version)}")
    return "\n".join(lines) + "\n"


def _set(members: Iterable[object]) -> str:
    return f"{{ {', '.join(map(str, members))} }}"


def rules_text(exits: Exits) -> str:
    """Everything that is given to nft. Raises ValueError, OSError."""
    parts = [prelude(exits)]
    for name in ("egress.nft", *(("door.nft",) if exits.mode == "door" else ())):
        with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
            parts.append(file.read())
    return "\n".join(parts)


def load(exits: Exits, nft: str = "nft") -> None:
    """Put the rules in force in this network namespace; needs CAP_NET_ADMIN there. Raises RulesError, ValueError,
    OSError."""
    give([nft, "-f", "-"], rules_text(exits))


def place(canaries: Iterable[str]) -> None:
    """Put lo up, with these addresses on it; needs CAP_NET_ADMIN. Raises RulesError."""
    # nodad: an IPv6 address can otherwise not be spoken to for a moment, even here.
    commands = [f"address replace {each} dev lo{' nodad' if ':' in each else ''}\n" for each in canaries]
    give(["ip", "-batch", "-"], "link set lo up\n" + "".join(commands))
    # A push is short questions and short answers: a delayed acknowledgement (RFC 1122 §4.2.3.2, 40 ms on Linux) costs
    # more than all of git's work for it. Where this fails, pushes are slower.
    with contextlib.suppress(RulesError):
        give(["ip", "-batch", "-"], "".join(f"{QUICK.format(each)}\n" for each in ("127.0.0.0/8", "127.0.0.1")))


def give(command: list[str], text: str) -> None:
    """To a program, on its stdin. Raises RulesError with the program's own words."""
    said = " ".join(command)
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RulesError(f"{said} failed ({error}); the packages nftables and iproute2 are needed") from None
    if done.returncode != 0:
        raise RulesError(
            f"{said} refused the egress rules with status {done.returncode}: {done.stderr.strip()[:2000]}\n"
            "It needs CAP_NET_ADMIN in a network namespace of its own, and a kernel with nf_tables"
        )
