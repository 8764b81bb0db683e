"""What a body is, by its content type and its beginning, and what is told of one that is no text. Pure."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["html", "pdf", "text", "other"]
_TYPE = re.compile(r"\s*([a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60})\s*(?:;|\Z)", re.IGNORECASE)
_CHARSET = re.compile(r""";\s*charset\s*=\s*(?:"([^"]{1,40})"|([^\s;"]{1,40}))""", re.IGNORECASE)
_HTML_BEGINS = re.compile(rb"(?i)\s*(?:<!--.{0,400}?-->\s*)?<(?:!doctype\s+html|html|head|body)[\s>]", re.DOTALL)
_TEXT_TYPES = re.compile(
    r"text/.+|.+\+(?:json|xml|yaml)|application/(?:json|xml|javascript|ecmascript|x-javascript|yaml|x-yaml|toml|sql|"
    r"x-sh|x-ndjson|jsonl|json5|graphql|x-httpd-php|x-www-form-urlencoded|rtf|x-tex|x-latex)|image/svg\+xml"
)
_UNSAID = ("", "application/octet-stream", "application/x-unknown", "binary/octet-stream", "unknown/unknown")
_HEAD_BYTES = 1 << 10
_SHOWN_BYTES = 64


def type_of(header: str) -> str:
    """The type alone, in small letters; empty for what is none. The page wrote the header: the rest is not told."""
    found = _TYPE.match(header[:400])
    return found[1].lower() if found else ""


def charset_of(header: str) -> str | None:
    found = _CHARSET.search(header[:400])
    return (found[1] or found[2]) if found else None


def kind_of(content_type: str, body: bytes) -> Kind:
    """A type that is said is believed; only where none is, the first bytes decide."""
    kind, head = type_of(content_type), body[:_HEAD_BYTES]
    if kind in ("text/html", "application/xhtml+xml"):
        return "html"
    if kind == "application/pdf":
        return "pdf"
    if _TEXT_TYPES.fullmatch(kind):
        return "text"
    if kind not in _UNSAID:
        return "other"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if _HTML_BEGINS.match(head):
        return "html"
    return "text" if _seems_text(head) else "other"


def head_of(body: bytes) -> str:
    """Of what is no text: its first bytes as numbers."""
    return f"The first bytes: {body[:_SHOWN_BYTES].hex(' ', 4)}"


def _seems_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    return not any(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head)
