"""A body as text, by its kind. Runs in the worker: what it reads was written by strangers, for parsers in C."""

from __future__ import annotations

from infra.keep.web_door.charset import decoded
from infra.keep.web_door.content import Content, bounded
from infra.keep.web_door.html import read_html
from infra.keep.web_door.pdf import read_pdf
from infra.keep.web_door.plain import charset_of, head_of, kind_of, type_of
from infra.shared.text import counted


def read(body: bytes, content_type: str, url: str, raw: bool) -> Content:
    """Raises UnreadablePdf and what the libraries raise."""
    kind = kind_of(content_type, body)
    if kind == "pdf":
        return read_pdf(body)
    if kind == "other":
        about = f"what is no text: {type_of(content_type) or 'of no type'}, {counted(len(body), 'byte')}"
        return bounded("", head_of(body), (), (about,), 0)
    text = decoded(body, charset_of(content_type), in_page=kind == "html" or b"xml" in body[:5])
    if kind == "html" and not raw:
        return read_html(text, url)
    return bounded("", text, (), (), 0)
