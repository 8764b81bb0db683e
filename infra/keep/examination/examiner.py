"""The part of an examination in which the candidate's code runs: `python -m infra.keep.examination examine`, as a
user of its own where there is one. It reads a plan with its objects on stdin, and says what it saw on stdout."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from infra.keep.examination import plan, running
from infra.keep.examination.plan import Plan
from infra.keep.rehearsal import scratch
from infra.keep.rehearsal import verdict as rehearsals
from infra.keep.services.processes import sweep
from infra.keep.verdicts.findings import Findings, Run
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import Git, GitError
from infra.shared.secret_shapes import redacted_and_cut

GIT_SECONDS = 60.0
OURS_OF_FIVE = 2
"""So many fifths: host/container/words.py leaves room for them."""
ROOM = 84
"""The longest path of our scratch directory: sockets lie below it (unix(7))."""


class Checkouts(NamedTuple):
    candidate: str
    with_mains_tests: str
    mains: str
    scratch: str


def main(apart: bool) -> int:
    """`apart`: as a user that does nothing else, in a directory for temporary files that is for this alone."""
    wanted, pack = plan.from_bytes(sys.stdin.buffer.read())
    scratch.stand_apart()
    if apart:
        # A part of the processes that each user may have, so that the keep has some left beside the cell and us.
        most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        if most != resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_NPROC, (most * OURS_OF_FIVE // 5,) * 2)
        there = [(entry.path, entry.stat(follow_symlinks=False).st_uid) for entry in os.scandir(tempfile.gettempdir())]
        left = [path for path, owner in there if owner == os.getuid()]
        clear_away(left, "a killed examination", wanted.settings.clear_seconds)
    packages = running.packages_of(wanted.python)
    if packages:
        os.environ["MINIFRAM_PACKAGES"] = packages
    place = tempfile.gettempdir()
    root = ""
    try:
        if len(place) > ROOM - 20:
            raise OSError(f"{place} is too long a path for sockets; set TMPDIR to a shorter one")
        root = tempfile.mkdtemp(prefix="x", dir=place)
        answer = examine(root, wanted, pack)
    except (OSError, GitError) as error:
        answer = Findings(outage=f"it could not be examined: {redacted_and_cut(str(error), 500)}")
    # Before anything is cleared away: what then goes wrong changes no verdict.
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
    clear_away([root] if root else [], "this examination", wanted.settings.clear_seconds)
    return Exit.OK


def clear_away(paths: Sequence[str], whose: str, seconds: float) -> None:
    """Remove these within `seconds`. What cannot be removed takes room and is in nobody's way; the log names it."""
    until = time.monotonic() + seconds
    for path in paths:
        if not scratch.remove(path, until - time.monotonic()):
            print(
                f"{path}, left by {whose}, could not be removed within {seconds:g} s",
                file=sys.stderr,
            )


def examine(root: str, wanted: Plan, pack: bytes) -> Findings:
    """Raises OSError, GitError."""
    try:
        places = _check_out(root, wanted, pack)
        asked = wanted.settings
        answer = Findings(rehearsed=True) if asked.rehearsed else Findings()
        if asked.rehearse and not asked.rehearsed:
            answer = _rehearse(places, wanted)
        return answer if answer.rehearsed is False or answer.outage else _test(places, wanted, answer)
    finally:
        sweep(frozenset())


def _check_out(root: str, wanted: Plan, pack: bytes) -> Checkouts:
    commits = (wanted.candidate, wanted.with_mains_tests, wanted.mains)
    made = {commit: f"{root}/{at}" for at, commit in enumerate(dict.fromkeys(commits))}  # the same files: one checkout
    for commit, path in made.items():
        os.mkdir(path)
        git = Git(path).within(GIT_SECONDS)
        git("init", "--quiet", "--template=")
        git("index-pack", "--stdin", stdin=pack)
        git("reset", "--quiet", "--hard", commit)
    os.mkdir(f"{root}/t")
    candidate, with_mains_tests, mains = (made[commit] for commit in commits)
    return Checkouts(candidate, with_mains_tests, mains, f"{root}/t")


def _rehearse(places: Checkouts, wanted: Plan) -> Findings:
    """Raises OSError."""
    seconds = wanted.settings.rehearsal_seconds
    # In the container another user's environment may be closed to us; then it is rehearsed with what the image has.
    python = wanted.python if os.access(wanted.python, os.X_OK) else sys.executable
    words = rehearsals.command(places.candidate, _REHEARSED, wanted.candidate, places.scratch, python, seconds)
    process = subprocess.Popen(
        words, cwd="/", env=rehearsals.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        said, _ = process.communicate(timeout=rehearsals.longest_seconds(seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
    found = rehearsals.read_verdict(said, process.returncode)
    if found.fit is None:
        return Findings(outage=f"it could not be rehearsed: {found.why}")
    return Findings(rehearsed=found.fit, rehearsal=found.why, transcript=found.transcript)


_REHEARSED = "examined"
"""What the rehearsal calls the branch; it knows of no other."""


def _test(places: Checkouts, wanted: Plan, answer: Findings) -> Findings:
    """Raises OSError."""
    end = time.monotonic() + wanted.settings.seconds
    chosen = wanted.selection

    def left() -> float:
        return max(1.0, end - time.monotonic())

    main = running.collect(places.mains, chosen.mains, places.scratch, left())
    mains = running.run(places.with_mains_tests, chosen.mains, places.scratch, left())
    own = running.run(places.candidate, chosen.own, places.scratch, left()) if not mains.trouble else Run()
    outcomes = running.ended_there(places.mains, (mains, own), main, places.scratch, left())
    main = msgspec.structs.replace(main, outcomes=outcomes)
    there, here = (
        running.collect(checkout, chosen.counted, places.scratch, left(), marks="").collected
        for checkout in (places.mains, places.candidate)
    )
    return msgspec.structs.replace(answer, main=main, mains=mains, own=own, counted_there=there, counted=here)
