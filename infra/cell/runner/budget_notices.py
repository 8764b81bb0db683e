"""Notices to the model that the day's budget is nearly used up: one each time it passes a mark."""

from __future__ import annotations

MARKS = (0.80, 0.90, 0.95, 0.99)


class BudgetNotices:
    """Of one run."""

    def __init__(self) -> None:
        self._spent = self._noticed = 0.0

    def note(self, spent: float) -> None:
        """What the model door said with its last answer."""
        self._spent = spent

    def news(self) -> str | None:
        """Words for the model; None when no mark was passed since the last ones."""
        mark = max((each for each in MARKS if each <= self._spent), default=0.0)
        if mark <= self._noticed:
            return None
        self._noticed = mark
        return (
            f"{self._spent:.0%} of the day's budget is used up. When all of it is, the agent waits for the next UTC "
            "day. Commit and push what you have, and finish what matters most."
        )
