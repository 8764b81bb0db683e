"""The worker: reads one body after the other from its standard input, and writes what it made of each to its output.

It reads what strangers wrote, with parsers in C, so all that it may have is taken from it first: it can open no file
and no connection, start no process, and has memory and time for one page."""

from __future__ import annotations

import contextlib
import os
import resource

import msgspec

from infra.keep.web_door import charset
from infra.keep.web_door.bodies import read
from infra.keep.web_door.pdf import UnreadablePdf
from infra.keep.web_door.worker import LENGTH, READY, Body, Read, Unread
from infra.shared.visible import without_invisible

MEMORY_BYTES = 640 << 20
CPU_SECONDS = 15
OOM_SCORE = "1000"
_SAMPLE = b"<!doctype html><title>t</title><style>.a{display:none}</style><p class=a>a<p>b <a href=/>c</a>\xe2\x80\x8b"
_SAMPLE_PDF = (
    b"%PDF-1.4 1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj "
    b"trailer<</Root 1 0 R>>"
)


def main() -> None:
    source, sink = os.dup(0), os.dup(1)
    warm()
    give_up()
    with os.fdopen(source, "rb") as requests, os.fdopen(sink, "wb") as replies:
        replies.write(READY)
        replies.flush()
        while head := requests.read(LENGTH.size):
            reply = msgspec.msgpack.encode(_answered(requests.read(LENGTH.unpack(head)[0])))
            replies.write(LENGTH.pack(len(reply)) + reply)
            replies.flush()


def warm() -> None:
    """Load whatever is loaded at its first use: later, no file can be opened."""
    charset.warm()
    read(_SAMPLE, "text/html", "http://localhost/", False)
    with contextlib.suppress(UnreadablePdf):
        read(_SAMPLE_PDF, "application/pdf", "http://localhost/", False)
    without_invisible("\u200b")


def give_up() -> None:
    # When memory is short, the page is to go, and not the runner, which is the first otherwise (proc(5)).
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE)
    for kind, most in (
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, MEMORY_BYTES),
    ):
        resource.setrlimit(kind, (most, most))


def _answered(request: bytes) -> Read | Unread:
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + CPU_SECONDS + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    asked = msgspec.msgpack.decode(request, type=Body)
    try:
        return Read(read(asked.body, asked.content_type, asked.url, asked.raw))
    except UnreadablePdf as error:
        return Unread(f"as a PDF, {error}")
    except MemoryError:
        return Unread("it needs more memory than a page may have")
    except Exception as error:  # a parser's own errors are its page's: the next page is read again
        return Unread(f"its parser failed with {type(error).__name__}")


if __name__ == "__main__":
    main()
