"""What holds for every COMMS.md that anybody may write: nothing is lost, nothing else is changed."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infra.shared.comms import (
    Directive,
    add_directive,
    add_report,
    directives,
    report_heading,
    reports,
    tick,
    with_sections,
)

AT = "2026-01-31T10:42:12.345Z"
LINES = st.one_of(
    st.sampled_from(
        """## Directives|## Reports|## Notes|# COMMS|# Directives|### Title|## directives ##|##|#
- [ ] one|- [x] one|- [X] two|- two|* [ ] three|+ four|1. five|2) [ ] six|- [ ]|- [x]|-|- |- [y] seven|-[ ] eight
 - [ ] nine| - [x] one|  - nested|    deep|\tTabbed|  continued|words|more words|~~gone~~|- ~~gone~~|~~a~~ and ~~b~~
<!--|<!-- note -->|-->|<!-- open|closed -->|words -->|<!-- a --> words|  <!--|  -->|<!---->
```|````|~~~|```sh|  ```|- ```|``` `|---|***|* * *|___|===|  ---
[ ] box|[x] box|> quote|| table | row||[^1]: note|<b>|1984. words|- - -|-\u00a0[ ] space""".replace("\n", "|").split(
            "|"
        )
    ),
    st.text(st.sampled_from("-*#`~<!> [x]a1.|\t\x0b\x0c\x1c\x85\u2028\u2029\u00a0\udcff\0é"), max_size=8),
)


def documents(newlines: str = "\n|\n|\r\n", whole: bool = True) -> st.SearchStrategy[str]:
    """Pages of such lines; whole ones have both sections."""
    parts = st.tuples(st.lists(LINES, max_size=12), st.sampled_from(newlines.split("|")), st.integers(0, 2))
    joined = parts.map(lambda part: part[1].join(part[0]) + part[1] * part[2])
    return joined.map(with_sections) if whole else joined


TEXTS = st.one_of(
    st.lists(LINES, min_size=1, max_size=5).map("\n".join), st.text(st.characters(codec=None), max_size=8)
)


def gist(found: list[Directive]) -> list[tuple[str, str, bool]]:
    return [(item.id, item.text, item.done) for item in found]


def is_insertion(old: str, new: str) -> bool:
    """Whether `new` is `old` with something put in at one place."""
    at = next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return new.endswith(old[at:]) and len(new) >= len(old)


def plain(text: str) -> list[str]:
    """The words of a text as the page takes them over."""
    text = text.encode(errors="replace").decode().strip()
    return [re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", line).rstrip() for line in text.splitlines()]


@given(documents(), TEXTS, TEXTS)
def test_a_report_is_added_and_nothing_else_changes(document: str, title: str, text: str) -> None:
    """Every byte stays in its order, every directive as it is, and there is one more report, at the end."""
    new = add_report(document, title, text, AT)
    assert is_insertion(document, new)
    assert gist(directives(new)) == gist(directives(document))
    *before, last = reports(new)
    assert before == reports(document)
    assert last.split("\n")[0] == report_heading(title, AT)
    body = last.split("\n")[2:]
    for line, written in zip(plain(text), body, strict=False):
        escaped = line.replace("<!--", r"<\!--")
        flush = re.sub("^ {1,3}(?=```|~~~)", "", escaped)
        assert written in (escaped, flush, re.sub("^( *)(?=[#=-])", r"\1\\", escaped))
    assert len(body) - len(plain(text)) in (0, 1)  # one more if a fence was left open
    new.encode(errors="surrogateescape")


@given(documents(), TEXTS)
def test_a_directive_is_added_and_nothing_else_changes(document: str, text: str) -> None:
    """Every byte stays in its order, and there is one more open directive, at the end, with these words."""
    words = "\n".join(plain(text))
    assume(words)
    new = add_directive(document, text)
    assert is_insertion(document, new)
    assert reports(new) == reports(document)
    found, before = gist(directives(new)), gist(directives(document))
    if len(found) == len(before):  # nothing but a comment is nobody's directive
        assert words.startswith("<!--")
        assert words.endswith("-->")
        return
    assert found[:-1] == before
    assert found[-1][1] in (words, words.replace("-->", r"--\>"))
    assert found[-1][2] == (words.startswith("~~") and re.sub(r"(?s)~~.+?~~", "", words).strip() == "")


@given(documents(), st.data())
def test_ticking_changes_boxes_only(document: str, data: st.DataObject) -> None:
    """The asked ones are done, all others stay as they were, and no other byte is touched."""
    before = directives(document)
    ids = tuple(data.draw(st.sets(st.sampled_from([item.id for item in before] or ["none"]))))
    new = tick(document, ids)
    expected = [(item.id, item.text, item.done or item.id in ids) for item in before]
    assert gist(directives(new)) == expected
    assert tick(new, ids) == new
    assert reports(new) == reports(document)
    assert tick(document, ("0", "")) == document
    # The old characters in their order, boxes aside, and at most a list mark with its box for each that was ticked.
    rest = iter(re.sub(r"\[[ xX]\]", "[]", new))
    assert all(character in rest for character in re.sub(r"\[[ xX]\]", "[]", document))
    assert len(new) - len(document) <= len("- [x]\r\n") * sum(item.id in ids for item in before)


@given(documents(newlines="\n"))
def test_a_page_without_line_ends_of_windows_reads_the_same(document: str) -> None:
    """CRLF and LF make no difference to what is meant."""
    assume("\r" not in document)
    windows = document.replace("\n", "\r\n")
    assert gist(directives(windows)) == gist(directives(document))
    assert reports(windows) == reports(document)


SHAPES = [
    "- [ ] do this\n\n",
    "- [ ] ~~a\n",
    "- [ ] <!-- a\n",
    "<!--\n",
    "<!--",
    "```\n",
    "`" * 300 + "x`\n",
    "".join("`" * length + "\n" for length in range(280, 3, -1)),
    "## " + " " * 10_000 + "x\n",
]


@pytest.mark.timeout(30)  # as it is they take a tenth of a second
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: ascii(shape[:12]))
def test_a_long_page_takes_no_longer_than_its_length(shape: str) -> None:
    """No shape makes reading more than linear: with any, one of these pages would outlast the test's time limit."""
    lines = shape * (40_000 // len(shape))
    document = f"## Directives\n\n{lines}\n\n## Reports\n\n{lines}\n"
    directives(document)
    assert len(add_directive(document, "more -->")) > len(document)
    assert len(add_report(document, "title", lines, AT)) > len(document)
    assert reports(tick(document, ("none",))) == reports(document)
