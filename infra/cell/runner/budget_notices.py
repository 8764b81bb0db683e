"""Notices to the model that a budget is nearly used up: one each time it passes a mark."""

from __future__ import annotations

import msgspec

from infra.shared.conversation import Spent

MARKS = (0.80, 0.90, 0.95, 0.99)
_WORDS = {
    "day": "of the day's budget is used up. When all of it is, the agent waits for the next UTC day.",
    "unit": "of what this run may cost is used up. When all of it is, the run ends with a report, as it then stands.",
}


class BudgetNotices:
    """Of one run."""

    def __init__(self) -> None:
        self._spent = Spent()
        self._noticed = dict.fromkeys(_WORDS, 0.0)

    def note(self, spent: Spent) -> None:
        """What the model door said with its last answer."""
        self._spent = spent

    def news(self) -> str | None:
        """Words for the model; None when no mark was passed since the last ones."""
        words = []
        for budget, share in msgspec.structs.asdict(self._spent).items():
            mark = max((each for each in MARKS if each <= share), default=0.0)
            if mark > self._noticed[budget]:
                self._noticed[budget] = mark
                words.append(f"{share:.0%} {_WORDS[budget]}")
        if not words:
            return None
        return " ".join([*words, "Commit and push what you have, and finish what matters most."])
