"""The PM's half of COMMS.md: adding directives, reading reports, waiting for an answer.

A directive is a commit on main like any push of the PM's; it survives every race with the agent's own pushes."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from host.errors import CommandError, usage
from host.repository.open import GIT_SECONDS
from host.repository.review import main_commit, page_at
from infra.shared import comms, report_titles
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import Git
from infra.shared.repository.page_text import PAGE
from infra.shared.repository.tip import BareTip, advance, edit_file

POLL_SECONDS = 0.25
MAX_BYTES = 1 << 20
"""Of a directive: it is read by a model, with the rest of the page, in each run."""


class Directive(NamedTuple):
    """A directive that stands in COMMS.md."""

    commit: str
    id: str
    text: str
    sections_put_back: bool
    """True when COMMS.md lacked a section, which this commit added."""


class Report(NamedTuple):
    time: str
    title: str
    text: str
    """The whole report, heading first."""


class AlreadyTold(CommandError):
    """The same words stand there as an open directive."""

    def __init__(self, id: str) -> None:
        super().__init__(Exit.CONFLICT, f"the same words are already an open directive ({id}); nothing was added")


def add_directive(git: Git, text: str) -> Directive:
    """Add an open directive to main's COMMS.md. Raises CommandError for words that cannot be one, or already are."""
    if "\0" in text:
        raise usage("the directive holds a zero byte; give plain text")
    if len(text) > MAX_BYTES:
        raise usage(f"the directive is over {MAX_BYTES:,} bytes; put the rest into a file and push that")
    if not text.strip():
        raise usage("the directive is empty; say what the agent should do")
    main_commit(git)
    put_back, added = False, ""

    def edit(document: str) -> str:
        nonlocal put_back, added
        whole = comms.with_sections(document)
        put_back = whole != document
        before = Counter(item.id for item in comms.open_directives(whole))
        new = comms.add_directive(whole, text)
        more = Counter(item.id for item in comms.open_directives(new)) - before
        if more.total() != 1:
            raise usage(
                "these words would not read back as one open directive: to COMMS.md, '~~…~~' is a directive that is "
                "done, and '<!-- … -->' a comment; say it in other words"
            )
        (added,) = more
        if added in before:  # the two would be done as one
            raise AlreadyTold(added)
        return new

    commit = advance(BareTip(git), edit_file(git, PAGE, edit, f"directive: {report_titles.first_line(text)}"))
    return Directive(commit, added, text.strip(), put_back)


def reports(git: Git, commit: str = "") -> list[Report]:
    """All reports on main, oldest first. Raises CommsError when COMMS.md has no Reports section."""
    return [_report(text) for text in comms.reports(page_at(git, commit or main_commit(git)))]


def new_reports(git: Git, seen: list[Report], pause: Callable[[], bool]) -> Iterator[Report]:
    """Reports as they come, beside those `seen`; between two looks `pause` says whether to continue."""
    known, looked_at = set(seen), ""
    while True:
        look = git.afresh(GIT_SECONDS)
        main = main_commit(look)
        found: list[Report] = []
        if main != looked_at:
            looked_at = main
            with contextlib.suppress(comms.CommsError):  # somebody is between two edits of the page
                found = [report for report in reports(look, main) if report not in known]
        known.update(found)
        yield from found
        if not pause():
            return


def is_open(git: Git, directive: Directive) -> bool:
    """Whether the directive still awaits the agent: neither ticked nor struck nor taken off the page."""
    look = git.afresh(GIT_SECONDS)
    page = page_at(look, main_commit(look))
    try:
        return directive.id in {item.id for item in comms.open_directives(page)}
    except comms.CommsError:
        return False


def is_about(report: Report, directive: Directive) -> bool:
    """Whether the agent's report ends a run on this directive."""
    heading = comms.report_heading(f"done: {report_titles.first_line(directive.text)}", "-")
    return report.title.endswith(heading.removeprefix("### - "))


def directive_text(words: str, read_stdin: Callable[[], bytes]) -> str:
    """The directive that was given on the command line; `-` reads it from standard input."""
    return os.fsdecode(read_stdin()) if words == "-" else words


def _report(text: str) -> Report:
    moment, _, title = text.split("\n", 1)[0].removeprefix("### ").partition(" ")
    return Report(moment, title, text)
