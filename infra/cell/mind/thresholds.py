"""What the mind goes by, as one value: constants that no PM can judge; a simulation is given others."""

from __future__ import annotations

from typing import NamedTuple


class Thresholds(NamedTuple):
    context_tokens: int = 12_000
    """How much of the mind is placed before a run: less than a tenth of what a conversation may have."""
    independent_runs: int = 2
    """A statement that so many runs made by themselves, or that was validated once, becomes long-term memory."""
    belief_runs: int = 3
    """A statement that so many runs made, or that was validated in two of them, becomes a belief."""
    promotions_per_day: int = 10
    """The most statements that are promoted in one UTC day: what a PM can still read."""
    skill_successes: int = 3
    """A procedure that succeeded so often becomes a candidate skill, and a candidate needs so many uses."""
    skill_failures: int = 3
    """A skill that failed more often than this is disabled."""
    unused_reviews: int = 4
    """A skill that was not used for so many weekly reviews is deprecated."""
