"""The side of an examination on which the candidate's code runs, as a user of its own where there is one. It reads a
plan with its objects from the judge, and answers what it saw."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

import msgspec

from infra.keep.examination import running
from infra.keep.examination.plan import Plan
from infra.keep.rehearsal import verdict as rehearsals
from infra.keep.services.processes import sweep
from infra.keep.verdicts.findings import FAILED, Findings, Run
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.subreaper import become_subreaper

GIT_SECONDS = 60.0
CLEAR_SECONDS = 30.0
"""For removing what an examination has written, at its beginning and at its end."""
OURS_OF_FIVE = 2
"""So many fifths: host/container/words.py leaves room for them."""
ROOM = 40
"""The longest path of where our scratch directory lies: tests make sockets 65 characters below it (unix(7))."""


def share_processes() -> None:
    """A part of those that each user may have, so that the keep has some left beside the cell and us."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NPROC, (most * OURS_OF_FIVE // 5,) * 2)


def answer(judge: socket.socket, ours: Iterable[str]) -> None:
    """`ours` are directories in which nothing else of our user's lies. Raises OSError, ValueError for a plan that is
    none."""
    become_subreaper()
    os.umask(0o022)
    clear_away(_left_in(ours))
    with judge.makefile("rb") as file:
        line, _, pack = file.read().partition(b"\n")
    wanted = msgspec.json.decode(line, type=Plan)
    if packages := running.packages_of(wanted.settings.python):
        os.environ["MINIFRAM_PACKAGES"] = packages
    place, root = tempfile.gettempdir(), ""
    try:
        if len(place) > ROOM:
            raise OSError(f"{place} is too long a path for sockets; set TMPDIR to a shorter one")
        root = tempfile.mkdtemp(prefix="x", dir=place)
        found = examine(root, wanted, pack)
    except (OSError, GitError) as error:
        found = Findings(outage=f"it could not be examined: {redacted_and_cut(str(error), 500)}")
    # Before anything is cleared away: what then goes wrong changes no verdict.
    judge.sendall(msgspec.json.encode(found) + b"\n")
    clear_away([root] if root else [])


def _left_in(places: Iterable[str]) -> Iterator[str]:
    """What earlier examinations left: killed ones, and tests that wrote where everybody may."""
    for place in places:
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(place)):
                if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    yield entry.path


def clear_away(paths: Iterable[str]) -> None:
    """Remove these within CLEAR_SECONDS. What cannot be removed takes room and is in nobody's way; the log names it."""
    until = time.monotonic() + CLEAR_SECONDS
    for path in paths:
        where, name = os.path.split(path)
        with contextlib.suppress(OSError):
            Below(where).remove(name, max(0.0, until - time.monotonic()))
        if os.path.lexists(path):
            print(f"{path} could not be removed within {CLEAR_SECONDS:g} s", file=sys.stderr)


def examine(root: str, wanted: Plan, pack: bytes) -> Findings:
    """Raises OSError, GitError."""
    asked, chosen = wanted.settings, wanted.selection
    end = time.monotonic() + asked.seconds

    def left() -> float:
        return max(1.0, end - time.monotonic())

    try:
        candidate, with_mains_tests, mains_own = _check_out(root, wanted, pack)
        scratch = f"{root}/t"
        os.mkdir(scratch)

        def there(*runs: Run) -> Run:
            return running.ended_there(mains_own, runs, scratch, left())

        # What hangs on the PM's word is known from a few files, so these come first.
        altered = [path for path in chosen.mains if path in chosen.altered]
        mains = running.run(with_mains_tests, altered, scratch, left())
        main = there(mains)
        if not asked.whole and any(main.outcomes.get(id) != FAILED for id in mains.failed()):
            return Findings(mains=mains, main=main, early=True)
        found = Findings(rehearsed=True) if asked.rehearsed else Findings()
        if asked.rehearse and not asked.rehearsed:
            found = _rehearse(root, wanted, pack)
        if found.rehearsed is False or found.outage:
            return found
        others = [path for path in chosen.mains if path not in altered]
        mains = mains.joined(running.run(with_mains_tests, others, scratch, left()))
        own = running.run(candidate, chosen.own, scratch, left()) if not mains.trouble else Run()
        counted_there, counted = (
            running.collect(checkout, chosen.changed, scratch, left()) for checkout in (mains_own, candidate)
        )
        more = {"mains": mains, "own": own, "main": there(mains, own)}
        return msgspec.structs.replace(found, **more, counted_there=counted_there, counted=counted)
    finally:
        sweep(frozenset())


def _check_out(root: str, wanted: Plan, pack: bytes) -> list[str]:
    """Where the plan's commits are checked out. Raises OSError, GitError."""
    commits = (wanted.candidate, wanted.with_mains_tests, wanted.mains)
    made = {commit: f"{root}/{at}" for at, commit in enumerate(dict.fromkeys(commits))}  # the same files: one checkout
    for commit, path in made.items():
        os.mkdir(path)
        git = Git(path).within(GIT_SECONDS)
        git("init", "--quiet", "--template=")
        git("index-pack", "--stdin", stdin=pack)
        git("reset", "--quiet", "--hard", commit)
    return [made[commit] for commit in commits]


def _rehearse(root: str, wanted: Plan, pack: bytes) -> Findings:
    """Raises OSError."""
    seconds, scratch = wanted.settings.rehearsal_seconds, f"{root}/r"
    os.mkdir(scratch)
    # In the container another user's environment may be closed to us; then it is rehearsed with what the image has.
    python = wanted.settings.python if os.access(wanted.settings.python, os.X_OK) else sys.executable
    words = rehearsals.command(wanted.candidate, scratch, python, seconds)
    env, longest = rehearsals.environment(), rehearsals.longest_seconds(seconds)
    try:
        # Killed when it takes longer; what it had started has its user, and goes with the sweep.
        said = subprocess.run(words, cwd="/", env=env, input=pack, stdout=subprocess.PIPE, timeout=longest).stdout
    except subprocess.TimeoutExpired:
        said = b""
    clear_away([scratch])
    found = rehearsals.read_verdict(said)
    if found.fit is None:
        return Findings(outage=f"it could not be rehearsed: {found.why}")
    return Findings(rehearsed=found.fit, rehearsal=found.why, transcript=found.transcript)
