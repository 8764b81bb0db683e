"""The worker: reads one body from its standard input, writes what it made of it to its output, and ends.

It reads what strangers wrote, with parsers in C, so all that it may have is taken from it first: it can open no file
and no connection, start no process, and has memory and time for one page."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

import msgspec
import pypdfium2  # type: ignore[import-untyped]

from infra.keep.web_door import text
from infra.keep.web_door.html import read_html
from infra.keep.web_door.text import Content, PageBody, decoded
from infra.shared.text import counted
from infra.shared.web import MOST_CHARS

MEMORY_BYTES = 640 << 20
CPU_SECONDS = 15
OOM_SCORE = "1000"
MOST_PAGES = 2000
"""Of a PDF."""
_SAMPLE = b"<!doctype html><title>t</title><!-- c --><p class=a style='display:none'>a<p>b <a href=/>c</a>\xe2\x80\x8b"
_SAMPLE_PDF = (
    b"%PDF-1.4 1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj "
    b"trailer<</Root 1 0 R>>"
)


def main() -> None:
    warm()
    give_up()
    if request := sys.stdin.buffer.read():
        sys.stdout.buffer.write(msgspec.msgpack.encode(_answered(request)))
        sys.stdout.buffer.flush()
    os._exit(0)  # taking down what was loaded would take longer than most pages


def read(asked: PageBody) -> Content:
    """Raises pypdfium2.PdfiumError and what other libraries raise."""
    if asked.kind == "pdf":
        found = _read_pdf(asked.body)
    else:
        is_html = asked.kind == "html"
        source = decoded(asked.body, asked.charset, in_page=is_html or asked.body.startswith(b"<?xml"))
        found = read_html(source, asked.url) if is_html and not asked.raw else Content("", source)
    if len(found.markdown) <= MOST_CHARS:
        return found
    notes = (*found.notes, f"all after the first {MOST_CHARS:,} characters")
    return msgspec.structs.replace(found, markdown=found.markdown[:MOST_CHARS], notes=notes)


def warm() -> None:
    """Load whatever is loaded at its first use: later, no file can be opened."""
    text.warm()
    read(PageBody("html", _SAMPLE, "", "http://localhost/", False))
    with contextlib.suppress(pypdfium2.PdfiumError):
        read(PageBody("pdf", _SAMPLE_PDF, "", "http://localhost/", False))


def give_up() -> None:
    # When memory is short, the page is to go, and not the runner, which is the first otherwise (proc(5)).
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE)
    none = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    bounded = ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_SECONDS))
    for kind, most in (*((kind, 0) for kind in none), *bounded):
        resource.setrlimit(kind, (most, most))


def _answered(request: bytes) -> Content | str:
    """Or why it cannot be read, in our words."""
    try:
        return read(msgspec.msgpack.decode(request, type=PageBody))
    except pypdfium2.PdfiumError as error:
        return f"as a PDF, it {'needs a password' if 'password' in str(error).lower() else 'is damaged'}"
    except MemoryError:
        return "it needs more memory than a page may have"
    except Exception as error:
        return f"its parser failed with {type(error).__name__}"


def _read_pdf(body: bytes) -> Content:
    """Page by page, all of it: what a reader would not see of it is not told apart."""
    with pypdfium2.PdfDocument(body) as document:
        pages, chars = list[str](), 0
        for number in range(min(len(document), MOST_PAGES)):
            with contextlib.closing(document[number]) as page, contextlib.closing(page.get_textpage()) as words:
                pages.append(f"## Page {number + 1}\n\n{words.get_text_range(errors='replace').strip()}")
            chars += len(pages[-1]) + 2
            if chars > MOST_CHARS:
                break
        left = len(document) - len(pages)
        notes = (f"its last {counted(left, 'page')}",) if left else ()
        return Content(document.get_metadata_value("Title"), "\n\n".join(pages), notes=notes)


if __name__ == "__main__":
    main()
