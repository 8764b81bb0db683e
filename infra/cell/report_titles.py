"""What a report says of directives."""

from __future__ import annotations

from collections.abc import Sequence


def about(ids: Sequence[str]) -> str:
    """The first line of a report that ends a run, by which `minifram tell --wait` finds it: a long report is cut behind
    it, and the keep's record stands below."""
    return f"Directive: {', '.join(ids)}"


def is_about(report: str, id: str) -> bool:
    """Whether the report ends a run on this directive."""
    first = next((line for line in report.split("\n")[1:] if line.strip()), "")
    mark, _, ids = first.rstrip().partition(": ")
    return mark == "Directive" and id in ids.split(", ")
