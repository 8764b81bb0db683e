"""Titles of reports, in one place because tools match them: `minifram review` finds the verdict on a branch by these
words and the commit in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from infra.shared.text import cut


def version(branch: str, commit: str) -> str:
    """`branch@0123456789ab`: a branch at a commit, the form that reports use."""
    return f"{branch}@{commit[:12]}"


def done(branch: str, commit: str, directive: str) -> str:
    return f"{version(branch, commit)} done: {first_line(directive)}"


def stopped(branch: str, commit: str, directive: str, why: str) -> str:
    """A run that the model did not end itself; its directive stays open."""
    return f"{version(branch, commit)} stopped ({why}): {first_line(directive)}"


def validated(branch: str, commit: str, evidence: str) -> str:
    return f"{version(branch, commit)} validated: {evidence}"


def not_validated(branch: str, commit: str, why: str) -> str:
    return f"{version(branch, commit)} not validated: {why}"


def merged(branch: str, commit: str, into: str) -> str:
    return f"{version(branch, commit)} merged into main as {into[:12]}"


def verdict_against(reports: Sequence[str], branch: str, commit: str) -> str | None:
    """The heading of the newest report of a failure of exactly this commit; None when there is none."""
    name = version(branch, commit)
    for report in reversed(reports):
        heading = report.partition("\n")[0]
        if f" {name} not validated: " in heading or (f" watcher: {branch} failed" in heading and name in report):
            return heading.removeprefix("### ")
    return None


def kind_of(title: str) -> str:
    """A watcher's title without the name in it that the agent chose."""
    return _CHOSEN.sub("…", title)


_CHOSEN = re.compile(
    r"(?<=watcher: )\S+(?= failed, main is active| hopped too often| leads nowhere)"
    r"|(?<=watcher: rollback to )\S+(?= failed)"
)


def watcher(text: str) -> str:
    return f"watcher: {text}"


def about(ids: Sequence[str]) -> str:
    """The first line of a report that ends a run, by which `minifram tell --wait` finds it: a long report is cut behind
    it, and the keep's record stands below."""
    return f"Directive: {', '.join(ids)}"


def is_about(report: str, id: str) -> bool:
    """Whether the report ends a run on this directive."""
    first = next((line for line in report.split("\n")[1:] if line.strip()), "")
    mark, _, ids = first.rstrip().partition(": ")
    return mark == "Directive" and id in ids.split(", ")


def first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return cut(line, 100)
