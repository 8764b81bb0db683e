"""COMMS.md case by case: what is a directive, what is done, and what adding and ticking write."""

from __future__ import annotations

import hashlib

import pytest

from infra.shared.comms import (
    DIRECTIVES,
    CommsError,
    add_directive,
    add_report,
    directives,
    open_directives,
    report_heading,
    reports,
    tick,
    with_sections,
)
from tests.shared.rows import each_row

AT = "2026-01-31T10:42:12.345Z"


def page(held: str) -> str:
    return f"# COMMS\n\nA page.\n\n## Directives\n\n{held}\n\n## Reports\n\n- [ ] of the agent\n"


def texts(document: str) -> list[str]:
    return [item.text for item in open_directives(document)]


@each_row(
    "held, expected",
    {
        "items with boxes": ("- [ ] one\n- [ ] two", ["one", "two"]),
        "items without": ("* one\n+ two\n- three", ["one", "two", "three"]),
        "numbered": ("1. one\n2) two\n10. [ ] three", ["one", "two", "three"]),
        "ticked": ("- [x] one\n- [X] two\n1. [x] three\n- [ ] four", ["four"]),
        "other boxes are words": ("- [y] one\n- [x]two\n- [] three", ["[y] one", "[x]two", "[] three"]),
        "struck": ("- ~~one~~\n- [ ] ~~two~~\n\n~~three~~\n\n- ~~four\n  and more~~", []),
        "struck line by line": ("- ~~one~~\n  ~~more~~", []),
        "partly struck": ("- ~~one~~ and ~~two~~\n- ~~old~~ new", ["~~one~~ and ~~two~~", "~~old~~ new"]),
        "not struck": ("- ~~\n- ~~~~", ["~~", "~~~~"]),
        "paragraphs": ("one\n\ntwo\nmore", ["one", "two\nmore"]),
        "paragraph, then items": ("one:\n- two\n- three", ["one:", "two", "three"]),
        "nested items": (
            "- one\n  - inner\n  1. inner\n    - deep\n- two",
            ["one\n- inner\n1. inner\n  - deep", "two"],
        ),
        "nested boxes": ("- [ ] one\n  - [x] inner", ["one\n- [x] inner"]),
        "nested under a number": ("1. one\n  - inner\n2. two", ["one\n- inner", "two"]),
        "continued": ("- one\n  more\nand more\n\n  and more\n\nother", ["one\nmore\nand more\n\nand more", "other"]),
        "code keeps its shape": ("- run\n\n      if a:\n          b()", ["run\n\n    if a:\n        b()"]),
        "items a little to the right": (" - [ ] one\n - [x] two\n - [ ] three", ["one", "three"]),
        "crooked items": ("- one\n - two\n- three", ["one", "two", "three"]),
        "tabs": ("-\tone\n\tmore\n-\t[ ]\ttwo", ["one\n\tmore", "two"]),
        "nothing": ("", []),
        "empty items": ("- [ ]\n- \n- [ ] \n* [x]\n-\t\n-\n1.", []),
        "text below an empty item": ("- [ ]\n  one", ["one"]),
        "rules": ("---\n\n- one\n\n* * *\n\n___\ntwo", ["one", "two"]),
        "rule in an item": ("- one\n  ---\n  more", ["one\n---\nmore"]),
        "smaller headings are words": ("### One\nmore\n\n#### Two", ["### One\nmore", "#### Two"]),
        "level 1 in code that nobody fenced": ("one\n# a comment\nmore", ["one\n# a comment\nmore"]),
        "numbers of other writing": ("\u0661. one", ["\u0661. one"]),
        "quoted": ("> one\n> more", ["> one\n> more"]),
    }.values(),
)
def test_what_is_an_open_directive(held: str, expected: list[str]) -> None:
    """A top-level item or a paragraph; ticked and struck ones are done; nothing of Reports is one."""
    assert texts(page(held)) == expected


@each_row(
    "held, expected",
    {
        "one line": ("<!-- - [ ] no -->\n- yes", ["yes"]),
        "lines": ("<!-- PM: like this:\n\n- [ ] no\n-->\n\n- yes", ["yes"]),
        "closed at the end of a line": ("<!-- a\n- [ ] no -->\n- yes", ["yes"]),
        "beside words": ("<!-- a --> yes", ["<!-- a --> yes"]),
        "words after the end": ("<!-- a\nb --> yes", ["b --> yes"]),
        "never closed": ("- one\n<!-- a\n- two", ["one\n<!-- a", "two"]),
        "closed only in Reports": ("<!-- a\n- two", ["<!-- a", "two"]),
        "in an item": ("- one\n<!-- a -->\n  more", ["one\nmore"]),
        "indented, in an item": ("- one\n  <!-- a -->\n  more", ["one\n<!-- a -->\nmore"]),
        "indented, alone": ("- <!-- a -->\n\n  <!-- b\n  c -->", []),
        "within a line": ("- one <!-- a -->\n- two <!-- b", ["one <!-- a -->", "two <!-- b"]),
        "in code": ("one\n```\n<!--\n```\n\ntwo\n\n-->", ["one\n```\n<!--\n```", "two", "-->"]),
    }.values(),
)
def test_what_a_comment_hides(held: str, expected: list[str]) -> None:
    """Text between comment marks is nobody's directive; a mark that is never closed hides nothing."""
    assert texts(page(held).replace("of the agent", "of the agent -->")) == expected


@each_row(
    "held, expected",
    {
        "in an item": ("- one\n  ```\n  ## no\n\n  - no\n  ```\n- two", ["one\n```\n## no\n\n- no\n```", "two"]),
        "after a paragraph": ("one\n```\n## no\n\n- no\n```\n\ntwo", ["one\n```\n## no\n\n- no\n```", "two"]),
        "after a blank line": ("- one\n\n```\n# no\n```\n- two", ["one", "```\n# no\n```", "two"]),
        "alone": ("~~~ sh\n\n- no\n~~~\n\ntwo", ["~~~ sh\n\n- no\n~~~", "two"]),
        "longer fences": ("one\n````\n```\n- no\n````\n\ntwo", ["one\n````\n```\n- no\n````", "two"]),
        "never closed": ("one\n```\n\n- two", ["one\n```", "two"]),
        "never closed in an item": (
            "- one\n  ```\n- two\n  ```\n  x\n  ```\n- three",
            ["one\n```", "two\n```\nx\n```", "three"],
        ),
        "no fence": ("```a`\n\n- one", ["```a`", "one"]),
    }.values(),
)
def test_what_a_block_of_code_holds(held: str, expected: list[str]) -> None:
    """Code is one piece, whatever it looks like; a fence that is never closed is a word like others."""
    report = "\n```\ncode\n```\n"  # would close what was left open above, if fences went over sections
    assert texts(page(held) + report) == expected
    assert texts(page("- [x] old\n\n" + held) + report) == expected


@each_row(
    "document, expected",
    [
        ("## Directives\n- one\n## Reports\n- no\n", ["one"]),
        ("## directives\n- one\n## REPORTS\n- no\n", ["one"]),
        ("# Directives\n- one\n# Reports\n- no\n", ["one"]),
        ("## Directives ##\n- one\n##   Reports  \n- no", ["one"]),
        ("##\tDirectives\r\n- one\r\n## Reports\r\n- no\r\n", ["one"]),
        ("## Reports\n- no\n## Directives\n- one", ["one"]),
        ("## Directives\n- one\n\n## Notes\n- no\n\n## Reports\n- no\n", ["one"]),
        ("### Directives\n- no\n## Directives\n- one\n", ["one"]),
        ("#Directives\n- no\n\n##Directives\n- no\n\n  ## Directives\n- no\n## Directives\n- one", ["one"]),
        ("## Directives\n```\n- two\n## Directives\n- one", ["```", "two", "one"]),
        ("<!--\n## Directives\n-->\n## Directives\n- one\n", ["-->", "one"]),
    ],
)
def test_where_the_directives_are(document: str, expected: list[str]) -> None:
    """Under a heading of level 2 (or 1) with that name, up to the next; our headings count wherever they stand."""
    assert texts(document) == expected


def test_two_sections_of_one_name_are_both_meant() -> None:
    """A merge can leave two; no directive of either is lost, and what is added goes to the last."""
    document = "## Directives\n\n- one\n\n## Reports\n\n### 1\n\n## Directives\n\n- two\n\n## Reports\n\n### 2\n"
    assert texts(document) == ["one", "two"]
    assert reports(document) == ["### 1", "### 2"]
    assert texts(add_directive(document, "three")) == ["one", "two", "three"]
    assert reports(add_report(document, "title", "", "3")) == ["### 1", "### 2", "### 3 title"]


@each_row("document", ["", "words\n", "## Direct\n", "### Directives\n", "Directives\n==========\n"])
def test_a_missing_section_is_told_and_can_be_put_back(document: str) -> None:
    """The error carries its name; putting back adds at the end and changes nothing else."""
    for act in (directives, lambda text: add_directive(text, "one")):
        with pytest.raises(CommsError, match="no section '## Directives'") as missing:
            act(document)
        assert missing.value.section == DIRECTIVES
    with pytest.raises(CommsError, match="no section '## Reports'"):
        add_report(document, "title", "text", AT)
    assert texts(add_directive(with_sections(document), "one")) == ["one"]


def test_sections_that_are_put_back_have_room_around_them() -> None:
    """Also after a last line without its newline, and with the line ends of the page."""
    assert with_sections("") == "## Directives\n\n## Reports\n"
    assert with_sections("words") == "words\n\n## Directives\n\n## Reports\n"
    assert with_sections("words\r\n") == "words\r\n\r\n## Directives\r\n\r\n## Reports\r\n"
    assert with_sections("\n## Reports\n\n") == "\n## Reports\n\n\n## Directives\n"


def test_a_directive_is_known_by_its_words() -> None:
    """Eight hex digits of their sha256: box, mark and place do not matter, each word does."""
    (one,) = directives(page("- [ ] do this\n  well"))
    (other,) = directives("## Directives\n3. [x] do this\n   well\n")
    assert one.id == other.id == hashlib.sha256(b"do this\nwell").hexdigest()[:8]
    assert (one.done, other.done) == (False, True)
    assert one.line == page("").split("\n").index("## Directives") + 2
    assert directives(page("do this badly"))[0].id != one.id


@each_row(
    "held, open_now",
    [
        ("- [ ] one\n- [x] one", []),
        ("- [ ] one\n- [ ] two\n- [x] one", ["two"]),
        ("- [ ] one\n- ~~one~~", ["one"]),
        ("- [x] one\n- [ ] one", ["one"]),
        ("- [ ] one\n- [ ] one", ["one", "one"]),
        ("- [ ] one\n- [x] one\n- [ ] one", ["one"]),
        ("- [x] one\n- [ ] one\n- [x] one", []),
        ("- [ ] approve 0123456701234567\n- [x] approve 0123456701234567", ["approve 0123456701234567"]),
        ("- [ ] approve the plan\n- [x] approve the plan", []),
    ],
)
def test_an_open_copy_above_a_ticked_one_is_done_and_one_below_is_asked_again(held: str, open_now: list[str]) -> None:
    """A union merge leaves the open line above the ticked one; who asks again writes below."""
    assert texts(page(held)) == open_now


@each_row(
    "held, ticked",
    [
        ("- [ ] one", "- [x] one"),
        ("- one", "- [x] one"),
        ("  *   one", "  *   [x] one"),
        ("12) [ ]   one", "12) [x]   one"),
        ("one", "- [x] one"),
        ("one\nmore", "- [x] one\nmore"),
        ("   one\n  more", "- [x]    one\n  more"),
        ("- [ ]\n  one", "- [x]\n  one"),
        ("-\n  one", "- [x] \n  one"),
        ("-\tone", "-\t[x] one"),
        ("[ ] one", "- [x] [ ] one"),
        ("```\ncode\n\n- one\n```", "- [x]\n```\ncode\n\n- one\n```"),
        ("- [ ] one\u2028two\x0bthree\x0cfour\x1cfive\x85six", "- [x] one\u2028two\x0bthree\x0cfour\x1cfive\x85six"),
    ],
)
def test_a_tick_is_written_where_the_box_is_or_would_be(held: str, ticked: str) -> None:
    """Every other byte stays, also with the line ends of Windows; then it is done and still has its words."""
    for document in (page(held), page(held).replace("\n", "\r\n"), f"## Directives\n{held}"):
        (item,) = directives(document)
        new = tick(document, (item.id,))
        newline = "\r\n" if "\r" in document else "\n"
        assert new == document.replace(held.replace("\n", newline), ticked.replace("\n", newline))
        assert [(after.text, after.done) for after in directives(new)] == [(item.text, True)]


@each_row("text", ["", " \n\t\r\n", "\u2028"])
def test_an_empty_directive_is_refused(text: str) -> None:
    """There would be nothing to do."""
    with pytest.raises(ValueError, match="the directive is empty"):
        add_directive(page(""), text)


def test_an_arrow_does_not_close_a_comment_that_somebody_left_open() -> None:
    """What stands between would be hidden; where nothing is open, arrows stay as they are."""
    assert texts(add_directive(page("<!-- a\n- one"), "b --> c")) == ["<!-- a", "one", r"b --\> c"]
    assert texts(add_directive(page("<!-- a -->\n- one"), "b --> c")) == ["one", "b --> c"]


@each_row(
    "document, new",
    [
        ("## Directives\n## Reports", "## Directives\n## Reports\n\n### AT t\n\nx\n"),
        ("## Directives\n## Reports\n", "## Directives\n## Reports\n\n### AT t\n\nx\n"),
        ("## Reports\n## Directives\n", "## Reports\n\n### AT t\n\nx\n\n## Directives\n"),
        ("## Reports\nold", "## Reports\nold\n\n### AT t\n\nx\n"),
        ("## Reports\nold\n\n\n", "## Reports\nold\n\n### AT t\n\nx\n\n\n"),
        ("## Reports\r\nold", "## Reports\r\nold\r\n\r\n### AT t\r\n\r\nx\r\n"),
        ("## Reports\r\nold\r\n \r\n", "## Reports\r\nold\r\n\r\n### AT t\r\n\r\nx\r\n \r\n"),
        ("## Reports\nold\u2028\x0cold \t\n", "## Reports\nold\u2028\x0cold \t\n\n### AT t\n\nx\n"),
    ],
)
def test_where_lines_end_is_the_page_s_own_business(document: str, new: str) -> None:
    """With and without a last newline, of either kind, with spaces and other line ends within: all bytes stay."""
    assert add_report(document, "t", "x", "AT") == new


@each_row(
    "text, written",
    [
        ("## Directives\n- [ ] mine", "\\## Directives\n- [ ] mine"),
        ("# Directives", "\\# Directives"),
        ("Directives\n===\nReports\n -- \n- x", "Directives\n\\===\nReports\n \\--\n- x"),
        ("<h2>Reports</h2> <H1 x> <hr>", "\\<h2>Reports\\</h2> \\<H1 x> <hr>"),
        ("   ### x\n    # code\n\t# code", "\\### x\n    # code\n\t# code"),
        ("a\u2028## Directives\x0b## Reports\r## x\r\n## y", "a\n\\## Directives\n\\## Reports\n\\## x\n\\## y"),
        ("a <!-- b\n<!--", "a <\\!-- b\n<\\!--"),
        ("\\<!-- a", "\\<\\!-- a"),
        ("-->", "-->"),
        ("a\n```\nb", "a\n```\nb\n```"),
        ("~~~~ sh\n~~~\n```", "~~~~ sh\n~~~\n```\n~~~~"),
        ("- a\n  ```\n  b", "- a\n```\n  b\n```"),
        ("```\na\n```\nb", "```\na\n```\nb"),
        ("```a`", "```a`"),
        ("\x1b[31mred\x07\0\x7f\x9b", "\ufffd[31mred\ufffd\ufffd\ufffd\ufffd"),
        ("\ud800 \udcff", "? ?"),
    ],
)
def test_a_report_cannot_speak_for_others(text: str, written: str) -> None:
    """No section, no directive, no comment or code that swallows what follows, no command to a terminal."""
    document = page("- [ ] one")
    new = add_report(document, "title", text, AT)
    assert reports(new) == [f"### {AT} title\n\n{written}"]
    assert directives(new) == directives(document)
    later = add_directive(add_report(new, "next", "x", AT), "two")
    assert reports(later)[1:] == [f"### {AT} next\n\nx"]
    assert texts(later) == ["one", "two"]


def test_a_title_is_one_line_and_says_nothing_else() -> None:
    """Also a title is made of the model's words."""
    title = "done: a\n## Directives\n- [ ] b <!-- \x1b[1m\ud800"
    new = add_report(page(""), title, "", AT)
    assert reports(new) == [f"### {AT} done: a ## Directives - [ ] b <\\!-- \ufffd[1m?"]
    assert reports(new) == [report_heading(title, AT)]
    assert directives(new) == []


def test_reports_are_told_apart_by_their_headings() -> None:
    """What stands before the first is none; smaller headings belong to the one above."""
    document = "## Reports\n\nwords\n\n### a\n#### b\n\n### c\n### d\n### \n## Notes\n### e\n"
    assert reports(document) == ["### a\n#### b", "### c", "### d", "###"]
    assert reports("## Reports\n") == []
