"""`minifram status`: one agent on a screen or, from the same values, a line for each of the user's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

import click

from host.cli import command
from host.errors import CommandError
from host.home import Context, known_agents
from host.running import version_words
from host.screen import Say, Shown, bad, counted, one_line, since
from host.status import Status, lines_of, read_status
from infra.shared.exit_codes import Exit


class Unread(NamedTuple):
    """An agent of which nothing can be told."""

    agent: str
    error: str


@command
@click.option("--all", "every", is_flag=True, help="A line for each agent of this user, whatever --agent says.")
def status(context: Context, say: Say, every: bool) -> Shown:
    """The state of an agent, on one screen. Exits with 3 when it is not running, and still prints it.

    With --all: version, state, money today and what waits, of each agent. Exits with 1 when one cannot be read, with 3
    when one is not running.
    """
    now = time.time()
    if every:
        return _all(context, now)
    found = read_status(context.initialised(), now)
    return Shown(found, lines_of(found, now), code=Exit.OK if found.running else Exit.NOT_RUNNING)


def _all(context: Context, now: float) -> Shown:
    found = list[Status | Unread]()
    for name in known_agents(context.environ):
        try:
            found.append(read_status(context._replace(agent=name).home, now))
        except (CommandError, OSError) as error:  # it hides no other
            found.append(Unread(name, str(error)))
    read = [each for each in found if isinstance(each, Status)]
    code = Exit.OK if all(each.running for each in read) else Exit.NOT_RUNNING
    return Shown(
        {"agents": found},
        _rows(found, now) if found else "there is no agent yet: 'minifram init' makes one",
        code=code if len(read) == len(found) else Exit.FAILURE,
        schema="status-all",
    )


def _rows(found: Iterable[Status | Unread], now: float) -> Iterator[str]:
    """The last column is what the PM may have to do."""
    rows = [_row(each, now) if isinstance(each, Status) else (each.agent, "cannot be read") for each in found]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for each, row in zip(found, rows, strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        waits = ", ".join(_waits(each)) if isinstance(each, Status) else one_line(each.error, 200)
        yield f"{cells}  {bad(waits)}".rstrip() if waits else cells.rstrip()


def _row(found: Status, now: float) -> tuple[str, ...]:
    age = since(found.since, now)
    state = f"{found.phase} for {age}" if age else found.phase
    state += f", {one_line(found.life.doing, 20)}" if found.life else ""
    version = one_line(version_words(found.branch, found.commit, found.level), 60) if found.branch else "never started"
    money = f"${found.budget.usd:.2f} of ${found.budget.daily_usd:.2f}" if found.budget else "unknown"
    return found.agent, state, version, money


def _waits(found: Status) -> Iterator[str]:
    reviews, approvals = len(found.awaiting_review or ()), len(found.awaiting_approval)
    yield from (counted(number, what) for number, what in ((approvals, "approval"), (reviews, "review")) if number)
    if found.open_directives:
        yield f"{counted(found.open_directives, 'directive')} open"
    if found.awaiting_review is None:
        yield "reviews cannot be read"
    if found.pins:
        yield f"{counted(len(found.pins), 'version')} pinned"
    if found.life and found.life.waits:
        yield one_line(found.life.waits, 80)
