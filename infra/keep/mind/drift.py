"""Whether the files of the mind that are the PM's alone are as the PM wrote them; what was found is in `var/mind.json`,
which the watcher writes, and the git door and the host read.

What the PM wrote stands in the last commit on the branch that changed one of them and is not the agent's: the door lets
the agent write in no other name. Branch and clone are compared with it by git's ids. A clone that is behind is none."""

from __future__ import annotations

import hashlib
import itertools
import re
import stat
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from infra.shared.branches import MIND
from infra.shared.files import write_whole
from infra.shared.identity import Identity
from infra.shared.mind.layout import CORE, IDENTITY, INVARIANTS, PM_ONLY
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.changes import COMPARE, Change, parse_raw
from infra.shared.repository.git import Git
from infra.shared.safe_files import Below, Entry, Unseen, whole_file

FILE = "mind.json"
"""In the keep's var."""
MUCH = 0.4
"""Of all words that stand in the old or the new identity, so large a share is not in both: what it says has changed."""
MOST_COMMITS, MOST_FILES, MOST_LINES, DEPTH = 100, 1000, 30, 8
MOST_READ_BYTES = 32 << 20
"""Of all files of the clone: the watcher waits."""
MISSING, ODD = "", "?"
"""In the place of an id: nothing is there; something that is no plain file of a sensible size."""


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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = f"{var}/{FILE} is not what the keep writes ({error}); move it away and run 'minifram restart'"
        raise ValueError(why) from None


def write_drift(var: str, found: MindDrift) -> None:
    write_whole(f"{var}/{FILE}", msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n", 0o600)


class PmsFiles(NamedTuple):
    versions: Sequence[Mapping[str, str]] = ()
    """Path -> id, at each of the PM's commits, the last one first."""
    commit: str = ""
    """The PM's last."""
    by_agent: tuple[str, ...] = ()
    """Those that the branch has otherwise."""
    changes: tuple[str, ...] = ()


def pms_files(git: Git, tip: str) -> PmsFiles:
    """Raises GitError."""
    head, found = "", list[tuple[str, Change]]()
    how = ("-c", f"-{MOST_COMMITS}", "--format=%H %cI %ce", *COMPARE)
    for each in parse_raw(git.raw("log", *how, tip, "--", *PM_ONLY)):
        if isinstance(each, str):
            head = each
        elif not head.endswith(f" {AGENT.email}"):
            found.append((head, each))
    if not found:
        return PmsFiles()
    last = found[0][0][:40]
    listed = git.raw("ls-tree", "-r", "-z", "--full-tree", last, "--", *PM_ONLY).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in listed.split("\0") if line)
    state = {path: words.split(" ")[2] if words.startswith("100") else ODD for words, _, path in lines}
    versions = list[Mapping[str, str]]()
    for _, changes in itertools.groupby(found, key=lambda each: each[0]):
        versions.append(dict(state))
        for _, each in changes:
            state[each.path] = each.id_before if each.mode_before else MISSING
        state = {path: id for path, id in state.items() if id}
    other = git("diff-tree", "-r", "--name-only", "--no-renames", last, tip, "--", *PM_ONLY).splitlines()
    identity = [_large(git, *each) for each in found if each[1].path == IDENTITY][:1]
    return PmsFiles(versions, last, tuple(other), tuple(filter(None, identity)))


def _large(git: Git, head: str, change: Change) -> str:
    """By sets of words: order and number do not count."""
    if not (change.mode_before and change.mode):
        return ""
    old, new = (set(re.findall(r"\w+", git("cat-file", "blob", id).lower())) for id in (change.id_before, change.id))
    share = 1 - len(old & new) / max(1, len(old | new))
    commit, at, _ = head.split(" ")
    return f"{at}: commit {commit[:12]} changed {share:.0%} of the words of {IDENTITY}" if share >= MUCH else ""


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


def drift(pms: PmsFiles, clone: Mapping[str, str] | None) -> tuple[str, ...]:
    """A line for each file that is not as the PM wrote it. Pure."""
    undo = f"'minifram mind restore {pms.commit[:12]}"
    lines = [f"the branch mind: the agent changed {path}; {undo} {path}' undoes it" for path in pms.by_agent]
    if clone is None or not pms.versions or clone in pms.versions:
        return tuple(lines[:MOST_LINES])
    for path in sorted({*pms.versions[0], *clone}):
        there, wanted = clone.get(path, MISSING), pms.versions[0].get(path, MISSING)
        if there == wanted:
            continue
        odd = {MISSING: "is missing", ODD: "is no plain file, or a very large one"}
        what = (
            odd.get(there, "is not as the PM wrote it") if wanted else "is not the PM's, and lies where only they lie"
        )
        lines.append(f"the agent's clone: {ascii(path)[1:-1]:.200} {what}")
    return tuple(lines[:MOST_LINES])
