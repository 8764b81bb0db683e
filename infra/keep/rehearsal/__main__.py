"""Rehearse a version before it may lead: `python -m infra.keep.rehearsal`, run by the watcher as the cell's user.

The keep's copy of the code judges; the candidate lives a small life in scratch places, at no cost and with no
network, and all of it is gone at the end. One line on stdout says how it ended (`verdict`)."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from types import FrameType

from infra.keep.rehearsal import candidate, scratch
from infra.keep.rehearsal.doors import opened
from infra.keep.rehearsal.findings import Outage, Unfit, as_outage
from infra.keep.rehearsal.scratch import RehearsedVersion
from infra.keep.rehearsal.stages import Rehearsal
from infra.keep.rehearsal.verdict import SECONDS, RehearsalVerdict, as_line, beginning, exit_of
from infra.keep.services.processes import sweep
from infra.shared.exit_codes import Exit


class Stopped(Exception):
    """We were asked to end."""


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    if not (math.isfinite(given.seconds) and given.seconds > 0):
        print(f"rehearsal: --seconds is {given.seconds}; expected a number above 0", file=sys.stderr)
        return Exit.USAGE
    began, stage = time.monotonic(), ""
    try:
        _take_care()
        verdict = rehearse(RehearsedVersion(given.checkout, given.branch, given.commit, given.python), given)
    except Unfit as unfit:
        transcript = "\n".join(getattr(unfit, "__notes__", []))
        stage, verdict = unfit.stage.value, RehearsalVerdict(False, beginning(str(unfit)), transcript)
    except (Outage, OSError) as outage:
        verdict = RehearsalVerdict(None, beginning(str(outage)))
    except Stopped:
        verdict = RehearsalVerdict(None, "the rehearsal was asked to end before it came to one")
    print(as_line(verdict, stage, time.monotonic() - began), flush=True)
    return exit_of(verdict)


def rehearse(version: RehearsedVersion, given: argparse.Namespace) -> RehearsalVerdict:
    """Raises Unfit with the transcript as a note, Outage, Stopped."""
    if not os.path.isabs(version.python) or not os.path.isfile(version.python):
        raise Outage(f"{version.python!r} is not a program by its absolute path; --python names an interpreter")
    made = scratch.begin(given.scratch)
    os.environ["TMPDIR"] = made.temporary  # of the doors and the candidate
    try:
        with opened(made) as doors:
            rehearsal = Rehearsal(made, version, doors, given.seconds)
            try:
                rehearsal.live()
            except Unfit as unfit:
                unfit.add_note(candidate.transcript(made, rehearsal.steps))
                raise
            finally:
                _ignore_signals()
            if given.verbose:
                print("\n".join(rehearsal.steps), file=sys.stderr)
    finally:
        _ignore_signals()
        try:
            with as_outage("what the rehearsal started cannot be ended"):
                sweep(frozenset())
        finally:
            scratch.clear_away(made)
    return RehearsalVerdict(True)


def _take_care() -> None:
    """All descendants are ours to end, none may look into us, and SIGTERM clears away first. Raises OSError."""
    scratch.stand_apart()

    def stop(number: int, frame: FrameType | None) -> None:
        _ignore_signals()
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _ignore_signals() -> None:
    """From here on it is only cleared away, which must not be broken off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="rehearsal", description=__doc__, allow_abbrev=False)
    made.add_argument("--checkout", required=True, help="the candidate's clone")
    made.add_argument("--branch", required=True)
    made.add_argument("--commit", required=True, help="the commit to rehearse, whatever is checked out")
    made.add_argument("--scratch", required=True, help="an existing directory for all that is written")
    made.add_argument("--python", default=sys.executable, help="starts the candidate's runner")
    made.add_argument("--seconds", type=float, default=SECONDS, help="the longest that the candidate may take")
    made.add_argument("--verbose", action="store_true", help="show the steps of a fit life on stderr")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
