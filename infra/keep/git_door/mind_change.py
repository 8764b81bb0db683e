"""What git says about a push to the branch `mind`, and of others about their history: facts for `mind`."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from infra.keep.git_door.mind import MIND_REF, MindChange
from infra.keep.mind.snapshot_tags import SnapshotKind, snapshots
from infra.shared.clock import timestamp
from infra.shared.mind.inbox_edits import problem_with_agents_inbox
from infra.shared.mind.layout import BELIEFS, INBOX, LONG_TERM, MOST_FILE_BYTES, OPEN_QUESTIONS
from infra.shared.mind.loss import NOTHING, MindHoldings, holdings, losses
from infra.shared.mind.questions import new_question
from infra.shared.people import AGENT
from infra.shared.repository.changes import Change
from infra.shared.repository.git import Git, GitError

MAIN_REF = "refs/heads/main"
DAY_SECONDS = 86_400.0
MOST_OTHERS = 100
"""Commits of others than the agent that are looked at, the newest ones."""


def change_of_mind(
    git: Git, kept: Git, ref: str, old: str | None, new: str, changed: Mapping[str, Change], now: float
) -> MindChange:
    """`kept` is the repository without the push, `now` in seconds since the epoch. Raises GitError."""
    if ref != MIND_REF:
        if not ref.startswith("refs/heads/") or not kept.ok("show-ref", "--verify", "--quiet", MIND_REF):
            return MindChange()
        return MindChange(foreign=_common(git, MIND_REF, new))
    if old is None:
        return MindChange()
    there = _listed(git, new)
    sizes = ((path, there[path][1]) for path in changed if path in there)
    large = next((each for each in sizes if each[1] > MOST_FILE_BYTES), None)
    roots = git("rev-list", "--max-parents=0", new, f"^{old}", "--").split()
    if large:  # it is not read, then
        return MindChange(len(there), large, foreign="".join(roots[:1]))
    had = _listed(git, old)

    def texts(path: str) -> tuple[str, str]:
        return _text(git, had, path), _text(git, there, path)

    before, after = _holdings(git, had), _holdings(git, there)
    lost, since = losses(before, after), ""
    if not lost and before.loses_in(after):
        since, of_late = _of_late(kept, old, now)
        lost = losses(before, after, of_late)
    forged = problem_with_agents_inbox(*texts(INBOX)) if INBOX in changed else ""
    asked = new_question(*texts(OPEN_QUESTIONS)) if OPEN_QUESTIONS in changed else ""
    return MindChange(len(there), None, tuple(lost), since, forged, asked, "".join(roots[:1]))


def _of_late(kept: Git, tip: str, now: float) -> tuple[str, MindHoldings]:
    """The keep's newest daily snapshot that is a day old, or the first in the history, and what the branch held then,
    but for what others than the agent took out since. Only the keep makes one."""
    # A branch that the PM began anew has none of the old ones.
    daily = [
        each
        for each in snapshots(kept)
        if each.kind is SnapshotKind.DAILY and kept.ok("merge-base", "--is-ancestor", each.commit, tip)
    ]
    if not daily:
        return "", NOTHING
    aged = [each for each in daily if each.at[:19] <= timestamp(now - DAY_SECONDS)[:19]]
    # By the history, as one that was made after the clock was set back has an earlier time.
    base = aged[-1] if aged else min(daily, key=lambda each: int(kept("rev-list", "--count", each.commit, "--")))
    held = _holdings(kept, _listed(kept, base.commit))
    since = kept("log", "--format=%H%x09%P%x09%ce", f"{base.commit}..{tip}", "--").splitlines()
    others = [words for line in since if (words := line.split("\t", 2))[2] != AGENT.email]
    for commit, parents, _ in others[:MOST_OTHERS]:
        # A merge takes out what all had that it joins; what one of them had not, the agent may have taken out there.
        was = [_holdings(kept, _listed(kept, name)) for name in parents.split()]
        if was:
            shared = functools.reduce(MindHoldings.shared_with, was)
            held = held.without(shared.without(_holdings(kept, _listed(kept, commit))))
    return base.name, held


def _common(git: Git, mind: str, new: str) -> str:
    try:
        git("merge-base", mind, new)
    except GitError as error:
        if error.status == 1:
            return ""
        raise
    return new


_File = tuple[str, int]
"""Blob and bytes; none for what is no file."""


def _listed(git: Git, commit: str) -> dict[str, _File]:
    listed = git.raw("ls-tree", "-r", "-l", "-z", "--full-tree", commit).decode(errors="surrogateescape")
    found = dict[str, _File]()
    for line in filter(None, listed.split("\0")):
        words, _, path = line.partition("\t")
        mode, _, id, size = words.split()
        found[path] = (id, int(size)) if mode.startswith("100") and size.isdecimal() else ("", 0)
    return found


def _holdings(git: Git, there: Mapping[str, _File]) -> MindHoldings:
    return holdings(_text(git, there, BELIEFS), _text(git, there, LONG_TERM), there)


def _text(git: Git, there: Mapping[str, _File], path: str) -> str:
    """Nothing of a file that is too large to be read: only the PM can have put it there."""
    id, size = there.get(path, ("", 0))
    return git.raw("cat-file", "blob", id).decode(errors="surrogateescape") if id and size <= MOST_FILE_BYTES else ""
