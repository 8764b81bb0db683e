"""Which words can be the name of a host on the internet (RFC 1123 §2.1): what the PM lists becomes a word on the
resolver's command line."""

from __future__ import annotations

import re

from infra.shared.addresses import readings
from infra.shared.text import cut

INNER_NAMES = (
    # Names of the machine's own network, its cloud and its containers; an upstream may know them (RFC 6761, 6762
    # appendix G, 7686, 8375, 9476). What is asked of the public would only tell it what somebody looks for here.
    *("alt", "corp", "home", "home.arpa", "internal", "intranet", "invalid", "lan", "local", "localdomain"),
    *("localhost", "onion", "podman", "private", "test"),
)
MAX_LENGTH = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")


def problem_with_host_name(name: str) -> str | None:
    """Why `name` cannot be one; None when it can. Names are written in lower case, those of other scripts as xn--…"""
    shown = ascii(cut(name, 80))
    if "://" in name or "/" in name or ":" in name:
        return f"{shown} is an address; give the name of the host alone, such as 'pypi.org'"
    if name.startswith(("*.", ".")):
        return f"{shown} begins with a wildcard; a name stands for those below it as well: give {name.lstrip('*.')!r}"
    labels = name.split(".")
    if len(name) > MAX_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        return f"{shown} is not a name of a host; expected something like 'pypi.org', in lower case"
    if len(labels) == 1 and not readings(name):
        return f"{shown} is a single word; expected a whole name such as 'pypi.org'"
    if labels[-1].isdigit() or readings(name):
        return f"{shown} is an address; give a name such as 'pypi.org'"
    return None
