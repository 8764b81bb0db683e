"""Whether a run gets on, judged by effects and not by words; pure.

A step without progress is one after which nothing is other than before: no file, no commit, no result that the run had
not seen, no word of somebody else's."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from infra.cell.loop.registry import Reply

IDLE_TO_TELL, IDLE_TO_END = 4, 8
"""Steps without progress in a row: the model is told, and then the run ends."""
FAILED_TO_TELL, FAILED_TO_END = 6, 12
"""Calls that failed in a row."""
NO_OP_LOOP, MAX_FAILURES = "no_op_loop", "max_failures"
"""Reasons to stop."""
IDLE = (
    f"Your last {IDLE_TO_TELL} steps changed no file, made no commit and showed nothing that you had not seen. Do "
    "something that has an effect, or end your turn and say what is missing. If you wait for something, wait longer."
)
FAILED = (
    f"Your last {FAILED_TO_TELL} calls failed. Look for the cause, try another way, or end your turn and say what is "
    "missing."
)
_FAILED = re.compile(r"\[(exit status [1-9]\d*|ended by signal \d+)\]$")
_NO_FAILURES = ("awaiting_approval", "not_run")
"""Error codes of calls that wait, or that were never made."""


class Effects(NamedTuple):
    """What came of one step."""

    results: tuple[str, ...]
    """A fingerprint of each."""
    failed: tuple[bool, ...]
    """Each of its calls."""
    changed: bool
    """A file or a commit."""


class Progress(NamedTuple):
    """Of a run so far."""

    seen: frozenset[str] = frozenset()
    """Results."""
    idle: int = 0
    """Steps without progress in a row."""
    failed: int = 0
    """Calls that failed in a row."""

    def shows_news(self, results: tuple[str, ...]) -> bool:
        return not self.seen.issuperset(results)

    def after(self, effects: Effects) -> Progress:
        failed = self.failed
        for each in effects.failed:
            failed = failed + 1 if each else 0
        got_on = effects.changed or self.shows_news(effects.results)
        return Progress(self.seen.union(effects.results), 0 if got_on else self.idle + 1, failed)

    def heard(self) -> Progress:
        """Somebody told the run something: what it does now may be the answer to that."""
        return self._replace(idle=0)

    @property
    def stop(self) -> str:
        """Why the run should end; empty when it need not."""
        if self.idle >= IDLE_TO_END:
            return NO_OP_LOOP
        return MAX_FAILURES if self.failed >= FAILED_TO_END else ""


def words_on(before: Progress, now: Progress) -> str:
    """Words for the model after a step; empty for none."""
    told = [IDLE] if now.idle == IDLE_TO_TELL else []
    told += [FAILED] if before.failed < FAILED_TO_TELL <= now.failed else []
    return "\n\n".join(told)


def has_failed(reply: Reply) -> bool:
    """A command that ended with another status than 0 as well."""
    has_status = reply.facts.get("exit") or _FAILED.search(reply.content[-80:])
    return reply.error_code not in _NO_FAILURES and (reply.is_error or bool(has_status))


def fingerprint(tool: str, reply: Reply) -> str:
    """Of a result: which tool gave it counts, how it was called does not."""
    content = f"{reply.content}{reply.facts.get('stderr', '')}"
    return hashlib.sha256(f"{tool}\0{content}".encode(errors="replace")).hexdigest()[:32]
