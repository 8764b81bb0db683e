"""Reports that a runner holds as requests to the keep: the heading taken apart, what is too long cut. Pure."""

from __future__ import annotations

import re

from infra.shared.branches import problem_with_branch
from infra.shared.requests import MAX_TICKS, TEXT_CHARS, TITLE_CHARS, AgentReport
from infra.shared.secret_shapes import redacted_and_cut


def report_of(
    id: str,
    at: str,
    heading: str,
    text: str,
    ticks: tuple[str, ...],
    at_home: tuple[str, str],
    tasks: tuple[str, ...] = (),
) -> AgentReport:
    """The report that a heading `branch@commit words` stands for; one without gets the branch and commit `at_home`.

    What is longer than a request may be is cut."""
    match = _HEADING.fullmatch(heading)
    if match and not problem_with_branch(match["branch"]):
        at_home, heading = (match["branch"], match["commit"]), match["words"]
    if len(text) > TEXT_CHARS:
        text = f"{redacted_and_cut(text, TEXT_CHARS - 100)}\n\n[…] The rest is not in any report."
    return AgentReport(id, at, *at_home, redacted_and_cut(heading, TITLE_CHARS), text, ticks[:MAX_TICKS], tasks)


_HEADING = re.compile(r"(?P<branch>\S+)@(?P<commit>[0-9a-f]{7,64}) (?P<words>.*)", re.DOTALL)
