"""Whom a TLS client asks for, as it says in clear at the beginning (RFC 8446 §4.1.2, RFC 6066 §3). Pure.

A server that answers for many names goes by this one, so without a look at it the way to one name is a way to all of
them."""

from __future__ import annotations

import hashlib

HEADER_BYTES = 5
MOST_BYTES = 1 << 14
"""Of a record, behind its header."""
ANSWER_BYTES = 43
"""Of a server's answer, that tell whether it asks for another ClientHello."""
_CHANGE_CIPHER, _HANDSHAKE = 20, 22
_CLIENT_HELLO, _SERVER_HELLO = 1, 2
_RETRY = hashlib.sha256(b"HelloRetryRequest").digest()
"""In the place of a server's random number (RFC 8446 §4.1.3)."""
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


class NoHello(ValueError):
    """Says what was found instead."""


def length_of(header: bytes) -> int:
    """How many bytes follow the header of the first record. Raises NoHello."""
    length = int.from_bytes(header[3:])
    if len(header) != HEADER_BYTES or header[0] != _HANDSHAKE or not 0 < length <= MOST_BYTES:
        raise NoHello("what was sent does not begin as TLS does")
    return length


def says_nothing(header: bytes) -> bool:
    """A record that TLS 1.3 may put before its second ClientHello, for the sake of others on the way: one byte."""
    return header[:1] == bytes([_CHANGE_CIPHER]) and header[3:] == b"\0\1"


def is_answer(begin: bytes) -> bool:
    """Whether it may be one that asks for another ClientHello, when more of it has come."""
    return begin[:1] in (b"", bytes([_HANDSHAKE]))


def asks_again(begin: bytes) -> bool:
    """Whether the server asks for another ClientHello, which names whom it is for anew."""
    return is_answer(begin) and begin[5:6] == bytes([_SERVER_HELLO]) and begin[11:ANSWER_BYTES] == _RETRY


def server_name(record: bytes) -> str:
    """The one name that is asked for, in small letters. `record`: the first one, without its header. Raises NoHello."""
    try:
        reader = _Reader(record)
        if reader.number(1) != _CLIENT_HELLO:
            raise NoHello("the first message is no ClientHello")
        hello = _Reader(reader.vector(3))
        hello.take(2 + 32)  # version, random
        for size in (1, 2, 1):  # session, ciphers, compression
            hello.vector(size)
        found, extensions = list[str](), _Reader(hello.vector(2))
        while extensions.left:
            kind, content = extensions.number(2), extensions.vector(2)
            if kind == _ENCRYPTED_HELLO:
                raise NoHello("the name that is asked for is encrypted (ECH)")
            if kind == _SERVER_NAME:
                names = _Reader(_Reader(content).vector(2))
                while names.left:
                    names.take(1)
                    found.append(names.vector(2).decode("ascii").lower())
    except (EOFError, UnicodeDecodeError):
        raise NoHello("the ClientHello is damaged, or in more than one record") from None
    if len(found) != 1:
        raise NoHello(f"{len(found)} names are asked for; expected one")
    return found[0]


class _Reader:
    """Raises EOFError where there is less than was said."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def left(self) -> bool:
        return self._at < len(self._content)

    def take(self, count: int) -> bytes:
        taken = self._content[self._at : self._at + count]
        if len(taken) != count:
            raise EOFError
        self._at += count
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> bytes:
        """Bytes behind their count, which has `size` bytes."""
        return self.take(self.number(size))
