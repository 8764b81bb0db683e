"""Pages as the door has fetched them, and what the cell would be given of them, read in this process."""

from __future__ import annotations

import hashlib
from typing import Any

from infra.keep.web_door.bodies import read
from infra.keep.web_door.fetching import Fetched
from infra.keep.web_door.page import page_of
from infra.keep.web_door.worker import normalised
from infra.shared.web import Page

NONCE = "5eedfeed00c0ffee"
OPENING, CLOSING = f"⟦web {NONCE}: ", f"⟦end of web {NONCE}⟧"


def came(body: bytes | str, content_type: str = "text/html", **others: Any) -> Fetched:
    raw = body.encode() if isinstance(body, str) else body
    return Fetched(
        url="https://pages.example/a/b?c",
        origin="https://pages.example",
        status=200,
        content_type=content_type,
        charset="",
        body=raw,
        whole=True,
        sha256=hashlib.sha256(raw).hexdigest(),
        redirects=0,
        size=len(raw),
    )._replace(**others)


def given(page: Fetched, max_chars: int = 10_000, raw: bool = False) -> Page:
    content = normalised(read(page.body, page.content_type, page.url, raw))
    return page_of(page, content, max_chars, NONCE)


def markdown(body: bytes | str, content_type: str = "text/html") -> str:
    raw = body.encode() if isinstance(body, str) else body
    return normalised(read(raw, content_type, "https://pages.example/a/b?c", False)).markdown


def within(text: str) -> str:
    """What stands in the frame; fails unless there is one, whole, and nothing around it."""
    first, _, rest = text.partition("\n")
    inner, _, last = rest.rpartition("\n")
    assert first.startswith(OPENING), first
    assert last == CLOSING, last
    return inner


def outside(page: Page) -> str:
    """All that the cell shows of a page outside of its frame."""
    return f"{page.status} {page.content_type} {page.size}"
