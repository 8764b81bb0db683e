"""What a report says of a version and of directives."""

from __future__ import annotations

from collections.abc import Sequence

from infra.shared.branches import version


def verdict_against(reports: Sequence[str], branch: str, commit: str) -> str | None:
    """The heading of the newest report of a failure of exactly this commit; None when there is none."""
    name = version(branch, commit)
    for report in reversed(reports):
        heading = report.partition("\n")[0]
        if f" {name} not validated: " in heading or (f" watcher: {branch} failed" in heading and name in report):
            return heading.removeprefix("### ")
    return None


def about(ids: Sequence[str]) -> str:
    """The first line of a report that ends a run, by which `minifram tell --wait` finds it: a long report is cut behind
    it, and the keep's record stands below."""
    return f"Directive: {', '.join(ids)}"


def is_about(report: str, id: str) -> bool:
    """Whether the report ends a run on this directive."""
    first = next((line for line in report.split("\n")[1:] if line.strip()), "")
    mark, _, ids = first.rstrip().partition(": ")
    return mark == "Directive" and id in ids.split(", ")
