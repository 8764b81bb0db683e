"""Pages as the door has fetched them, and what the cell would be given of them, read in this process; small PDFs."""

from __future__ import annotations

import hashlib
from typing import Any

from infra.keep.web_door.fetch import Fetched
from infra.keep.web_door.page import page_of
from infra.keep.web_door.text import Content, PageBody, charset_of, kind_of, type_of
from infra.keep.web_door.worker import normalised
from infra.keep.web_door.worker_process import read
from infra.shared.web import Page

NONCE = "5eedfeed00c0ffee"
OPENING, CLOSING = f"⟦web {NONCE}: ", f"⟦end of web {NONCE}⟧"


def came(body: bytes | str, content_type: str = "text/html", **others: Any) -> Fetched:
    raw = body.encode() if isinstance(body, str) else body
    return Fetched(
        url="https://pages.example/a/b?c",
        origin="https://pages.example",
        status=200,
        content_type=type_of(content_type),
        charset=charset_of(content_type),
        kind=kind_of(content_type, raw),
        body=raw,
        whole=True,
        sha256=hashlib.sha256(raw).hexdigest(),
    )._replace(**others)


def given(page: Fetched, max_chars: int = 10_000, raw: bool = False) -> Page:
    return page_of(page, normalised(content_of(page, raw)), max_chars, NONCE)


def content_of(page: Fetched, raw: bool = False) -> Content:
    """As the worker reads it. Raises what it would raise there."""
    return read(PageBody(page.kind, page.body, page.charset, page.url, raw))


def within(text: str) -> str:
    """What stands in the frame; fails unless there is one, whole, and nothing around it."""
    first, _, rest = text.partition("\n")
    inner, _, last = rest.rpartition("\n")
    assert first.startswith(OPENING), first
    assert last == CLOSING, last
    return inner


def pdf(*lines: str, title: str = "") -> bytes:
    """One page with these lines, in ASCII."""
    shown = "".join(f"({_plain(line)}) Tj 0 -20 Td " for line in lines)
    stream = f"BT /F1 12 Tf 20 700 Td {shown}ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Title({_plain(title)})>>".encode(),
    ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%sendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Size %d/Root 1 0 R/Info 6 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))
    return bytes(out) + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end


def _plain(text: str) -> str:
    return text.replace("\\", "").replace("(", "[").replace(")", "]")
