"""Bodies become text, whatever they hold."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from pypdfium2 import PdfiumError  # type: ignore[import-untyped]

from infra.keep.web_door.html import absolute
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.text import MOST_LINKS, Content, Link, decoded, kind_of, type_of
from infra.keep.web_door.worker import SECONDS, Readers, normalised
from infra.shared.paths import ROOT
from infra.shared.web import MOST_CHARS
from tests.cell.loop.waiting import gone
from tests.keep.supervision.agents import within
from tests.keep.web_door.came import came, content_of, pdf
from tests.shared.rows import each_row

HERE = "https://pages.example/a/b?c"
"""Where `came` has its pages from."""
PAGE = """<!doctype html><html><head><title>All &amp; each</title><base href="/base/"></head><body>
<nav><a href="/up">Up</a></nav><article><h1>Kettles</h1><p>They <b>boil</b> <a href="water">water</a>.</p>
<ul><li>one<li>two</ul><table><tr><th>a<th>b<tr><td>1<td>2|3</table><pre><code>x = 1
  y</code></pre><blockquote>said</blockquote><img src="k.png" alt="a kettle"></article>
<footer><a href="mailto:a@b.example">mail</a></footer></body></html>"""


def read(body: bytes, content_type: str = "text/html", raw: bool = False) -> Content:
    return content_of(came(body, content_type), raw)


def test_a_page_as_markdown() -> None:
    """Its structure is kept, its addresses are whole, and what stands around it is left out."""
    content = read(PAGE.encode())
    assert content.title == "All & each"
    assert content.links == (Link("Up", "https://pages.example/up"), Link("water", "https://pages.example/base/water"))
    lines = content.markdown.split("\n")
    for line in ("# Kettles", "- one", "| 1 | 2\\|3 |", "x = 1", "  y", "> said"):
        assert line in lines, content.markdown
    assert "They **boil** [water](https://pages.example/base/water)." in lines
    assert "![a kettle](https://pages.example/base/k.png)" in content.markdown
    assert "mail" not in content.markdown
    assert content.notes == ("navigation, asides and footers (6 characters)",)


@each_row(
    "header, body, kind",
    [
        ("text/html; charset=x", b"", "html"),
        ("APPLICATION/XHTML+XML", b"", "html"),
        ("application/pdf", b"", "pdf"),
        ("text/plain", b"<!doctype html><p>", "text"),
        ("application/problem+json", b"", "text"),
        ("image/svg+xml", b"", "text"),
        ("image/png", b"<!doctype html>", "other"),
        ("application/zip", b"PK\x03\x04", "other"),
        ("application/sql", b"select 1", "text"),
        ("", b"%PDF-1.4", "pdf"),
        ("", b"\n<!-- x --><!DOCTYPE html>", "html"),
        ("application/octet-stream", b"plain words", "text"),
        ("not a type", "wörter".encode(), "text"),
        ("", b"\x89PNG\r\n\x1a\n\x00\x00", "other"),
    ],
)
def test_a_type_that_is_said_is_believed(header: str, body: bytes, kind: str) -> None:
    """Only where none is, the first bytes decide."""
    assert kind_of(header, body) == kind


@each_row("header", ["text/html", "a/b; x", "TEXT/Html ;", "Do this/now and that", "", "a" * 500, "text/html\nDo this"])
def test_of_a_header_no_words_are_told(header: str) -> None:
    """Only a type in the letters that types have."""
    assert set(type_of(header)) <= set("abcdefghijklmnopqrstuvwxyz0123456789/!#$&^_.+-")
    assert len(type_of(header)) < 130


@each_row(
    "body, header, text",
    [
        ("é".encode(), "", "é"),
        ("é!".encode("cp1252"), "", "é!"),
        ("é".encode("cp1252"), "iso-8859-1", "é"),
        ("€".encode("cp1252"), "latin1", "€"),
        ("é".encode(), "utf-7", "é"),
        (b"+ADw-script+AD4-", "utf-7", "+ADw-script+AD4-"),
        (b"\xef\xbb\xbf" + "é".encode(), "windows-1251", "é"),
        (b"\xff\xfe" + "é".encode("utf-16-le"), "utf-8", "é"),
        ("<meta charset=koi8-r>я".encode("koi8-r"), "", "<meta charset=koi8-r>я"),
        ("<meta charset=koi8-r>я".encode(), "UTF8", "<meta charset=koi8-r>я"),
        ('<META http-equiv=x content="a; charset=Shift_JIS">あ'.encode("cp932"), "", None),
        ("<meta charset=utf-16>é".encode(), "", "<meta charset=utf-16>é"),
        ('<?xml version="1.0" encoding="gbk"?>中'.encode("gbk"), "", '<?xml version="1.0" encoding="gbk"?>中'),
        (b"\x1b$)Cx", "iso-2022-kr", "\N{REPLACEMENT CHARACTER}" * 5),
        (b"\x80a", "x-user-defined", "\uf780a"),
        ("中中".encode()[:5], "", "中\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_in_which_characters_a_page_is_written(body: bytes, header: str, text: str | None) -> None:
    """A mark wins over the header, that over the page's own word, and that over the guess."""
    found = decoded(body, header, in_page=True)
    assert found == text if text else "あ" in found


@each_row(
    "address, whole",
    [
        ("x", "https://pages.example/a/x"),
        ("//other.example/x", "https://other.example/x"),
        ("?q", "https://pages.example/a/b?q"),
        (" http://o.example/a b\n", "http://o.example/a%20b"),
        *((each, "") for each in ("#part", "javascript:alert(1)", "data:text/html,x", "mailto:a@b.example")),
        *((each, "") for each in ("file:///etc/passwd", "http://[", "http:", "x" * 9000)),
    ],
)
def test_addresses_are_whole_and_of_the_web(address: str, whole: str) -> None:
    """Others are none."""
    assert absolute(address, HERE) == whole


def test_links_are_given_once_and_are_not_too_many() -> None:
    """In the order of the page."""
    page = "".join(f"<a href=/{n // 2}>{n}</a>" for n in range(10 * MOST_LINKS))
    links = read(page.encode()).links
    assert [link.text for link in links] == [str(n) for n in range(0, 2 * MOST_LINKS, 2)]


def test_raw_is_the_source() -> None:
    """With all that it hides."""
    assert read(b"<!-- x --><p hidden>y", raw=True).markdown == "<!-- x --><p hidden>y"


def test_a_long_text_is_cut_and_says_so() -> None:
    """Before it leaves the worker."""
    content = read(b"a" * (MOST_CHARS + 1), "text/plain")
    assert len(content.markdown) == MOST_CHARS
    assert content.notes == (f"all after the first {MOST_CHARS:,} characters",)


def test_a_pdf_as_text() -> None:
    """Its title, and its pages with their numbers."""
    content = read(pdf("Kettles boil", "water.", title="Kettles"), "application/pdf")
    assert content.title == "Kettles"
    assert content.markdown.split() == ["##", "Page", "1", "Kettles", "boil", "water."]
    with pytest.raises(PdfiumError):
        read(b"%PDF-1.4 nothing", "application/pdf")


# The worker that reads a page: it may do nothing else, and one that fails costs one page.


def with_readers(act: Callable[[Readers], Awaitable[None]], seconds: float = SECONDS) -> None:
    async def run() -> None:
        readers = Readers(seconds)
        try:
            readers.start()
            await act(readers)
        finally:
            readers.close()

    asyncio.run(run())


async def text_of(readers: Readers, body: bytes, content_type: str = "text/html") -> str:
    return (await readers.read(came(body, content_type), False)).markdown


def test_each_page_has_a_worker_of_its_own() -> None:
    """Which is started ahead, and is gone after it; what cannot be read says why."""

    async def act(readers: Readers) -> None:
        pids = {readers.start().pid}
        for number in range(3):
            assert await text_of(readers, b"<p>%d" % number) == str(number)
            pids.add(readers.start().pid)
        assert len(pids) == 4
        assert all(gone(pid) for pid in pids - {readers.start().pid})
        texts = await asyncio.gather(*(text_of(readers, b"<p>%d" % number) for number in range(5)))
        assert texts == [str(number) for number in range(5)]
        with pytest.raises(WebRefusal, match="it is damaged") as refused:
            await text_of(readers, b"%PDF-", "application/pdf")
        assert refused.value.error.type == "execution_error"

    with_readers(act)


def test_a_worker_that_dies_costs_one_page() -> None:
    """None, where it dies before."""

    async def act(readers: Readers) -> None:
        pid = readers.start().pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert await text_of(readers, b"<p>two") == "two"
        pid = readers.start().pid
        os.kill(pid, signal.SIGSTOP)
        reading = asyncio.ensure_future(text_of(readers, b"<p>three"))
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WebRefusal, match="could not be read"):
            await reading
        assert await text_of(readers, b"<p>four") == "four"

    with_readers(act)


def test_a_worker_that_is_late_or_not_waited_for_is_killed() -> None:
    async def act(readers: Readers, is_left: bool) -> None:
        pid = readers.start().pid
        os.kill(pid, signal.SIGSTOP)
        reading = asyncio.ensure_future(text_of(readers, b"<p>two"))
        await asyncio.sleep(0)
        if is_left:
            reading.cancel()
        with pytest.raises(asyncio.CancelledError if is_left else WebRefusal):
            await reading
        assert gone(pid)

    with_readers(partial(act, is_left=False), seconds=0.2)
    with_readers(partial(act, is_left=True))


_PROBE = """
import json, os, resource, socket
from infra.keep.web_door.text import PageBody
from infra.keep.web_door.worker_process import give_up, read, warm
from tests.keep.web_door.came import pdf
sample, page = pdf("A kettle."), "<p>\\u200b\\u4e2d<p style='opacity:0'>x".encode("gb18030")
warm()
give_up()
def tried(act):
    try:
        act()
    except Exception as error:
        return type(error).__name__
    return "done"
print(json.dumps({
    "file": tried(lambda: open("/etc/passwd")),
    "written": tried(lambda: os.open("/tmp/x", os.O_WRONLY | os.O_CREAT)),
    "socket": tried(socket.socket),
    "pipe": tried(os.pipe),
    "program": tried(lambda: __import__("subprocess").run(["true"])),
    "memory": tried(lambda: bytearray(1 << 30)),
    "limit": tried(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))),
    "page": tried(lambda: read(PageBody("html", page, "gbk", "http://a/", False))),
    "pdf": tried(lambda: read(PageBody("pdf", sample, "", "http://a/", False))),
}))
"""


def test_what_a_worker_may_not_do() -> None:
    """No file, no connection, no program, no more memory; and it reads all the same."""
    words = [sys.executable, "-c", _PROBE]
    if os.geteuid() == 0:  # root may raise its limits again; the door's user is not root
        words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *words]
    env = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]}
    ran = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    refused = "OSError"
    assert json.loads(ran.stdout) == {
        **{"file": refused, "written": refused, "socket": refused, "pipe": refused, "program": refused},
        **{"memory": "MemoryError", "limit": "ValueError", "page": "done", "pdf": "done"},
    }


def test_a_worker_holds_nothing_but_its_pipes() -> None:
    """No descriptor of the door's is handed on; without memory it goes first, and it ends with its door."""

    async def act(readers: Readers) -> None:
        held = os.open("/etc/hostname", os.O_RDONLY)
        os.set_inheritable(held, True)
        try:
            assert await text_of(readers, b"<p>one") == "one"
            async with asyncio.timeout(20):
                while "Max open files            0" not in Path(f"/proc/{readers.start().pid}/limits").read_text():
                    await asyncio.sleep(0.01)
            assert Path(f"/proc/{readers.start().pid}/oom_score_adj").read_text() == "1000\n"
            found = {os.readlink(entry) for entry in Path(f"/proc/{readers.start().pid}/fd").iterdir()}
            assert {name.partition(":")[0] for name in found} <= {"pipe", "/dev/null"}
        finally:
            os.close(held)

    with_readers(act)
    program = (
        "import os\n"
        "from infra.keep.web_door.worker import Readers\n"
        "print(Readers().start().pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    env = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    within(10.0, lambda: gone(int(ran.stdout)) or None, "the worker's end")


def test_the_worker_s_word_counts_no_more_than_the_page_s() -> None:
    """One that was taken over cannot say what it likes: its text is normalised, its addresses are of the web."""
    links = (Link("a\u200b", "https://a.example/"), Link("b", "javascript:x"), Link("c", "http://a/\u202e"))
    told = Content("t\n\u202eu", "x\x00y", links * MOST_LINKS, ("n\nm",) * 99)
    found = normalised(told)
    assert (found.title, found.markdown) == ("t u", "xy")
    assert set(found.links) == {Link("a", "https://a.example/")}
    assert len(found.links) <= MOST_LINKS
    assert len(found.notes) == 10
    assert found.notes[0] == "n m"
