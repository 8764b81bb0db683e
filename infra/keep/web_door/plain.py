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
_USUAL = frozenset(
    (
        *("html", "plain", "css", "csv", "calendar", "javascript", "markdown", "tab-separated-values", "vcard", "xml"),
        *("jpeg", "png", "gif", "webp", "avif", "bmp", "tiff", "svg+xml", "x-icon", "vnd.microsoft.icon"),
        *("mpeg", "mp4", "ogg", "wav", "webm", "flac", "aac", "quicktime", "woff", "woff2", "ttf", "otf"),
        *("json", "ld+json", "geo+json", "problem+json", "x-ndjson", "jsonl", "yaml", "x-yaml", "toml", "sql", "rtf"),
        *("xhtml+xml", "rss+xml", "atom+xml", "x-javascript", "ecmascript", "x-sh", "wasm", "graphql", "epub+zip"),
        *("pdf", "zip", "gzip", "x-gzip", "x-tar", "x-bzip2", "x-xz", "zstd", "x-7z-compressed", "java-archive"),
        *("octet-stream", "msword", "vnd.ms-excel", "vnd.ms-powerpoint", "x-www-form-urlencoded", "x-tex", "x-latex"),
        *(f"vnd.openxmlformats-officedocument.{kind}" for kind in ("wordprocessingml.document", "spreadsheetml.sheet")),
    )
)
_HEAD_BYTES = 1 << 10
_SHOWN_BYTES = 64


def type_of(header: str) -> str:
    """The type alone, in small letters; empty for what is none. The page wrote the header: the rest is not told."""
    found = _TYPE.match(header[:400])
    return found[1].lower() if found else ""


def told_type(header: str) -> str:
    """The type in words that are not the page's: of an unusual one, its general kind alone. It is shown beside the
    frame, and a type can hold an order in a hundred letters."""
    general, _, special = type_of(header).partition("/")
    if general not in _GENERAL:
        return "a type of its own" if general else ""
    return f"{general}/{special}" if special in _USUAL else f"{general} of its own kind"


_GENERAL = ("text", "application", "image", "audio", "video", "font", "binary")


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
