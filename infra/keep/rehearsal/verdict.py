"""What a rehearsal came to, as its one line on stdout says, and the command that asks for it."""

from __future__ import annotations

import msgspec

from infra.keep.programs import keep_command, keep_environment
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.text import plain

SURROUNDINGS_SECONDS = 60.0
"""For what is done around the candidate: its repository, the doors, and ending all of it."""
TRANSCRIPT_CHARS = 4000
WHY_CHARS = 500


class RehearsalVerdict(msgspec.Struct, frozen=True):
    """`fit` is None when there is none: the surroundings failed, and the same candidate may be tried again."""

    fit: bool | None
    why: str = ""
    """Empty when it is fit; begins with the stage that was not lived through when it is not."""
    transcript: str = ""


def command(commit: str, scratch: str, python: str, seconds: float) -> list[str]:
    """Rehearse `commit`, a pack of which is on stdin (`verdicts.trees.pack`). To be run as the cell's user, from `/`.

    `scratch`: an empty directory of that user's, for the caller to remove; `python` starts the runner, which may live
    for `seconds` in all."""
    given = {"commit": commit, "scratch": scratch, "python": python, "seconds": f"{seconds:g}"}
    return keep_command("infra.keep.rehearsal", *(f"--{name}={value}" for name, value in given.items()))


def environment() -> dict[str, str]:
    """The whole environment of `command`: nothing of the watcher's own."""
    return keep_environment() | {"HOME": "/nonexistent"}


def longest_seconds(seconds: float) -> float:
    """After so long `command` has ended, or something is wrong with it."""
    return seconds + SURROUNDINGS_SECONDS


def read_verdict(said: bytes) -> RehearsalVerdict:
    """By the last line of stdout; one that cannot be read is no verdict. Never raises."""
    try:
        found = msgspec.json.decode(said.rstrip().rpartition(b"\n")[2], type=RehearsalVerdict)
    except (ValueError, RecursionError):
        found = RehearsalVerdict(None, "the rehearsal ended without an answer")
    transcript = redacted(plain(found.transcript))[-TRANSCRIPT_CHARS:]
    return RehearsalVerdict(found.fit, redacted_and_cut(plain(found.why), WHY_CHARS), transcript)
