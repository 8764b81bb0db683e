"""Verdicts as values, kept in and read from the shared repository (`refs`)."""

from __future__ import annotations

from infra.keep.verdicts import verdict as verdicts
from infra.keep.verdicts.refs import VERDICT_BYTES, VERDICTS, read_verdict
from infra.keep.verdicts.verdict import Verdict
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git

MOST_KEPT = 500
"""Verdicts; of more the oldest go."""


def find(git: Git, key: str) -> Verdict | None:
    """The verdict on the tree of this key. Raises GitError; one that cannot be read is none."""
    content = read_verdict(git, key)
    try:
        found = verdicts.from_json(content) if content else None
    except ValueError:
        return None
    return found if found and found.key == key else None


def keep(git: Git, verdict: Verdict) -> None:
    """Raises GitError."""
    content = verdicts.to_json(verdict)
    if len(content) > VERDICT_BYTES:
        # Nobody would read it, and it would be asked for again and again.
        why = f"the examiner's answer has more than {VERDICT_BYTES} bytes; shorten what tests say, and their names"
        whose = (verdict.key, verdict.branch, verdict.commit, verdict.main)
        content = verdicts.to_json(Verdict(*whose, passed=False, why=why, at=verdict.at, seconds=verdict.seconds))
    blob = git("hash-object", "-w", "--stdin", stdin=content)
    update_refs(git, f"update {VERDICTS}{verdict.key} {blob}")
    _clear(git)


def _clear(git: Git) -> None:
    refs = [line for line in git("for-each-ref", "--format=%(refname)", VERDICTS).split("\n") if line]
    if len(refs) <= MOST_KEPT:
        return
    made = {ref: found.at for ref in refs if (found := find(git, ref.removeprefix(VERDICTS)))}
    oldest = sorted(refs, key=lambda ref: made.get(ref, 0.0))[: len(refs) - MOST_KEPT]
    update_refs(git, *(f"delete {ref}" for ref in oldest))
