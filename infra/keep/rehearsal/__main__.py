"""`python -m infra.keep.rehearsal`, run as the cell's user: rehearse a version before it may lead.

The keep's copy of the code judges; the candidate, a commit whose pack is on stdin, lives a small life in a scratch
directory, at no cost and with no network. One line on stdout says how it ended (`verdict`)."""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from infra.keep.git_door.tips import Unreadable
from infra.keep.rehearsal.candidate import transcript
from infra.keep.rehearsal.doors import Outage
from infra.keep.rehearsal.scene import Scene
from infra.keep.rehearsal.stages import Life, Unfit
from infra.keep.rehearsal.verdict import RehearsalVerdict
from infra.keep.services.processes import sweep
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import TipBusy
from infra.shared.subreaper import become_subreaper
from infra.shared.text import plain


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    scene, found = Scene(given.scratch), RehearsalVerdict(True)
    try:
        become_subreaper()
        try:
            Life(scene, given.python, given.seconds).live(given.commit, sys.stdin.buffer.read())
        finally:
            sweep(frozenset())
    except Unfit as unfit:
        found = RehearsalVerdict(False, plain(str(unfit)), plain(transcript(scene)))
    except (Outage, GitError, TipBusy, Unreadable, OSError) as error:
        found = RehearsalVerdict(None, plain(str(error)))
    print(msgspec.json.encode(found).decode(), flush=True)
    return Exit.OK


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="rehearsal", description=__doc__, allow_abbrev=False)
    made.add_argument("--commit", required=True, help="what to rehearse, in the pack on stdin")
    made.add_argument("--scratch", required=True, help="an empty directory for all that is written")
    made.add_argument("--python", required=True, help="starts the candidate's runner")
    made.add_argument("--seconds", type=float, required=True, help="the longest that the candidate may take")
    return made


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
