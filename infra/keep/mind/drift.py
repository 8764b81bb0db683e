"""Whether the files of the mind that are the PM's alone are as the PM wrote them; what was found is in `var/mind.json`,
which the watcher writes and `minifram status` reads.

What the PM wrote stands in the last commit on the branch that changed one of them and is not the agent's: the door lets
the agent write in no other name. Branch and clone are compared with it by git's ids; a clone that is behind has them as
an earlier of these commits has."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Mapping, Sequence

import msgspec

from infra.shared.branches import MIND
from infra.shared.files import write_whole
from infra.shared.identity import Identity
from infra.shared.mind.layout import CORE, IDENTITY, INVARIANTS, PM_ONLY
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from infra.shared.safe_files import Below, Entry, Unseen, whole_file

FILE = "mind.json"
"""In the keep's var."""
MUCH = 0.4
"""Of all words that stand in the old or the new identity, so large a share is not in both: what it says has changed."""
MOST_COMMITS, MOST_FILES, MOST_LINES, DEPTH = 100, 1000, 30, 8
MOST_READ_BYTES = 32 << 20
"""Of all files of the clone: the watcher waits."""
ODD = "?"
"""In the place of the id of what is no plain file of a sensible size."""


class MindDrift(msgspec.Struct, frozen=True):
    lines: tuple[str, ...] = ()
    """What is not as the PM wrote it; empty when all is right, or was never looked at."""
    changes: tuple[str, ...] = ()
    """The PM's last change of the identity, when it is a large one."""


def read_drift(var: str) -> MindDrift:
    """Raises OSError, and ValueError for what is no such file."""
    try:
        return msgspec.json.decode(whole_file(f"{var}/{FILE}"), type=MindDrift)
    except FileNotFoundError:
        return MindDrift()
    except ValueError as error:
        raise ValueError(f"{var}/{FILE} is not what the keep writes ({error}); 'minifram restart' writes it") from None


def write_drift(var: str, found: MindDrift) -> None:
    write_whole(
        f"{var}/{FILE}", msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n", 0o600, durable=False
    )


def look(git: Git, tip: str, clone: Mapping[str, str] | None) -> MindDrift:
    """Of the branch at `tip` and the clone's files, as `in_clone` has them. Raises GitError."""
    commits = _by_the_pm(git, tip, PM_ONLY)
    if not commits:
        return MindDrift()
    last = commits[0]
    changed = git("diff-tree", "-r", "--name-only", "--no-renames", last, tip, "--", *PM_ONLY).splitlines()
    undo = f"'minifram mind restore {last[:12]}"
    lines = [f"the branch mind: the agent changed {path}; {undo} {path}' undoes it" for path in changed]
    if clone is not None and all(clone != _in_commit(git, each) for each in commits):
        differ = {path for path, _ in _in_commit(git, last).items() ^ clone.items()}
        lines += [f"the agent's clone: {ascii(path)[1:-1]:.200} is not as the PM wrote it" for path in sorted(differ)]
    identity = [_large(git, each) for each in _by_the_pm(git, tip, (IDENTITY,))[:1]]
    return MindDrift(tuple(lines[:MOST_LINES]), tuple(filter(None, identity)))


def _by_the_pm(git: Git, tip: str, paths: Sequence[str]) -> list[str]:
    """Commits that changed these and are not the agent's, the last one first."""
    lines = git("log", f"-{MOST_COMMITS}", "--format=%H %ce", tip, "--", *paths).splitlines()
    return [id for id, _, email in (line.partition(" ") for line in lines) if email != AGENT.email]


def _in_commit(git: Git, commit: str) -> dict[str, str]:
    """Path -> id."""
    listed = git.raw("ls-tree", "-r", "-z", "--full-tree", commit, "--", *PM_ONLY).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in listed.split("\0") if line)
    return {path: words.split(" ")[2] if words.startswith("100") else ODD for words, _, path in lines}


def _large(git: Git, commit: str) -> str:
    """By sets of words: order and number do not count."""
    at, *versions = git("log", "-1", "--format=%cI %H %P", commit).split()  # itself and its parents
    old, new = (set(re.findall(r"\w+", (read_file(git, versions[which], IDENTITY) or "").lower())) for which in (-1, 0))
    share = 1 - len(old & new) / max(1, len(old | new))
    is_change = old and new and share >= MUCH
    return f"{at}: commit {commit[:12]} changed {share:.0%} of the words of {IDENTITY}" if is_change else ""


def in_clone(places: Paths, cell: Identity) -> dict[str, str] | None:
    """Path -> id; None when there is no clone. Links are not followed, and so much is read in one look, and no more."""
    bot, found, left, core = Below(places.bot, cell), dict[str, str](), MOST_READ_BYTES, f"{MIND}/{CORE}"
    there = ((path, bot.status(path)) for path in (f"{MIND}/{IDENTITY}", f"{MIND}/{INVARIANTS}"))
    below = bot.walk(core, depth=DEPTH, most=MOST_FILES, seconds=3.0) if bot.status(core) else ()
    for each in (*(Entry(path, status) for path, status in there if status), *below):
        path = each.path.removeprefix(f"{MIND}/")
        if isinstance(each, Unseen):
            found[path] = ODD
        elif not stat.S_ISDIR(each.status.st_mode):
            left -= each.status.st_size
            found[path] = _id_of(bot, each.path) if left >= 0 else ODD
    is_to_be_made = not bot.status(MIND) or (bot.is_directory(MIND) and not bot.status(f"{MIND}/.git"))
    return found if found or not is_to_be_made else None


def _id_of(bot: Below, path: str) -> str:
    try:
        content = bot.whole(path, MOST_READ_BYTES)
    except OSError:
        return ODD
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
