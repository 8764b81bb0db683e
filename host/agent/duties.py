"""The standing duties of an agent's mind as the PM sees them: when each was done last, when it is due next."""

from __future__ import annotations

from typing import NamedTuple

from host.errors import CommandError
from infra.shared.exit_codes import Exit
from infra.shared.mind.duties import DUTIES, MOST_BYTES, STATE, UnreadableState, due, next_due, state_of
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.tip import read_file

MIND = "refs/heads/mind"


class DutyShown(NamedTuple):
    name: str
    words: str
    """What it is."""
    period: str
    """The last one that it was done for; empty when it was never done."""
    at: str
    result: str
    next: str
    """When it is due; `now` when it is."""
    failed: str
    """Why it failed last, if it was not done since."""


def read_duties(git: Git, now: float) -> tuple[DutyShown, ...]:
    """None for an agent without a mind. Raises CommandError for a state that cannot be read, GitError."""
    mind = resolve_commit(git, MIND)
    if mind is None:
        return ()
    text = read_file(git.saying_at_most(MOST_BYTES), mind, STATE)
    try:
        state = state_of((text or "{}").encode(errors="surrogateescape"))
    except UnreadableState as error:
        raise CommandError(Exit.FAILURE, f"branch mind: {error}") from None
    waiting = {each.duty.name for each in due(state.done, now)}
    return tuple(
        DutyShown(
            duty.name,
            duty.words,
            record.done[-1] if record.done else "",
            record.at,
            record.words,
            "now" if duty.name in waiting else next_due(duty, now),
            record.why,
        )
        for duty in DUTIES
        for record in (state.record(duty.name),)
    )
