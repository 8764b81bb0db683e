"""What the agent may do to the two sections of COMMS.md: mark directives as done, put reports at the end, and take
out old ones. Pure.

Judged is how the page stands before and after a push, not how it came there: what the PM changed meanwhile stands
on both. Directives are compared line by line and once more by what they mean, since a mark elsewhere on the page
(a comment, a heading) can turn text into a directive or hide one."""

from __future__ import annotations

import re
import unicodedata

from infra.admission.decide import PAGE
from infra.contract import comms, report_titles
from infra.contract.comms import CommsError
from infra.contract.comms_lines import ITEM, Kind, blocks_of, kinds_of, lines_of, sections_of


def problem_with_page(before: str, after: str) -> str | None:
    """Why the agent may not make this page of that one, and what to do instead; None when it may."""
    return (
        _problem_with_size(before, after)
        or _problem_with_sections(before, after)
        or _problem_with_directives(before, after)
        or _problem_with_reports(before, after)
    )


def _problem_with_size(before: str, after: str) -> str | None:
    old, new = (len(text.encode(errors="surrogateescape")) for text in (before, after))
    if new <= comms.MAX_BYTES or new < old:  # one that the PM or the watcher made long may be pruned bit by bit
        return None
    return (
        f"main's {PAGE} would have {new} bytes, over the limit of {comms.MAX_BYTES}; prune it: take old reports of "
        "your own out of it, whole ones, and push again (git keeps them); the PM can take out any"
    )


def _problem_with_sections(before: str, after: str) -> str | None:
    for section in (comms.DIRECTIVES, comms.REPORTS):
        if _text(after, section) is None and _text(before, section) is not None:
            return f"the push would take the section '## {section}' out of main's {PAGE}; put it back and push again"
    return None


def _text(document: str, section: str) -> str | None:
    try:
        return comms.section_text(document, section)
    except CommsError:
        return None


# Directives: only marked as done.


def _problem_with_directives(before: str, after: str) -> str | None:
    old, new = _pieces(before), _pieces(after)
    marked = len(old) == len(new) and all(_is_marked(*one, other[0]) for one, other in zip(old, new, strict=True))
    if marked and _mean_the_same(before, after):
        return None
    return (
        f"the Directives section of main's {PAGE} is the PM's: you may tick a box there, or strike a whole directive, "
        "and change nothing else; take the section as it is on main (git fetch origin main), and push again"
    )


def _pieces(document: str) -> list[tuple[list[str], list[Kind]]]:
    """The text under each Directives heading, without blank lines around it; a heading with no text counts for none."""
    lines = lines_of(document)
    kinds = kinds_of(lines)
    found = []
    for start, end in sections_of(lines, kinds, comms.DIRECTIVES):
        while start < end and not lines[end - 1].strip():
            end -= 1
        while start < end and not lines[start].strip():
            start += 1
        if start < end:
            found.append((lines[start:end], kinds[start:end]))
    return found


def _is_marked(old: list[str], kinds: list[Kind], new: list[str]) -> bool:
    """`new` is `old`, but that some directives are marked as done."""
    seen = at = 0
    for first, last in blocks_of(old, kinds, 0, len(old)):
        between = old[seen:first]
        if new[at : at + len(between)] != between:
            return False
        at += len(between)
        forms = _forms(old[first:last], kinds[first:last])
        form = next((form for form in forms if new[at : at + len(form)] == form), None)
        if form is None:
            return False
        at += len(form)
        seen = last
    return new[at:] == old[seen:]


def _forms(block: list[str], kinds: list[Kind]) -> list[list[str]]:
    """How a directive may stand on the page afterwards: as it is, ticked, struck, or both."""
    ticked = [*comms.ticked_line(block[0]).split("\n"), *block[1:]]
    plain = [block, ticked]
    if Kind.FENCED in kinds or any("~~" in line for line in block):
        return plain
    words = max(at for at, kind in enumerate(kinds) if kind is Kind.TEXT and block[at].strip())
    return [*plain, *(_struck(form, words) for form in plain)]


def _struck(block: list[str], last: int) -> list[str]:
    item = ITEM.match(block[0])
    start = item.start("text") if item else 0
    struck = [f"{block[0][:start]}~~{block[0][start:]}", *block[1:]]
    struck[last] = f"{struck[last].rstrip()}~~"
    return struck


def _mean_the_same(before: str, after: str) -> bool:
    old, new = _meanings(before), _meanings(after)
    return len(old) == len(new) and all(
        text == now_text and done <= now_done for (text, done), (now_text, now_done) in zip(old, new, strict=True)
    )


def _meanings(document: str) -> list[tuple[str, bool]]:
    try:
        return [(text.replace("~~", ""), done) for text, done, _ in comms.wishes(document)]
    except CommsError:
        return []


# Reports: new ones at the end; whole ones of the agent's taken out.


def _problem_with_reports(before: str, after: str) -> str | None:
    (preface_before, *old), (preface, *new) = _preface_and_reports(before), _preface_and_reports(after)
    kept, gone = _kept(old, new)
    headings = {_heading(report) for report in gone}
    for report in new[kept:]:
        if _heading(report) in headings:
            return (
                f"in main's {PAGE} the report {_shown(report)} would be changed or moved, and a report stays as it was "
                "written; put it back, and add what you have to say at the end, under a heading of its own"
            )
        if _is_watchers(report):
            return f"the report {_shown(report)} in main's {PAGE} would be in the watcher's name; report in your own"
        if "<!--" in report:
            return (
                f"the report {_shown(report)} in main's {PAGE} holds '<!--', which hides what follows; write '<\\!--'"
            )
    for report in filter(_is_watchers, gone):
        return (
            f"the push would take the watcher's report {_shown(report)} out of main's {PAGE}; put it back: you may "
            "remove old reports of your own, whole ones, and the PM those of the watcher"
        )
    if preface_before != preface:
        return (
            f"in main's {PAGE} what stands above the reports would change; put it back, and add what you have to say "
            "at the end of the section, under a heading '### <time> <title>'"
        )
    return None


def _kept(old: list[str], new: list[str]) -> tuple[int, list[str]]:
    """How many reports at the beginning of `new` are of `old`, in its order, and which ones of `old` are not among
    those."""
    at, gone = 0, list[str]()
    for index, report in enumerate(new):
        found = at
        while found < len(old) and old[found] != report:
            found += 1
        if found == len(old):
            return index, gone + old[at:]
        gone += old[at:found]
        at = found + 1
    return len(new), gone + old[at:]


def _preface_and_reports(document: str) -> list[str]:
    """What stands in the Reports section before the first report, then each report as `comms.reports` gives it."""
    text = _text(document.replace("\r\n", "\n"), comms.REPORTS) or ""
    return [part.strip("\n").rstrip() for part in re.split(r"^(?=### )", f"\n{text}", flags=re.MULTILINE)]


def _heading(report: str) -> str:
    return report.partition("\n")[0]


_BEFORE = r"(?:\S+ |(?:[0-9TZ:.+/-]+ ){2,3})?"
"""One word, or a time in several."""
_NAME = report_titles.watcher("").strip().removesuffix(":")
_WATCHERS = re.compile(rf"### ?{_BEFORE}{_NAME} ?:", re.IGNORECASE)


def _is_watchers(report: str) -> bool:
    """Also where it only looks like one: with other blanks, characters that nobody sees, letters in another form."""
    plain = unicodedata.normalize("NFKC", _heading(report))
    seen = "".join(each for each in plain if unicodedata.category(each) != "Cf")
    return bool(_WATCHERS.match(" ".join(seen.split())))


def _shown(report: str) -> str:
    heading = _heading(report).removeprefix("###").strip()
    return repr(heading if len(heading) <= 100 else heading[:99] + "…")
