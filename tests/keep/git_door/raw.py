"""Packs and pushes that no git would make, written byte by byte (gitformat-pack(5), gitprotocol-pack(5))."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import zlib
from typing import NamedTuple

from infra.shared.people import AGENT
from tests.keep.git_door.world import NO_COMMIT, World

COMMIT, TREE, BLOB, REF_DELTA = 1, 2, 3, 7


class Thing(NamedTuple):
    """One entry of a pack."""

    kind: int
    size: int
    """As its header says it."""
    body: bytes
    """Compressed already."""
    base: bytes = b""


def plain(kind: int, content: bytes) -> Thing:
    return Thing(kind, len(content), zlib.compress(content))


def id_of(kind: str, content: bytes) -> str:
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def pack(things: list[Thing]) -> bytes:
    parts = [b"PACK", struct.pack(">II", 2, len(things))]
    for thing in things:
        first, rest = (thing.kind << 4) | (thing.size & 15), thing.size >> 4
        header = bytearray()
        while rest:
            header.append(first | 128)
            first, rest = rest & 127, rest >> 7
        header.append(first)
        parts += [bytes(header), thing.base, thing.body]
    whole = b"".join(parts)
    return whole + hashlib.sha1(whole).digest()


def delta(base: bytes, times: int) -> tuple[bytes, int]:
    """A delta that copies the whole of `base` over and over; and the size of what it makes."""
    copy = bytes([0x80 | 0x70]) + struct.pack("<I", len(base))[:3]  # from 0, so many bytes
    total = len(base) * times
    return _number(len(base)) + _number(total) + copy * times, total


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append((value & 127) | 128)
        value >>= 7
    return bytes([*out, value])


def push(world: World, ref: str, new: str, packed: bytes, old: str = NO_COMMIT) -> str:
    """Push through the door of a directory, as the agent's git would; what came back."""
    line = f"{old} {new} {ref}\0 report-status\n".encode()
    done = subprocess.run(
        [f"{world.places.var}/door/receive-pack", world.places.remote],
        input=b"%04x" % (len(line) + 4) + line + b"0000" + packed,
        capture_output=True,
        timeout=120,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def commit_of(tree: str, parent: str = "", message: str = "x", author: str = "") -> bytes:
    parents = f"parent {parent}\n" if parent else ""
    us = f"{AGENT.name} <{AGENT.email}>"
    return f"tree {tree}\n{parents}author {author or us} 1 +0000\ncommitter {us} 1 +0000\n\n{message}\n".encode()
