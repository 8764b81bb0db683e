"""Each line of the ledger carries a hash over itself and the line before it, so that a line that was changed, put in
or taken out is found. Whoever takes the last lines away leaves no trace but a head that somebody noted before."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

MOST_FINDINGS = 20
_LINKED = re.compile(rb'(\{.*),"chain":"([0-9a-f]{64})"\}', re.DOTALL)
_EMPTY = b',"chain":""}'


def linked(encoded: bytes, before: str) -> tuple[bytes, str]:
    """A line as msgspec writes it, whose last field is an empty `chain`, with that filled in; and the new head.

    `before` is the head so far, empty for none."""
    body = encoded.removesuffix(_EMPTY)
    if body == encoded:
        raise ValueError(f"{encoded[-40:]!r} does not end with an empty chain")
    head = _hash(body, before)
    return body + b',"chain":"' + head.encode() + b'"}', head


def _hash(body: bytes, before: str) -> str:
    return hashlib.sha256(before.encode() + b"\n" + body).hexdigest()


class Checked(NamedTuple):
    """What a look at a whole ledger came to."""

    lines: int
    unlinked: int
    """Written before there was a chain, at the beginning."""
    torn: int
    """Cut short by a power cut or a full disk, and passed over."""
    calls: int
    head: str
    findings: tuple[str, ...]


class _Told(msgspec.Struct, frozen=True):
    event: str
    id: str


def check(lines: Iterable[bytes]) -> Checked:
    """Hold each line against the one before it, and each call's end against its beginning."""
    findings: list[str] = []
    number = unlinked = torn = 0
    head = ""
    begun: set[str] = set()
    ended: set[str] = set()
    for number, line in enumerate(lines, 1):
        match = _LINKED.fullmatch(line)
        try:
            told = msgspec.json.decode(line, type=_Told)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            torn += bool(line)
            continue
        if match is None and head:
            findings.append(f"line {number} has no hash, and lines before it have one: it was put in")
        elif match is None:
            unlinked += 1
        elif match[2].decode() != _hash(match[1], head):
            findings.append(
                f"line {number} does not follow from the line before it: one of the two was changed, or one between "
                "them was taken out"
            )
        head = match[2].decode() if match else head
        if told.event == "opened":
            begun.add(told.id)
        elif told.id in ended or told.id not in begun:
            findings.append(f"line {number} ends a call that was {'ended' if told.id in ended else 'never begun'}")
        else:
            ended.add(told.id)
    more = len(findings) - MOST_FINDINGS
    shown = (*findings[:MOST_FINDINGS], *([f"and {more} more"] if more > 0 else []))
    return Checked(number, unlinked, torn, len(begun), head, shown)
