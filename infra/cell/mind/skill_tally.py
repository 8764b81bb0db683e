"""Whether a skill helps with a task that it was not written for: several trials with it and as many without, since what
a model does once says little. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from infra.cell.mind.skill_record import COMPARISON, SkillRecord, SkillTrial
from infra.shared.text import counted

WITH, TOKENS, STEPS = "with_skill", "tokens", "steps"
"""Of the facts of a trial."""


class TrialRun(NamedTuple):
    """How the held-out task went, once."""

    passed: bool
    tokens: float
    steps: float


_ENDS = (TrialRun(False, 0, 0), TrialRun(True, 0, 0), TrialRun(True, math.inf, math.inf))
"""What a trial that is still to be made can come to at most: nothing between these says more."""


class TrialTally(NamedTuple):
    """In the order in which they were made."""

    with_skill: tuple[TrialRun, ...] = ()
    without: tuple[TrialRun, ...] = ()
    places: tuple[str, ...] = ()
    """Of their events."""


def tally_of(record: SkillRecord, hash: str) -> TrialTally:
    """Of the folder as it is now."""
    trials = [each for each in record.trials if (each.kind, each.hash) == (COMPARISON, hash)]
    runs = [(each, run) for each in trials if (run := _run_of(each))]
    with_skill, without = (tuple(run for each, run in runs if each.facts[WITH] is has) for has in (True, False))
    return TrialTally(with_skill, without, tuple(each.place for each, _ in runs))


def _run_of(trial: SkillTrial) -> TrialRun | None:
    tokens, steps = trial.facts.get(TOKENS), trial.facts.get(STEPS)
    is_whole = isinstance(trial.facts.get(WITH), bool) and isinstance(tokens, int) and isinstance(steps, int)
    return TrialRun(trial.passed, tokens or 0, steps or 0) if is_whole else None


def is_next_with_skill(tally: TrialTally) -> bool:
    """They take turns, so that neither has the better day."""
    return len(tally.with_skill) < len(tally.without)


def verdict(tally: TrialTally, trials: int) -> bool | None:
    """Whether the skill helps; None as long as what is left of so many trials of each could still change it."""
    found = {
        helps(with_skill, without)
        for with_skill in _ends(tally.with_skill, trials)
        for without in _ends(tally.without, trials)
    }
    return found.pop() if len(found) == 1 else None


def _ends(made: tuple[TrialRun, ...], trials: int) -> Iterator[tuple[TrialRun, ...]]:
    """What these can be once all are made; their order says nothing."""
    left = max(0, trials - len(made))
    failed, free, dear = _ENDS
    for free_ones in range(left + 1):
        for dear_ones in range(left + 1 - free_ones):
            yield (*made, *[free] * free_ones, *[dear] * dear_ones, *[failed] * (left - free_ones - dear_ones))


def helps(with_skill: tuple[TrialRun, ...], without: tuple[TrialRun, ...]) -> bool:
    """With it the task was done at least as often, at least once, and more often or at a lower cost."""
    done, done_without = (sum(run.passed for run in runs) for runs in (with_skill, without))
    if not done or done < done_without:
        return False
    return done > done_without or median_cost(with_skill) < median_cost(without)


def median_cost(runs: tuple[TrialRun, ...]) -> tuple[float, float]:
    """Tokens and steps of those that did it: giving up is cheap."""
    done = [run for run in runs if run.passed]
    return statistics.median(run.tokens for run in done), statistics.median(run.steps for run in done)


def words_of(tally: TrialTally) -> str:
    """`with the skill 2 of 3 done, 1,200 tokens and 3 steps in the median; without it 0 of 3`."""
    return f"with the skill {_told(tally.with_skill)}; without it {_told(tally.without)}"


def _told(runs: tuple[TrialRun, ...]) -> str:
    done = sum(run.passed for run in runs)
    if not done:
        return f"{done} of {len(runs)} done"
    tokens, steps = map(round, median_cost(runs))
    return f"{done} of {len(runs)} done, {counted(tokens, 'token')} and {counted(steps, 'step')} in the median"
