"""Rehearse a version before it may lead: `python -m infra.keep.rehearsal`, run by the watcher as the cell's user.

The keep's copy of the code judges; the candidate lives a small life in scratch places, at no cost and with no
network, and all of it is gone at the end. One line on stdout says what came of it (`verdict`)."""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import signal
import sys
import time
from types import FrameType

from infra.keep.rehearsal import running, scene
from infra.keep.rehearsal.doors import opened
from infra.keep.rehearsal.findings import Outage, Unfit, as_outage
from infra.keep.rehearsal.life import Rehearsal
from infra.keep.rehearsal.scene import Candidate
from infra.keep.rehearsal.verdict import SECONDS, Verdict, as_line, beginning, exit_of
from infra.shared.exit_codes import Exit
from infra.shared.processes import become_subreaper, sweep

_PR_SET_DUMPABLE = 4


class Stopped(Exception):
    """We were asked to end."""


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    if not (math.isfinite(given.seconds) and given.seconds > 0):
        print(f"rehearsal: --seconds is {given.seconds}; expected a number above 0", file=sys.stderr)
        return Exit.USAGE
    began, step = time.monotonic(), ""
    try:
        _take_care()
        verdict = rehearse(Candidate(given.checkout, given.branch, given.commit, given.python), given)
    except Unfit as unfit:
        step, verdict = unfit.step.value, Verdict(False, beginning(str(unfit)), _shown(unfit))
    except (Outage, OSError) as outage:
        verdict = Verdict(None, beginning(str(outage)))
    except Stopped:
        verdict = Verdict(None, "the rehearsal was asked to end before it came to one")
    print(as_line(verdict, step, time.monotonic() - began), flush=True)
    return exit_of(verdict)


def rehearse(candidate: Candidate, given: argparse.Namespace) -> Verdict:
    """Raises Unfit with the transcript as a note, Outage, Stopped."""
    if not os.path.isabs(candidate.python) or not os.path.isfile(candidate.python):
        raise Outage(f"{candidate.python!r} is no program by its absolute path; --python names an interpreter")
    around = scene.begin(given.scratch)
    try:
        with opened(around) as doors:
            life = Rehearsal(around, candidate, doors, given.seconds)
            try:
                life.live()
            except Unfit as unfit:
                unfit.add_note(running.transcript(around, life.steps))
                raise
            finally:
                _be_deaf()
            if given.verbose:
                print("\n".join(life.steps), file=sys.stderr)
    finally:
        _be_deaf()
        try:
            with as_outage("what the rehearsal started cannot be ended"):
                sweep(frozenset())
        finally:
            scene.clear_away(around)
    return Verdict(True)


def _take_care() -> None:
    """All descendants are ours to end, none may look into us, and SIGTERM clears away first. Raises OSError."""
    become_subreaper()
    # The candidate has our user: it must not reach our answer through /proc.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o022)

    def stop(number: int, frame: FrameType | None) -> None:
        _be_deaf()
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _be_deaf() -> None:
    """From here on it is only cleared away, which must not be broken off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _shown(unfit: Unfit) -> str:
    return "\n".join(getattr(unfit, "__notes__", []))


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="rehearsal", description=__doc__, allow_abbrev=False)
    made.add_argument("--checkout", required=True, help="the candidate's clone")
    made.add_argument("--branch", required=True)
    made.add_argument("--commit", required=True, help="the commit to rehearse, whatever is checked out")
    made.add_argument("--scratch", required=True, help="an existing directory for all that is written")
    made.add_argument("--python", default=sys.executable, help="starts the candidate's runner")
    made.add_argument("--seconds", type=float, default=SECONDS, help="the longest that the candidate may take")
    made.add_argument("--verbose", action="store_true", help="tell the steps of a fit life on stderr")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
