"""What a body is, by its content type and beginning, and its letters, by the Encoding Standard of the WHATWG. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Literal

import msgspec
import webencodings  # type: ignore[import-untyped]

from infra.keep.eye.blocked import Signals

Kind = Literal["html", "pdf", "text", "other"]
HEAD_BYTES = 1 << 12
"""In which a body tells its kind and its charset. The standard stops at 1024; many pages do not."""
MOST_LINKS = 200
_TYPE = re.compile(r"\s*([a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60})\s*(?:;|\Z)", re.IGNORECASE)
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?([^\s;"']{1,40})""", re.IGNORECASE)
_HTML_BEGINS = re.compile(rb"(?i)\s*(?:<!--.{0,400}?-->\s*)?<(?:!doctype\s+html|html|head|body)[\s>]", re.DOTALL)
_NO_TEXT_HOLDS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NAMED = re.compile(
    rb"""(?i)(?:<meta\s[^>]{0,400}?charset|\A<\?xml\s[^>]{0,200}?encoding)\s{0,9}=\s{0,9}["']?\s{0,9}([\w:.-]{1,40})"""
)


class PageBody(msgspec.Struct, frozen=True):
    """What a worker is sent."""

    kind: Kind
    body: bytes
    charset: str
    url: str
    raw: bool


class Link(msgspec.Struct, frozen=True):
    text: str
    url: str


class Content(msgspec.Struct, frozen=True):
    """What a worker makes of it."""

    title: str
    markdown: str
    links: tuple[Link, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out, in our words."""
    signals: Signals = Signals()


def type_of(header: str) -> str:
    """The type alone, in small letters; empty for what is none."""
    found = _TYPE.match(header[:400])
    return found[1].lower() if found else ""


def charset_of(header: str) -> str:
    """The label that it names; empty for none."""
    found = _CHARSET.search(header[:400])
    return found[1].lower() if found else ""


def kind_of(content_type: str, head: bytes) -> Kind:
    """By the header's type where that tells text from none; of all others, and where none is said, by the body's first
    bytes."""
    kind, head = type_of(content_type), head[:HEAD_BYTES]
    if kind in ("text/html", "application/xhtml+xml"):
        return "html"
    if kind == "application/pdf" or head.startswith(b"%PDF-"):
        return "pdf"
    if kind.startswith("text/") or kind.endswith(("+json", "+xml", "+yaml")):
        return "text"
    if kind.startswith(("image/", "audio/", "video/", "font/")) or _NO_TEXT_HOLDS.search(head):
        return "other"
    return "html" if _HTML_BEGINS.match(head) else "text"


def decoded(body: bytes, label: str, in_page: bool = False) -> str:
    """`label`: of the header, or empty; with `in_page`, the bytes themselves may name one. A byte-order mark wins over
    both, and where nothing is said it is UTF-8 if the bytes are that, else windows-1252. What cannot be read becomes
    U+FFFD."""
    encoding = webencodings.lookup(label) or (_named_within(body) if in_page else None) or _guessed(body)
    text: str = webencodings.decode(body, encoding, "replace")[0]
    return text


def _named_within(body: bytes) -> webencodings.Encoding | None:
    found = _NAMED.search(body[:HEAD_BYTES])
    encoding = webencodings.lookup(found[1].decode("latin-1")) if found else None
    # What names itself in ASCII is not written in UTF-16.
    return webencodings.UTF8 if encoding and encoding.name.startswith("utf-16") else encoding


def _guessed(body: bytes) -> webencodings.Encoding:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)  # a body that was cut may end within a letter
    except UnicodeDecodeError:
        return webencodings.lookup("windows-1252")
    return webencodings.UTF8
