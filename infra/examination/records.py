"""What the shared repository keeps of examinations, in refs of the keep's that the cell can neither see nor push:
requests (`refs/minifram/examine/<branch>`, a commit), and verdicts (`refs/minifram/verdict/<key>`, JSON)."""

from __future__ import annotations

import os

from infra.contract.branches import problem_with_branch
from infra.examination import verdict as verdicts
from infra.examination.verdict import Verdict
from infra.repository.git import Git

REQUESTS = "refs/minifram/examine/"
VERDICTS = "refs/minifram/verdict/"
MOST_KEPT = 500
"""Verdicts; of more the oldest go."""
MOST_WAITING = 50
"""Requests that are looked at."""


def ask(git: Git, branch: str, commit: str) -> None:
    """Ask the watcher for an examination. Raises GitError."""
    git("update-ref", "--no-deref", f"{REQUESTS}{branch}", commit)


def forget_request(git: Git, branch: str, commit: str) -> None:
    """Unless it was asked for another commit meanwhile. Raises GitError."""
    ref = f"{REQUESTS}{branch}"
    if git("for-each-ref", "--format=%(objectname)", ref) == commit:
        git("update-ref", "--no-deref", "-d", ref, commit)


def is_asked(remote: str) -> bool:
    """Whether there may be a request: cheap enough for every look."""
    pending = [f"{remote}/{REQUESTS}"]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        return True
                    pending.append(entry.path)
        except OSError:
            continue
    return False


def requests(git: Git) -> list[tuple[str, str]]:
    """Branch and commit of what is asked for. Raises GitError."""
    listed = git("for-each-ref", f"--count={MOST_WAITING}", "--format=%(objectname) %(refname)", REQUESTS).split("\n")
    pairs = [(line[41:].removeprefix(REQUESTS), line[:40]) for line in listed if line]
    return [(branch, commit) for branch, commit in pairs if not problem_with_branch(branch)]


def find(git: Git, key: str) -> Verdict | None:
    """The verdict on the tree of this key. Raises GitError; one that cannot be read is none."""
    listed = git("for-each-ref", "--format=%(objectname) %(objecttype) %(objectsize)", f"{VERDICTS}{key}").split()
    if len(listed) != 3 or listed[1] != "blob" or int(listed[2]) > verdicts.MAX_BYTES:
        return None
    try:
        found = verdicts.from_json(git.raw("cat-file", "blob", listed[0]))
    except ValueError:
        return None
    return found if found.key == key else None


def keep(git: Git, verdict: Verdict) -> None:
    """Raises GitError."""
    blob = git("hash-object", "-w", "--stdin", stdin=verdicts.to_json(verdict))
    git("update-ref", "--no-deref", f"{VERDICTS}{verdict.key}", blob)
    _clear(git)


def _clear(git: Git) -> None:
    refs = [line for line in git("for-each-ref", "--format=%(refname)", VERDICTS).split("\n") if line]
    if len(refs) <= MOST_KEPT:
        return
    made = {ref: found.at for ref in refs if (found := find(git, ref.removeprefix(VERDICTS)))}
    oldest = sorted(refs, key=lambda ref: made.get(ref, 0.0))[: len(refs) - MOST_KEPT]
    git("update-ref", "--no-deref", "--stdin", stdin="".join(f"delete {ref}\n" for ref in oldest).encode())
