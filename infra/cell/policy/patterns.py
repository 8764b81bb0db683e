"""The PM's patterns against commands, paths and hosts. Pure.

`*` stands for any characters, `/` among them, `?` for one, `[ab]` and `[!ab]` for one of a set. In doubt a rule that
forbids or asks matches, and one that allows does not: capital and small letters are the same for the first alone."""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Iterable

from infra.cell.policy.shell import Part, Script, single_blanks
from infra.cell.policy.words import bare, started
from infra.shared.addresses import readings

MAX_STARTED_CHARS = 256 * 1024
"""Of what the commands of a text may start; more is in doubt."""


def command_forbidden(patterns: Iterable[str], text: str, script: Script) -> bool:
    """One of the patterns matches the whole text or one of its parts, in any of its spellings, or it cannot be told."""
    if not script.whole:
        return True
    forms = {single_blanks(text)}
    left = MAX_STARTED_CHARS
    for part in script.parts:
        forms |= {*_spellings(part), " ".join(bare(part.words))}
        for form in started(part.words):
            left -= len(form) + 1
            if left < 0:
                return True
            forms.add(form)
    return any(_matches(pattern, form, fold=True) for pattern in patterns for form in forms)


def command_allowed(patterns: tuple[str, ...], script: Script) -> bool:
    """Each part of the text is matched by one of the patterns, and there is nothing that cannot be told."""
    return (
        script.whole
        and bool(script.parts)
        and all(
            any(_matches(pattern, form, fold=False) for pattern in patterns for form in _spellings(part))
            for part in script.parts
        )
    )


def _spellings(part: Part) -> tuple[str, str]:
    return part.text, single_blanks(" ".join(part.words))


def path_matches(patterns: Iterable[str], path: str, fold: bool) -> bool:
    """Whether a pattern matches the path or a directory above it."""
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return any(_matches(pattern.removesuffix("/"), each, fold) for pattern in patterns for each in above)


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


def _matches(pattern: str, text: str, fold: bool) -> bool:
    return fnmatch.fnmatchcase(*((text.casefold(), pattern.casefold()) if fold else (text, pattern)))
