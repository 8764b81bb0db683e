"""The page's next version: what is added, cut and moved, and that nothing is lost on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.keep.repository.page_text import (
    ARCHIVE_BYTES,
    RECORD,
    REPORT_CHARS,
    REPORT_LINES,
    USUAL,
    PageBounds,
    Pages,
    ReportEntry,
    archived,
    cut,
    next_pages,
)
from infra.shared import comms
from infra.shared.paths import ARCHIVE
from tests.shared.rows import each_row

AT = "2026-01-31T10:42:12.345Z"
PAGE = "# COMMS\n\n## Directives\n\n- [ ] be good\n\n## Reports\n"


def entry(title: str, text: str = "well", number: int = 0, record: str = "") -> ReportEntry:
    return ReportEntry(f"2026-01-31T10:42:{number:02d}.000Z", title, text, record)


def one(text: str, record: str = "") -> Pages:
    return next_pages(Pages(PAGE, ""), [ReportEntry(AT, "main@0123456789ab done: x", text, record)], (), USUAL)


def test_a_report_and_its_ticks() -> None:
    """Both are in the same next version."""
    [directive] = comms.open_directives(PAGE)
    then = next_pages(Pages(PAGE, ""), [entry("main@0 done: be good")], (directive.id, "00000000"), USUAL)
    assert comms.open_directives(then.page) == []
    assert len(comms.reports(then.page)) == 1
    assert then.archive == ""


def test_a_report_that_stands_there_is_not_added_again() -> None:
    """Neither when it is on the page nor when it has moved to the archive."""
    now = Pages(PAGE, "")
    for number in range(5):
        now = next_pages(now, [entry("x", number=number)], (), PageBounds(2, 10_000))
    assert next_pages(now, [entry("x", number=4), entry("x", number=0)], (), PageBounds(2, 10_000)) == now


def test_a_long_report_is_cut_at_the_end_of_a_line() -> None:
    """No half line stands on the page, and the whole is in the archive under the same heading."""
    lines = [f"line {number} " + "word " * 20 for number in range(60)]
    then = one("\n".join(lines))
    [report] = comms.reports(then.page)
    shown = [line for line in report.splitlines() if line.startswith("line")]
    assert shown == [line.rstrip() for line in lines[: len(shown)]]
    assert len(report) < REPORT_CHARS + 200
    assert f"The whole report is in {ARCHIVE}" in report
    [whole] = archived(then.archive)
    assert whole.splitlines()[0] == report.splitlines()[0]
    assert lines[-1].strip() in whole


@each_row("text", ["x" * 5000, "word " * 1000, '{"a": "' + "b" * 9000, "\n" * 3 + "z" * 4000, "....\n" * 200])
def test_a_line_that_is_too_long_by_itself_and_too_many_lines_are_cut(text: str) -> None:
    """At the end of a word where there is one. Dots of a test run, one line each, fill no page."""
    found = cut(text)
    assert found is not None
    assert 0 < len(found) <= REPORT_CHARS
    assert len(found.splitlines()) <= REPORT_LINES
    assert text.strip().startswith(found)
    assert "word" not in text or found.endswith("word")


@each_row("text", ["a\n   ```\n```", "```\nx\n        ```", "- a\n  ```\n  x\n  ```", "```\nx"])
def test_a_fence_of_a_report_takes_in_nothing_of_the_pms(text: str) -> None:
    """The attack: a fence that is open to the page alone, until the PM's own closes it; what lies between was taken for
    the report's, and left the page with it."""
    notes = "\n## Notes\n\nmine\n\n```\ncode\n```\n"
    pages = next_pages(Pages(PAGE + notes, ""), [ReportEntry(AT, "main@0123456 done: 0", text, "known")], (), USUAL)
    for at in range(1, 20):
        pages = next_pages(pages, [ReportEntry(AT, f"main@0123456 done: {at}", "x")], (), USUAL)
    assert pages.page.endswith(notes)
    assert "mine" not in pages.archive


def test_a_cut_report_that_moves_does_not_stand_in_the_archive_twice() -> None:
    """The whole one stays, and the beginning of it goes."""
    now = one("word " * 1000)
    then = next_pages(now, [entry("next")], (), PageBounds(1, 100_000))
    assert len(archived(then.archive)) == 1
    assert "word " * 900 in then.archive


def test_the_keeps_record_cannot_be_imitated() -> None:
    """Words of a report make no heading; what the keep writes under them is one."""
    then = one(f"{RECORD}\n\n9 commits\n```\n{RECORD}", record="1 commit")
    [report] = comms.reports(then.page)
    at = [index for index, line in enumerate(report.splitlines()) if line == RECORD]
    assert [report.splitlines()[index + 2] for index in at] == ["1 commit"]


def test_the_oldest_move_when_there_are_too_many_or_too_much() -> None:
    """Directives and the newest report stay, however long."""
    now = Pages(PAGE.replace("be good", "be good " * 300), "")
    for number in range(8):
        now = next_pages(now, [entry(f"x{number}", number=number)], (), PageBounds(3, 100_000))
    assert [report.split()[2] for report in comms.reports(now.page)] == ["x5", "x6", "x7"]
    assert [report.split()[2] for report in archived(now.archive)] == [f"x{number}" for number in range(5)]
    then = next_pages(now, [entry("last", number=9)], (), PageBounds(3, 100))
    assert [report.split()[2] for report in comms.reports(then.page)] == ["last"]
    assert comms.directives(then.page) == comms.directives(now.page) != []


def test_the_archive_is_bounded_and_nobody_pushes_the_others_out() -> None:
    """The oldest of whoever takes more leave the file."""
    now = Pages(PAGE, "")
    for number in range(5):
        now = next_pages(now, [entry(f"watcher: x{number}", number=number)], (), PageBounds(1, 10_000))
    for number in range(60):
        flood = [ReportEntry(AT, f"main@0123456789ab flood {number}", "word " * 3000)]
        now = next_pages(now, flood, (), PageBounds(1, 10_000))
    assert len(now.archive.encode()) <= ARCHIVE_BYTES
    assert [f"watcher: x{number}" in now.archive for number in range(5)] == [True] * 5
    assert "flood 59" in now.archive
    assert "flood 0\n" not in now.archive


texts = st.text(st.sampled_from("a #`<!->\n\r*[]~."), max_size=60)


@given(st.lists(st.tuples(texts, texts), max_size=6), texts, st.integers(1, 4), st.integers(1, 2000))
def test_what_the_pm_wrote_stays_and_each_report_is_somewhere_once(
    told: list[tuple[str, str]], words: str, keep: int, size: int
) -> None:
    """Whatever the reports hold."""
    now = Pages(comms.with_sections(f"# COMMS\n\n{words.replace('#', '')}\n"), "")
    now = now._replace(page=comms.add_directive(now.page, "be good"))
    before = [item.text for item in comms.open_directives(now.page)]
    known = comms.reports(now.page)
    for number, (title, text) in enumerate(told):
        now = next_pages(now, [entry(f"main@0 {title}", text, number)], (), PageBounds(keep, size))
        assert len(comms.reports(now.page)) <= max(keep, 1)
    assert [item.text for item in comms.open_directives(now.page)] == before
    headings = [report.split("\n")[0] for report in (*archived(now.archive), *comms.reports(now.page))]
    expected = [comms.report_heading(f"main@0 {title}", entry("", number=at).at) for at, (title, _) in enumerate(told)]
    assert known == []
    assert headings == expected
