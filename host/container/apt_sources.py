"""Where this machine gets its Debian packages, as lines for mmdebstrap: the agent's base comes from there too.

Only Debian's own archives are taken over, never what else the PM installs from. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

POCKETS = ("", "-updates", "-security")


class Archive(NamedTuple):
    """One suite at one address."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str


def lines(files: Mapping[str, str], codename: str, wanted: str) -> list[str]:
    """sources.list(5) lines for release `wanted`, from a machine of release `codename` with these files.

    Empty when the machine has none: mmdebstrap then knows where Debian is."""
    found: dict[str, None] = {}
    for name in sorted(files):
        for archive in _parse(name, files[name]):
            pocket = archive.suite.removeprefix(codename)
            if archive.suite.startswith(codename) and pocket in POCKETS and "main" in archive.components:
                options = f"[signed-by={archive.signed_by}] " if archive.signed_by.startswith("/") else ""
                found[f"deb {options}{archive.uri} {wanted}{pocket} main"] = None
    return list(found)


def _parse(name: str, text: str) -> Iterator[Archive]:
    if name.endswith(".sources"):
        yield from _stanzas(text)
    elif name.endswith(".list"):
        yield from _one_liners(text)


def _one_liners(text: str) -> Iterator[Archive]:
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line)
        if match:
            options = dict(option.partition("=")[::2] for option in (match[1] or "").split())
            yield Archive(match[2], match[3], tuple(match[4].split()), options.get("signed-by", ""))


def _stanzas(text: str) -> Iterator[Archive]:
    """deb822: fields `Name: value`, continued on indented lines, stanzas apart by blank lines."""
    without_comments = re.sub(r"(?m)^#.*\n?", "", text)
    for stanza in re.split(r"\n\s*\n", without_comments):
        fields = {key.lower(): value for key, value in re.findall(r"(?m)^([\w-]+):((?:.*\n?)(?:[ \t].*\n?)*)", stanza)}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "").strip().lower() == "no":
            continue
        signed = fields.get("signed-by", "").strip()
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Archive(uri, suite, tuple(fields.get("components", "").split()), "" if "\n" in signed else signed)
