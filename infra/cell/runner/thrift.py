"""What the model is told of its money: each time a budget passes one of the marks, once."""

from __future__ import annotations

from infra.shared.conversation import Spent

MARKS = (0.80, 0.90, 0.95, 0.99)
_WHAT = {"day": "the day's budget", "unit": "what this unit of work may cost"}
_THEN = {
    "day": "When it is all used up, the agent waits for the next UTC day.",
    "unit": "When it is all used up, this unit ends with a report, as it then stands.",
}


class Thrift:
    """Of one unit of work."""

    def __init__(self) -> None:
        self._spent = Spent()
        self._told = dict.fromkeys(_WHAT, 0.0)

    def note(self, spent: Spent) -> None:
        """What the model door said with its last answer."""
        self._spent = spent

    def __call__(self) -> str | None:
        """Words for the model; None when no mark was passed since the last ones."""
        words = []
        for budget, share in self._spent._asdict().items():
            mark = max((each for each in MARKS if each <= share), default=0.0)
            if mark > self._told[budget]:
                self._told[budget] = mark
                words.append(f"{share:.0%} of {_WHAT[budget]} is used up. {_THEN[budget]}")
        if not words:
            return None
        return " ".join([*words, "Commit and push what you have, and bring the most important thing to an end."])
