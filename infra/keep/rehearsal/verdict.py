"""What a rehearsal came to, as the watcher asks for it: the command to run, and what its answer means.

Only an answer that says the same twice, by its one line and by its exit status, is a verdict on the code; anything
else (nothing, half a line, other words) is an outage, which says nothing against it."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from infra.keep.programs import keep_command, keep_environment
from infra.shared.exit_codes import Exit
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.text import plain

SECONDS = 20.0
"""The longest that a candidate may take."""
WALL_FACTOR = 4
"""How much longer the clock on the wall may go on: a machine that stands still takes no time from the candidate."""
SURROUNDINGS_SECONDS = 60.0
"""For what is done around the candidate: its clone, the doors, and clearing away."""
TRANSCRIPT_CHARS = 4000
WHY_CHARS = 500
_ANSWER_BYTES = 64 * 1024
"""A whole answer is far smaller; of more, the end is looked at."""


class RehearsalVerdict(NamedTuple):
    """`fit` is None when there is none: the surroundings failed, and the same candidate may be tried again."""

    fit: bool | None
    why: str = ""
    """Empty when it is fit; begins with the stage that was not lived through when it is not."""
    transcript: str = ""


def command(
    checkout: str, branch: str, commit: str, scratch: str, python: str = sys.executable, seconds: float = SECONDS
) -> list[str]:
    """Rehearse the version that `checkout` has at `commit`. To be run as the cell's user, from `/`.

    `scratch` is an existing directory that this user may write to and run programs in; `python` starts the runner."""
    given = {"checkout": checkout, "branch": branch, "commit": commit, "scratch": scratch, "python": python}
    words = [f"--{name}={value}" for name, value in (given | {"seconds": f"{seconds:g}"}).items()]
    return keep_command("infra.keep.rehearsal", *words)


def environment() -> dict[str, str]:
    """The whole environment of `command`: nothing of the watcher's own."""
    return keep_environment() | {"HOME": "/nonexistent"}


def longest_seconds(seconds: float = SECONDS) -> float:
    """After so long `command` has ended, or something is wrong with it."""
    return seconds * WALL_FACTOR + SURROUNDINGS_SECONDS


def as_line(verdict: RehearsalVerdict, stage: str, seconds: float) -> str:
    """The answer, without its newline."""
    answer: dict[str, object] = {"fit": verdict.fit, "seconds": round(seconds, 3)}
    if verdict.fit is False:
        answer |= {"step": stage, "why": verdict.why, "transcript": verdict.transcript}
    elif verdict.fit is None:
        answer["why"] = verdict.why
    return json.dumps(answer)


def exit_of(verdict: RehearsalVerdict) -> Exit:
    if verdict.fit is None:
        return Exit.TRY_AGAIN
    return Exit.OK if verdict.fit else Exit.FAILURE


def read_verdict(stdout: bytes, returncode: int) -> RehearsalVerdict:
    """What the command said by its last line and its end. Never raises."""
    answer = _last_line(stdout)

    def text(key: str) -> str:
        found = answer.get(key)
        return found if isinstance(found, str) else ""

    why = beginning(text("why")) or "no reason was given"
    match answer.get("fit", ""), returncode:
        case True, Exit.OK:
            return RehearsalVerdict(True)
        case False, Exit.FAILURE:
            stage = beginning(text("step"), 40) or "?"
            return RehearsalVerdict(False, f"{stage}: {why}", ending(text("transcript")))
        case None, Exit.TRY_AGAIN:
            return RehearsalVerdict(None, why)
    said = ending(stdout[-_ANSWER_BYTES:].decode(errors="replace"), 200).strip() or "no words"
    return RehearsalVerdict(None, f"the rehearsal ended with {returncode} and no answer of that meaning: {said}")


def beginning(text: str, most: int = WHY_CHARS) -> str:
    """Plain, and as much of it as may be said: of a reason the first words count."""
    return redacted_and_cut(plain(text), most)


def ending(text: str, most: int = TRANSCRIPT_CHARS) -> str:
    """The same of a record, of which the last words count."""
    text = redacted(plain(text))
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def _last_line(stdout: bytes) -> dict[str, object]:
    """What is in the last line, if it is whole and an object."""
    end = stdout[-_ANSWER_BYTES:]
    if not end.endswith(b"\n"):
        return {}
    try:
        answer = json.loads(end[:-1].rpartition(b"\n")[2])
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
