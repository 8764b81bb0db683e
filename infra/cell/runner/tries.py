"""How often work that does not end is begun again: three times, at growing distances, and then the PM's word is waited
for. Pure, but for `stops_since_word`.

The count is main's history: each report is a commit of the keep's there, so neither a runner's death nor the agent
resets it."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from infra.cell.run_states import StopReason, stop_reason_of
from infra.cell.state import UnsentReport
from infra.shared.people import LOOKED_BACK, is_the_pms
from infra.shared.repository.git import Git, GitError

MOST_TRIES = 3
DISTANCES_TICKS = (1, 6)
"""Between two tries: ten minutes and an hour, when the clock ticks every ten minutes."""
WAITS = (
    "The agent does not begin again by itself: it waits for your word, a new or changed directive ('minifram tell') or "
    "any other push of yours to main."
)
COUNTED = frozenset(
    (
        *(StopReason.MAX_STEPS, StopReason.MAX_WALL_TIME, StopReason.MAX_TOKENS, StopReason.MAX_FAILURES),
        *(StopReason.REFUSAL, StopReason.INVALID_REPLIES, StopReason.NO_OP_LOOP),
        StopReason.POLICY_DENIED,
    )
)
"""Reasons after which the same again may come to the same again, for the same money."""
_STOPPED = re.compile(r"\S+@[0-9a-f]+ stopped \(([^),]*)(?:, try \d+ of \d+)?\): (?:Task ([A-Z]+-[0-9]+): )?")
"""With the task that the run was for, if it was for one."""


class Stops(NamedTuple):
    """Runs that were stopped since the PM's last word; 0 after one that ran when it came."""

    runs: int = 0
    last_at: float = 0.0
    """Wall time of the newest."""
    why: str = ""
    """And its reason."""


def next_try_at(stops: Stops, tick_seconds: float) -> float | None:
    """Wall time of the next try; 0 for at once, None when only the PM's word begins one."""
    if stops.runs == 0:
        return 0.0
    if stops.runs >= MOST_TRIES:
        return None
    return stops.last_at + DISTANCES_TICKS[stops.runs - 1] * tick_seconds


def may_begin(stops: Stops, tick_seconds: float, wall_now: float) -> bool:
    """A clock that was set back makes nobody wait longer than it would have from now on: the count still holds."""
    at = next_try_at(stops, tick_seconds)
    return at is not None and not stops.last_at <= wall_now < at


def stops_in(titles: Iterable[tuple[str, float]], task: str = "") -> Stops:
    """What titles of reports, newest first and with their times, tell of; of runs for this task, or for directives."""
    matches = ((_STOPPED.match(title), at) for title, at in titles)
    stopped = [(stop_reason_of(match[1]), at) for match, at in matches if match and (match[2] or "") == task]
    found = [(reason.value, at) for reason, at in stopped if reason and reason in COUNTED]
    return Stops(len(found), found[0][1], found[0][0]) if found else Stops()


def stops_since_word(git: Git, main: str, unsent: Sequence[UnsentReport] = ()) -> Stops:
    """Those that main at `main` holds since the PM last spoke there, and `unsent` ones. Raises GitError."""
    return stops_in(_titles(git, main, unsent, until_word=True))


def stops_of_task(git: Git, main: str, task: str, unsent: Sequence[UnsentReport] = ()) -> Stops:
    """Those of runs for this task; whatever the PM said meanwhile, as it has no other id. Raises GitError."""
    return stops_in(_titles(git, main, unsent, until_word=False), task)


def _titles(git: Git, main: str, unsent: Sequence[UnsentReport], until_word: bool) -> list[tuple[str, float]]:
    titles = [(report.title, seconds_of(report.at)) for report in reversed(unsent)]
    shown = git("log", f"--max-count={LOOKED_BACK}", "--encoding=UTF-8", "--format=%ce%x00%ct%x00%s", main, "--")
    for line in shown.split("\n"):  # and nowhere else: an agent's subject may hold what Unicode calls a line end
        email, at, subject = line.split("\0")
        if not is_the_pms(email):
            titles.append((subject.removeprefix("report: "), float(at or 0)))
        elif until_word:
            break
    return titles


def seconds_of(at: str) -> float:
    """Of a `clock.timestamp`; 0 for anything else."""
    try:
        return calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0


def words_of(stops: Stops, next_at: str | float | None, task: str = "") -> str:
    """What follows, for a report; `next_at` is the time of the next try, if there is one."""
    if stops.runs == 0:
        return "You have pushed to main meanwhile, so it begins again at once."
    nth = f"This was try {stops.runs} of {MOST_TRIES}"
    if next_at is None:
        return f"{nth}. {WAITS}"
    if task:
        return f"{nth}. {task} stays open; the next one begins at {next_at}. After the last one it is given up."
    return f"{nth}. Its directives stay open; the next one begins when you push to main, or at {next_at}."


def why_of(stops: Stops) -> str:
    """For a report's title. No two since the PM's word are the same, which the keep would take for one trouble."""
    if stops.runs == 0:
        return f"{stops.why}, before your last push"  # which is no try
    return f"{stops.why}, try {stops.runs} of {MOST_TRIES}" if stops.runs > 1 else stops.why


def pm_has_moved(git: Git, before: str, now: str) -> bool:
    """Whether main at `now` has a commit of the PM's that it had not at `before`.

    The agent's and the keep's own commits, such as reports, are no news: a runner that took them for news would ask
    the model again after each report of its own, without end."""
    if before == now:
        return False
    try:
        emails = git(
            "log", f"--max-count={LOOKED_BACK}", "--encoding=UTF-8", "--format=%ce", now, f"^{before}", "--"
        ).splitlines()
    except GitError:  # what main held before is gone: only the PM can do that
        return True
    return not emails or any(map(is_the_pms, emails))
