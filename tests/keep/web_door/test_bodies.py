"""Bodies become text, whatever they hold."""

from __future__ import annotations

import pytest
from pypdfium2 import PdfiumError  # type: ignore[import-untyped]

from infra.keep.web_door.html import absolute
from infra.keep.web_door.text import MOST_LINKS, Content, Link, decoded, kind_of, type_of
from infra.shared.web import MOST_CHARS
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
