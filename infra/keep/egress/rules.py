"""The egress rules as one text, and loading it: a few defines in front of `nftables/egress.nft`, and in mode `door`
`nftables/door.nft` behind it.

What is loaded replaces what was there in a single transaction, so that there is no moment without rules. Whether
they hold is proved elsewhere (`canary`)."""

from __future__ import annotations

import ipaddress
import os
import subprocess
from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from infra.keep.settings import EgressMode
from infra.shared.paths import ROOT

FOLDER = f"{ROOT}/nftables"
LOAD_SECONDS = 30.0


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
    if not 0 < exits.resolver_uid < 2**32 - 1:
        raise ValueError(f"the resolver's uid is {exits.resolver_uid}; expected its own, not root's")
    if not 0 < exits.web_uid < 2**32 - 1 or exits.web_uid == exits.resolver_uid:
        raise ValueError(f"the web door's uid is {exits.web_uid}; expected its own, not root's and not the resolver's")
    upstreams = [_upstream(address) for address in exits.upstreams]
    host = [ipaddress.ip_network(address.partition("%")[0], strict=False) for address in exits.host]
    lines = [f"define resolver_uid = {exits.resolver_uid}", f"define web_uid = {exits.web_uid}"]
    for version in (4, 6):
        lines.append(f"define upstream{version} = {_set(one for one in upstreams if one.version == version)}")
        lines.append(f"define host{version} = {_set(one for one in host if one.version == version)}")
    return "\n".join(lines) + "\n"


def rules_text(exits: Exits, folder: str = FOLDER) -> str:
    """Everything that is given to nft. Raises ValueError, also for a mode that there is not, and RulesError for a file
    that cannot be read."""
    parts = [prelude(exits), _read(folder, "egress.nft")]
    if exits.mode == "door":
        parts.append(_read(folder, "door.nft"))
    elif exits.mode != "open":
        raise ValueError(f"egress.mode is {exits.mode!r}; expected one of {', '.join(get_args(EgressMode))}")
    return "\n".join(parts)


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RulesError(f"the egress rules {folder}/{name} cannot be read ({error}); rebuild the image") from None


def load_rules(exits: Exits, folder: str = FOLDER, nft: Sequence[str] = ("nft",)) -> None:
    """Put the rules in force in this network namespace; needs CAP_NET_ADMIN there. Raises RulesError, ValueError."""
    load_text(rules_text(exits, folder), nft)


def load_text(text: str, nft: Sequence[str] = ("nft",)) -> None:
    """Raises RulesError with nft's own words."""
    command = [*nft, "-f", "-"]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=LOAD_SECONDS, check=False
        )
    except OSError as error:
        raise RulesError(f"{command[0]} cannot be started ({error}); the package nftables has it") from None
    except subprocess.TimeoutExpired:
        raise RulesError(f"{' '.join(command)} did not end within {LOAD_SECONDS:.0f} s; no rules were loaded") from None
    if done.returncode != 0:
        told = done.stderr.strip()[:2000] or "it said nothing"
        raise RulesError(
            f"{' '.join(command)} refused the egress rules with status {done.returncode}: {told}\n"
            "It needs CAP_NET_ADMIN in a network namespace of its own, and a kernel with nf_tables"
        )


def _upstream(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(address)
    zone = getattr(found, "scope_id", None)
    if zone or found.is_loopback or found.is_multicast or found.is_unspecified:
        raise ValueError(f"the upstream resolver {address} cannot be reached from a container; name another address")
    return found


def _set(members: Iterable[object]) -> str:
    found = ", ".join(map(str, members))
    return f"{{ {found} }}" if found else "{ }"
