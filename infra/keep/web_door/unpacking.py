"""The body of an answer as it comes over the wire, unpacked and bounded: a few packed bytes stand for any number."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

from infra.keep.web_door.refusal import failed

SPARE_BYTES = 64 * 1024
"""Packed, a page may be so much longer than it is."""


class Unpacking:
    """What has come so far. `whole` tells, at the end, that nothing was left out."""

    def __init__(self, coding: str, most: int) -> None:
        """Raises WebRefusal for a coding that was not asked for."""
        self._most = most
        self._taken = 0
        self._hash = hashlib.sha256()
        self._body = bytearray()
        self._unpack: Any | None = None
        self._may_be_bare = coding == "deflate"
        self.is_full = False
        match coding:
            case "" | "identity":
                pass
            case "gzip" | "x-gzip" | "deflate":
                self._unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            case _:
                raise failed("the page is packed in another way than gzip and deflate, which were asked for")

    def take(self, part: bytes) -> None:
        """Raises WebRefusal for damage."""
        self._taken += len(part)
        if self._unpack:
            part = self._unpacked(self._unpack, part)
        room = self._most - len(self._body)
        self.is_full = self.is_full or len(part) > room or self._taken > self._most + SPARE_BYTES
        self._body += part[:room]
        self._hash.update(part[:room])

    def finish(self) -> tuple[bytes, bool, str]:
        """The body, whether that is all of it, and its SHA-256. Raises WebRefusal for one that breaks off."""
        if self._unpack and self._taken and not self.is_full and not self._unpack.eof:
            raise failed("the page breaks off in the middle of its packed body", "try again", retriable=True)
        return bytes(self._body), not self.is_full, self._hash.hexdigest()

    def _unpacked(self, unpack: Any, part: bytes) -> bytes:
        room = self._most - len(self._body) + 1
        try:
            made: bytes = unpack.decompress(part, room)
        except zlib.error as error:
            if self._may_be_bare and not self._body:  # some servers send it without its head
                self._unpack, self._may_be_bare = zlib.decompressobj(wbits=-zlib.MAX_WBITS), False
                return self._unpacked(self._unpack, part)
            raise failed(f"the page's packed body is damaged ({error})", "try again", retriable=True) from None
        self._may_be_bare = False
        self.is_full = self.is_full or bool(unpack.unused_data or unpack.unconsumed_tail)
        return made
