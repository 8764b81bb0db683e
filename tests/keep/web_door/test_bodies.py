"""Bodies become text: whatever they hold, in time that grows with their length, and without an exception."""

from __future__ import annotations

import time

import pytest
import webencodings  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from pypdfium2 import PdfiumError  # type: ignore[import-untyped]

from infra.keep.web_door.html import absolute
from infra.keep.web_door.text import MOST_LINKS, Content, decoded, kind_of, type_of
from infra.shared.web import MOST_CHARS, Link
from tests.keep.web_door.came import came, content_of
from tests.keep.web_door.pdfs import pdf
from tests.shared.rows import each_row
from tests.shared.texts import any_text

HERE = "https://pages.example/a/b?c"
"""Where `came` has its pages from."""
LABELS = sorted(webencodings.LABELS)
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
    assert content.links == (
        Link("Up", "https://pages.example/up"),
        Link("water", "https://pages.example/base/water"),
    )
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


@given(st.binary(), st.sampled_from(LABELS), st.booleans())
def test_no_bytes_are_too_odd_to_be_decoded(body: bytes, label: str, in_page: bool) -> None:
    """In any charset of the standard; the result can be written as UTF-8."""
    decoded(body, label, in_page).encode()


_TAGS = """
< > </ <p> </p> <div style= ' " <!-- --> <![CDATA[ ]]> <table> <td> <b> <a href= <svg> <math> <template>
<style> p{ } @media{ : ; <select> <option> <script> <title> &#xD800; &lt; &#0; <plaintext> <iframe>
<frameset> <base href='http://[' <img src=x alt= <noscript> <textarea> é ⟧ display:none
"""
_PIECES = st.sampled_from((*_TAGS.split(), "\0", "\u202e", " ", "\n"))


@given(st.lists(_PIECES | any_text(), max_size=40))
def test_no_html_is_too_broken_to_be_read(pieces: list[str]) -> None:
    """Whatever the parser makes of it: text that can be sent."""
    content = read("".join(pieces).encode())
    content.markdown.encode()
    content.title.encode()


@given(st.binary(), st.sampled_from(["", "application/pdf", "application/json", "text/html", "image/png", "x"]))
def test_no_body_is_too_odd_to_be_read(body: bytes, content_type: str) -> None:
    """A PDF that is none is told as one; everything else is text."""
    try:
        read(body, content_type).markdown.encode()
    except PdfiumError:
        assert kind_of(content_type, body) == "pdf"


@each_row(
    "address, whole",
    [
        ("x", "https://pages.example/a/x"),
        ("//other.example/x", "https://other.example/x"),
        ("?q", "https://pages.example/a/b?q"),
        (" http://o.example/a b\n", "http://o.example/a%20b"),
        ("#part", ""),
        ("javascript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("mailto:a@b.example", ""),
        ("file:///etc/passwd", ""),
        ("http://[", ""),
        ("http:", ""),
        ("x" * 9000, ""),
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


LONG = {
    "links": ("", "<p><a href='/{n}'>link {n}</a>", 5000),
    "comments": ("", "<!-- x -->", 20_000),
    "an open comment": ("", "<!--", 40_000),
    "attributes": ("<p ", "a{n}=b ", 3000),  # more of them in one tag take the parser longer than their number
    "a long number": ("<p style='font-size:", "1", 40_000),
    "open tags": ("", "<a", 40_000),
    "open tags with attributes": ("", "<a b='", 20_000),
    "open declarations": ("<p style='", "display:none ;opacity: 0", 5000),
    "styles": ("", "<p style='display:none !x'>", 3000),
    "titles": ("", "<title>x</title>", 10_000),
    "images": ("", "<img alt=x src=y{n}>", 3000),
    "bases": ("", "<base href=x>", 5000),
    "entities": ("", "&#x{n};&", 10_000),
    "brackets": ("", "[](", 20_000),
    "backslashes and stars": ("", "*_\\`", 20_000),
    "empty lines": ("<pre>", " \n\n", 20_000),
}


@pytest.mark.parametrize("what", LONG)
def test_time_grows_with_the_length(what: str) -> None:
    """Four times the page takes no sixteen times the time."""
    head, piece, count = LONG[what]
    short, long = (_seconds(head, piece, times * count // 2) for times in (1, 4))
    assert long < 9 * short + 0.05, (short, long)


def _seconds(head: str, piece: str, count: int) -> float:
    """Of the processor; the better of two."""
    page = (head + "".join(piece.format(n=n) for n in range(count))).encode()
    tries = []
    for _ in range(2):
        began = time.process_time()
        read(page)
        tries.append(time.process_time() - began)
    return min(tries)
