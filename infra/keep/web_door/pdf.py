"""The text of a PDF, page by page. All of it: what a reader would not see of it is not told apart."""

from __future__ import annotations

import pypdfium2  # type: ignore[import-untyped]

from infra.keep.web_door.content import Content, bounded
from infra.shared.text import counted
from infra.shared.web import MOST_CHARS

MOST_PAGES = 2000


class UnreadablePdf(ValueError):
    """The parser's words for why."""


def read_pdf(body: bytes) -> Content:
    """Raises UnreadablePdf."""
    try:
        with pypdfium2.PdfDocument(body) as document:
            return _read(document)
    except pypdfium2.PdfiumError as error:
        raise UnreadablePdf("it needs a password" if "password" in str(error).lower() else "it is damaged") from None


def _read(document: pypdfium2.PdfDocument) -> Content:
    pages, chars, number = list[str](), 0, 0
    for number in range(min(len(document), MOST_PAGES)):
        page = document[number]
        try:
            words = page.get_textpage()
            try:
                text = words.get_text_range(errors="replace").strip()
            finally:
                words.close()
        finally:
            page.close()
        pages.append(f"## Page {number + 1}\n\n{text}")
        chars += len(pages[-1]) + 2
        if chars > MOST_CHARS:
            break
    left = len(document) - number - 1
    notes = (f"its last {counted(left, 'page')}",) if left > 0 else ()
    return bounded(document.get_metadata_value("Title"), "\n\n".join(pages), (), notes, 0)
