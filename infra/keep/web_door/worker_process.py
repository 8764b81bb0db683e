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
import webencodings  # type: ignore[import-untyped]

from infra.keep.web_door.html import read_html
from infra.keep.web_door.text import Content, PageBody, decoded
from infra.shared.web import MOST_CHARS

MEMORY_BYTES = 640 << 20
CPU_SECONDS = 15
_SAMPLE = b"<!doctype html><title>t</title><!-- c --><p class=a style='display:none'>a<p>b <a href=/>c</a>\xe2\x80\x8b"


def main() -> None:
    warm()
    give_up()
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=PageBody)
    sys.stdout.buffer.write(msgspec.msgpack.encode(read(request)))
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
    for label in set(webencodings.LABELS.values()):
        webencodings.decode(b"a", label, "replace")
    read(PageBody("html", _SAMPLE, "", "http://localhost/", False))


def give_up() -> None:
    # When memory is short, the page is to go, and not the runner, which is the first otherwise (proc(5)).
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    none = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    bounded = ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_SECONDS))
    for kind, most in (*((kind, 0) for kind in none), *bounded):
        resource.setrlimit(kind, (most, most))


def _read_pdf(body: bytes) -> Content:
    """Page by page: what a reader would not see of it is not told apart."""
    document, text = pypdfium2.PdfDocument(body), ""
    for number, page in enumerate(document, 1):
        text += f"## Page {number}\n\n{page.get_textpage().get_text_range(errors='replace').strip()}\n\n"
        if len(text) > MOST_CHARS:
            break
    return Content(document.get_metadata_value("Title"), text)


if __name__ == "__main__":
    main()
