"""The next version of the page and of its archive: reports added, directives ticked, what is too much moved. Pure.

The page stands in every prompt of the agent, so it stays short by itself: a report's words are bounded, and the oldest
reports move to the archive when there are too many of them, or too many bytes. What the PM writes is never moved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from infra.shared import comms
from infra.shared.paths import ARCHIVE, PAGE

REPORT_CHARS, REPORT_LINES = 1500, 30
"""The words of a report on the page; the whole of longer ones stands in the archive."""
ARCHIVE_BYTES = 128 << 10
"""Beyond that the oldest entries leave the file; git keeps them."""
ARCHIVE_HEAD = f"""\
# Reports that the keep moved out of {PAGE}, oldest first

Entries that have left this file as well are in git: git log -p -- {ARCHIVE}
"""


class ReportEntry(NamedTuple):
    """A report as it is to stand on the page."""

    at: str
    title: str
    text: str
    record: str = ""
    """What the keep knows itself of the work; stands under the words, under a heading that words cannot make."""


class PageBounds(NamedTuple):
    """How much COMMS.md holds: it is part of every prompt. Older reports move to COMMS-ARCHIVE.md."""

    keep_reports: int = 12
    page_bytes: int = 24 * 1024


USUAL = PageBounds()


class Pages(NamedTuple):
    page: str
    archive: str
    """Empty: there is no such file, or there shall be none."""


RECORD = "#### Recorded by the keep"


def next_pages(now: Pages, entries: Sequence[ReportEntry], ticks: tuple[str, ...], bounds: PageBounds) -> Pages:
    """Both documents with these reports at the end and these directives done. A report that stands on either already,
    by its heading, is not added again."""
    page, archive = comms.with_sections(now.page), now.archive
    known = {_heading(report) for report in (*comms.reports(page), *archived(archive))}
    for entry in entries:
        if comms.report_heading(entry.title, entry.at) in known:
            continue
        words = cut(entry.text)
        if words is not None:
            archive = _archived(archive, [_whole(entry)])
            words = f"{words}\n\n[…] The whole report is in {ARCHIVE}, under the same heading."
        page = comms.add_report(page, entry.title, entry.text if words is None else words, entry.at, _under(entry))
    page, moved = _within(comms.tick(page, ticks), bounds)
    if moved:
        there = {_heading(entry) for entry in archived(archive)}
        archive = _archived(archive, [report for report in moved if _heading(report) not in there])
    return Pages(page, archive)


def cut(text: str) -> str | None:
    """The beginning of a text that is too long for the page, up to the end of a line, or else of a word; None for one
    that is not."""
    lines = text.strip().splitlines()
    if len(text.strip()) <= REPORT_CHARS and len(lines) <= REPORT_LINES:
        return None
    kept, room = list[str](), REPORT_CHARS
    for line in lines[:REPORT_LINES]:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    if any(line.strip() for line in kept):
        return "\n".join(kept).rstrip()
    first = text.strip()[:REPORT_CHARS]
    return first[: first.rfind(" ")] if " " in first[REPORT_CHARS // 2 :] else first


def _under(entry: ReportEntry) -> str:
    return f"{RECORD}\n\n{entry.record}" if entry.record else ""


def _whole(entry: ReportEntry) -> str:
    alone = comms.add_report(comms.with_sections(""), entry.title, entry.text, entry.at, _under(entry))
    return comms.reports(alone)[0]


def _within(page: str, bounds: PageBounds) -> tuple[str, list[str]]:
    """The page without its oldest reports when there are too many, and those. The newest stays, however long."""
    moved: list[str] = []
    found = comms.report_spans(page)
    size = len(page.encode(errors="surrogateescape"))
    lines = page.split("\n")
    sizes = [sum(len(line.encode(errors="surrogateescape")) + 1 for line in lines[first:last]) for first, last in found]
    count = 0
    while count < len(found) - 1 and (len(found) - count > bounds.keep_reports or size > bounds.page_bytes):
        size -= sizes[count]
        count += 1
    for first, last in reversed(found[:count]):
        moved.insert(0, "\n".join(lines[first:last]).replace("\r", "").strip("\n").rstrip())
        del lines[first:last]
    return "\n".join(lines), moved


def _archived(archive: str, new: Sequence[str]) -> str:
    """The archive with these at its end, within its size. The watcher's entries and the agent's give way to each other
    only while they are more: nobody can push the other's out by saying much."""
    entries = [*archived(archive), *new]
    sizes = [len(entry.encode(errors="surrogateescape")) + 2 for entry in entries]
    shares = {False: 0, True: 0}
    for entry, size in zip(entries, sizes, strict=True):
        shares[_is_watchers(entry)] += size
    gone: set[int] = set()
    at = {False: 0, True: 0}
    while sum(shares.values()) > ARCHIVE_BYTES - len(ARCHIVE_HEAD) and len(gone) < len(entries) - 1:
        whose = shares[True] > shares[False]
        while _is_watchers(entries[at[whose]]) is not whose:
            at[whose] += 1
        gone.add(at[whose])
        shares[whose] -= sizes[at[whose]]
        at[whose] += 1
    kept = [entry for index, entry in enumerate(entries) if index not in gone]
    return "\n".join([ARCHIVE_HEAD, *(f"{entry}\n" for entry in kept)])


def archived(archive: str) -> list[str]:
    """Each report of the archive, heading first, oldest first."""
    parts = re.split(r"^(?=### )", archive, flags=re.MULTILINE)
    return [part.rstrip() for part in parts if part.startswith("### ")]


def _heading(report: str) -> str:
    return report.partition("\n")[0]


def _is_watchers(entry: str) -> bool:
    """Exact, because the keep wrote the heading: behind the time stands `watcher:`, or a branch and its commit."""
    words = _heading(entry).split(" ", 3)
    return len(words) > 2 and words[2] == "watcher:"
