"""`python -m infra.keep.examination judge | examine`: two processes that the watcher starts together, with one socket
between them as their stdin. The judge has the keep's rights and prepares and concludes; only the examiner runs anything
of the candidate's."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time

import msgspec

from infra.keep.examination import examiner
from infra.keep.examination.plan import ExaminationSettings, Plan
from infra.keep.verdicts import refs, trees, verdict
from infra.keep.verdicts.findings import ANSWER_BYTES, Findings
from infra.keep.verdicts.selection import select
from infra.shared.branches import MAIN
from infra.shared.exit_codes import Exit
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.merge import MergeConflict

LOOK_SECONDS = 60.0
GRACE_SECONDS = 240.0
"""Over the time that the tests may take: for checkouts, the rehearsal, a second run of what failed, and clearing up."""


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    other = socket.socket(fileno=os.dup(0))  # which no child inherits
    try:
        if given.part == "judge":
            settings = msgspec.json.decode(given.settings, type=ExaminationSettings)
            judge(given.remote, given.branch, given.commit, settings, other)
        else:
            if given.apart:
                examiner.share_processes()
            examiner.answer(other, given.ours)
    except MergeConflict as error:
        print(error, file=sys.stderr)
        return Exit.CONFLICT
    except (GitError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return Exit.FAILURE
    return Exit.OK


def longest_seconds(settings: ExaminationSettings) -> float:
    return settings.seconds + 4 * settings.rehearsal_seconds + GRACE_SECONDS


def judge(remote: str, branch: str, commit: str, settings: ExaminationSettings, examines: socket.socket) -> None:
    """Have a branch examined and keep the verdict. The request is taken away however it ends: whoever still wants to
    know asks again. Raises MergeConflict, GitError, OSError when the examiner cannot be asked."""
    git, began = Git(remote, WATCHER, {"GIT_DIR": remote}).within(LOOK_SECONDS), time.time()
    try:
        main = resolve_commit(git, f"refs/heads/{MAIN}")
        if main is None or resolve_commit(git, f"refs/heads/{branch}") != commit:
            return
        key, wanted, pack = prepare(git, main, commit, settings)
        examines.settimeout(longest_seconds(settings))
        examines.sendall(msgspec.json.encode(wanted) + b"\n" + pack)
        examines.shutdown(socket.SHUT_WR)
        try:
            with examines.makefile("rb") as said:  # until the examiner has ended, and with that cleared up
                answer = msgspec.json.decode(said.read(ANSWER_BYTES), type=Findings)
        except (OSError, ValueError):
            answer = Findings(outage="the examiner ended without an answer; the candidate may have ended it")
        git, now = git.afresh(LOOK_SECONDS), time.time()
        found = verdict.judge(key, branch, commit, main, wanted.selection, answer)
        refs.keep(git, msgspec.structs.replace(found, at=now, seconds=max(0.0, now - began)))
    finally:
        refs.forget_request(git, branch, commit)


def prepare(git: Git, main: str, commit: str, settings: ExaminationSettings) -> tuple[str, Plan, bytes]:
    """The key of what would be merged, the plan, and its objects. Raises MergeConflict, GitError."""
    after = trees.merged(git, main, commit)
    key = trees.key_of(git, after)
    # Rehearsed was another version, if the branch is not the same as what merging makes of main.
    rehearsed = settings.rehearsed and trees.key_of(git, commit) == key
    settings = msgspec.structs.replace(settings, rehearsed=rehearsed, whole=refs.find(git, key) is not None)
    differ = git.raw("diff-tree", "-r", "-z", "--no-renames", "--name-only", main, after)
    chosen = select(
        trees.files_of(git, main), trees.files_of(git, after), differ.decode(errors="surrogateescape").split("\0")
    )
    commits = trees.snapshot(git, after), trees.snapshot(git, after, main), trees.snapshot(git, main)
    return key, Plan(*commits, chosen, settings), trees.pack(git, *commits)


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="examination", description=__doc__, allow_abbrev=False)
    parts = made.add_subparsers(dest="part", required=True)
    first = parts.add_parser("judge", allow_abbrev=False)
    for name in ("remote", "branch", "commit", "settings"):
        first.add_argument(f"--{name}", required=True)
    second = parts.add_parser("examine", allow_abbrev=False)
    second.add_argument("--apart", action="store_true", help="as a user of its own")
    second.add_argument("--ours", action="append", default=[], help="clear this directory of all that is our user's")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
