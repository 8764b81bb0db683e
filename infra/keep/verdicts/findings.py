"""The findings of the examiner, as values with a JSON form: its answer to the keep. Pure.

The candidate's code runs in the same process. So the answer is read with bounds and type checks, and is evidence
against honest mistakes alone."""

from __future__ import annotations

from typing import Any

import msgspec

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
ANSWER_BYTES = 32 << 20
"""Of one answer."""
MOST_SHOWN = 5
TEXT_CHARS = 3000


class Run(msgspec.Struct, frozen=True):
    """One run of pytest."""

    collected: tuple[str, ...] = ()
    """Node ids."""
    outcomes: dict[str, str] = {}
    """Node id -> `passed`, `failed` or `skipped`; what is expected to fail and fails has passed."""
    broken: dict[str, str] = {}
    """Files that could not be collected, and why."""
    failures: dict[str, str] = {}
    """The first failed tests with the end of what pytest says of them."""
    trouble: str = ""
    """Why it did not come to its end; empty when it did."""
    again: tuple[str, ...] = ()
    """Tests that failed at first and passed when they were run once more, alone."""

    def failed(self) -> list[str]:
        return [id for id, outcome in self.outcomes.items() if outcome == FAILED and id not in self.again]

    def joined(self, other: Run) -> Run:
        """With another run of other files."""
        return Run(
            self.collected + other.collected,
            self.outcomes | other.outcomes,
            self.broken | other.broken,
            self.failures | other.failures,
            self.trouble or other.trouble,
            self.again + other.again,
        )


class Findings(msgspec.Struct, frozen=True):
    """What the examiner's process says at its end."""

    rehearsed: bool | None = None
    """None: no rehearsal was asked for."""
    rehearsal: str = ""
    """Why the rehearsal failed."""
    transcript: str = ""
    mains: Run = Run()
    """Main's tests with the branch's code."""
    own: Run = Run()
    """The branch's tests with the branch's code."""
    main: Run = Run()
    """What of both did not pass, as main has it and with main's own code."""
    early: bool = False
    """Only main's tests that the branch changes or removes were run: one of them fails."""
    counted_there: tuple[str, ...] = ()
    """What is collected in main from test files that the branch changes, what does not run here as well."""
    counted: tuple[str, ...] = ()
    """The same in the branch."""
    outage: str = ""
    """Why there is no verdict: something around the candidate failed."""


def run_of(lines: list[Any], trouble: str) -> Run:
    """From what the report plugin wrote, line by line; a line of another form is passed over."""
    collected: tuple[str, ...] = ()
    outcomes: dict[str, str] = {}
    broken: dict[str, str] = {}
    failures: dict[str, str] = {}
    for line in lines:
        match line:
            case {"collected": list(ids)}:
                collected = tuple(dict.fromkeys(id for id in ids if isinstance(id, str)))
            case {"test": str(id), "outcome": str(outcome), "text": str(text)}:
                # The worst of its phases counts.
                if outcomes.get(id) != FAILED and outcome in (PASSED, FAILED, SKIPPED):
                    outcomes[id] = SKIPPED if outcomes.get(id) == SKIPPED and outcome == PASSED else outcome
                if outcome == FAILED and len(failures) < MOST_SHOWN:
                    failures[id] = text[-TEXT_CHARS:]
            case {"broken": str(path), "text": str(text)}:
                broken[path] = text[-TEXT_CHARS:]
    return Run(collected, outcomes, broken, failures, trouble)
