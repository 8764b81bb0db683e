"""Whether a skill helps, by several trials with it and without, and when no more of them are needed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.skill_tally import TrialRun, TrialTally, helps, is_next_with_skill, verdict
from tests.shared.rows import each_row

RUNS = st.lists(st.builds(TrialRun, st.booleans(), st.integers(0, 9), st.integers(0, 9)), max_size=3).map(tuple)
OTHERS = [TrialRun(passed, cost, 1) for passed in (True, False) for cost in (0, 4, 5, 9, 10**9)]


def runs(words: str) -> tuple[TrialRun, ...]:
    """`7` did it for 7 tokens, `-` did not."""
    return tuple(TrialRun(each != "-", 0 if each == "-" else int(each), 1) for each in words.split())


@each_row(
    "with_skill, without, helps_",
    [
        ("5 - -", "- - -", True),
        ("- - -", "- - -", False),
        ("1 1 -", "9 9 9", False),
        ("9 9 9", "1 1 -", True),
        ("5 5 5", "6 6 6", True),
        ("5 5 5", "5 5 5", False),
        ("6 6 6", "5 5 5", False),
        ("1 5 99", "6 6 6", True),
        ("1 7 1", "2 2 2", True),
        ("5 - -", "- 6 -", True),
        ("5 9 -", "- 6 9", True),
    ],
)
def test_at_least_as_often_and_more_often_or_for_less(with_skill: str, without: str, helps_: bool) -> None:
    """What a trial cost that came to nothing does not count."""
    assert helps(runs(with_skill), runs(without)) is helps_


@each_row(
    "with_skill, without, found",
    [
        ("", "", None),
        ("- -", "5 5", False),
        ("- - -", "", False),
        ("5 5", "- -", True),
        ("5 5", "- 5", None),
        ("5 5 5", "9 9", True),
        ("5 5 5", "9 4", None),
        ("5", "- -", None),
    ],
)
def test_no_more_trials_are_made_than_can_matter(with_skill: str, without: str, found: bool | None) -> None:
    assert verdict(TrialTally(runs(with_skill), runs(without)), 3) is found


@given(RUNS, RUNS)
def test_what_is_decided_no_further_trial_changes(
    with_skill: tuple[TrialRun, ...], without: tuple[TrialRun, ...]
) -> None:
    """And nothing is left open that every further trial decides in one way."""
    more = (itertools.combinations_with_replacement(OTHERS, 3 - len(each)) for each in (with_skill, without))
    ends = {helps((*with_skill, *one), (*without, *other)) for one, other in itertools.product(*more)}
    found = verdict(TrialTally(with_skill, without), 3)
    assert found is None or ends == {found}
    assert len(ends) == 2 or found is not None


@given(st.integers(1, 9))
def test_they_take_turns_and_come_to_an_end(trials: int) -> None:
    """As many of each as there are to be."""
    tally, one = TrialTally(), TrialRun(True, 5, 1)
    for number in range(2 * trials):
        assert verdict(tally, trials) is None
        assert is_next_with_skill(tally) is bool(number % 2)
        has = is_next_with_skill(tally)
        cheap = one._replace(tokens=number)
        tally = (
            tally._replace(with_skill=(*tally.with_skill, cheap))
            if has
            else tally._replace(without=(*tally.without, cheap))
        )
        if verdict(tally, trials) is not None:
            break
    assert verdict(tally, trials) is not None
