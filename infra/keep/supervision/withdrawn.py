"""Versions of main that the PM has taken back: such a version does not stand in for main, however well it served.

What the PM did is read from the repository, whatever command or plain git did it. The PM took a version back when a
commit of the PM's gave main what main had held before it, when main's history does not hold it any more (only the PM
can rewrite main), or when it came in by a branch that is kept as rejected."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from infra.keep.supervision.versions import version_of
from infra.keep.watcher_file import Version
from infra.shared.control import KNOWN_GOOD, REFS, REJECTED
from infra.shared.paths import VERSION
from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below, Entry, Unseen

LOOK_SECONDS = 10.0
TICK_SECONDS = 0.1
DEPTH, MOST_REFS = 20, 2000
_REFS, _PROBES = REFS.rpartition("/")[0], REFS
LOOKED_BACK = 500
"""Changes of version."""
MOST = 100
"""The newest are named."""


class HeldVersion(NamedTuple):
    """A change of main's version, as main's own line of history has it."""

    commit: str
    content: tuple[str, ...]
    """What the version is made of."""
    by_pm: bool
    brought: tuple[str, ...] = ()
    """This commit, and those that it merged in."""


def left_behind(line: Iterable[HeldVersion], rejected: frozenset[str] = frozenset()) -> list[str]:
    """A commit of each version that the PM has taken back, the latest last; `line` begins with the oldest.

    What main was given again afterwards is not among them."""
    held: list[HeldVersion] = []
    gone: dict[tuple[str, ...], str] = {}
    for step in line:
        contents = [each.content for each in held]
        if step.by_pm and step.content in contents:
            back = len(contents) - contents[::-1].index(step.content)
            gone |= {each.content: each.commit for each in held[back:]}
            del held[back:]
        else:
            held.append(step)
        if not rejected.isdisjoint(step.brought):
            gone[step.content] = step.commit
    stays = {each.content for each in held if rejected.isdisjoint(each.brought)}
    return [commit for content, commit in gone.items() if content not in stays]


class Withdrawals:
    """Of one repository, looked at again when main's version or what is rejected has changed."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._seen = Version()
        self._refs = ""
        self._known: tuple[str, ...] = ()
        self._stamped: tuple[object, ...] = ()

    def look(self, main: Version) -> tuple[str, ...]:
        """Ids of the versions that the PM has taken back, with this main. Raises GitError."""
        stamp = self._stamp()
        if stamp and (main, stamp) == (self._seen, self._stamped):
            return self._known
        git = self._git.afresh(LOOK_SECONDS)
        refs = git("for-each-ref", "--format=%(objectname) %(refname)", KNOWN_GOOD, REJECTED)
        # Reports move main all day, and take nothing back.
        if refs != self._refs or main.id != self._seen.id or not self._goes_on(git, main.commit):
            rejected = frozenset(line.partition(" ")[0] for line in refs.splitlines() if f" {REJECTED}/" in line)
            self._known = _found(git, main.commit, rejected)
        self._seen, self._refs, self._stamped = main, refs, stamp
        return self._known

    def _stamp(self) -> tuple[object, ...]:
        """Another one when a ref of ours is another one: each launch asks, and git costs a process. Empty when that
        cannot be told: a file of this very moment may change again within one tick of the clock."""
        below = Below(self._git.directory)
        found = list(below.walk(_REFS, depth=DEPTH, most=MOST_REFS, enter=lambda entry: entry.path != _PROBES))
        packed = below.status("packed-refs")
        statuses = [each.status for each in found if isinstance(each, Entry) and each.path != _PROBES]
        statuses += [packed] if packed else []
        if not statuses or any(isinstance(each, Unseen) for each in found):
            return ()
        if max(status.st_mtime for status in statuses) > time.time() - TICK_SECONDS:
            return ()
        return tuple((status.st_ino, status.st_mtime_ns) for status in statuses)

    def _goes_on(self, git: Git, main: str) -> bool:
        try:
            return self._seen.commit == main or git.ok("merge-base", "--is-ancestor", self._seen.commit, main)
        except GitError:  # what main held is gone, and with it the way from there
            return False


def _found(git: Git, main: str, rejected: frozenset[str]) -> tuple[str, ...]:
    line = _line(git, main)
    held = {each.content for each in line}
    lost = git("for-each-ref", "--format=%(objectname)", f"--no-merged={main}", KNOWN_GOOD).splitlines()
    found = [commit for commit, content in zip(lost, _contents(git, lost), strict=True) if content not in held]
    found += left_behind(line, rejected)
    return tuple(dict.fromkeys(version_of(git, commit).id for commit in found[-MOST:]))


def _line(git: Git, main: str) -> list[HeldVersion]:
    """Main's own line, the oldest first. NUL divides the answer, which no commit can hold. Raises GitError."""
    words = ("--first-parent", "--reverse", f"--max-count={LOOKED_BACK}", "--format=%H%x00%P%x00%ce%x00")
    fields = git.raw("log", *words, main, "--", *VERSION).decode(errors="replace").split("\0")
    commits = [commit.removeprefix("\n") for commit in fields[0:-1:3]]
    others = (AGENT.email, WATCHER.email)
    return [
        HeldVersion(commit, content, email.lower() not in others, (commit, *parents.split(" ")[1:]))
        for commit, parents, email, content in zip(
            commits, fields[1::3], fields[2::3], _contents(git, commits), strict=True
        )
    ]


def _contents(git: Git, commits: list[str]) -> list[tuple[str, ...]]:
    """What the version of each of these commits is made of, with one question to git. Raises GitError."""
    asked = "".join(f"{commit}:{path}\n" for commit in commits for path in VERSION)
    answers = git("cat-file", "--batch-check=%(objectname)", stdin=asked.encode()).splitlines() if commits else []
    ids = ["" if answer.endswith(" missing") else answer for answer in answers]
    return [tuple(ids[at : at + len(VERSION)]) for at in range(0, len(ids), len(VERSION))]
