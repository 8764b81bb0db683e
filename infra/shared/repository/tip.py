"""A branch tip that several people move at once, and the one way we move it: look, build the next commit on
what was seen, move only if it is still what was seen, else again. So nobody's work is lost and nobody meets a
conflict (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page_text import PAGES

ATTEMPTS = 50
"""Losing a race costs one attempt; each loss means that somebody else's push went through."""


class Tip(Protocol):
    """A branch of the shared repository, from one of its two sides."""

    git: Git

    def look(self) -> str:
        """The commit it is at, present in `git`. Raises GitError."""

    def move(self, old: str, new: str) -> bool:
        """Move it from `old` to `new`; False when it is no longer at `old`. Raises GitError for any other refusal."""


class BareTip:
    """The tip in the bare repository itself: the keep's and the host's side."""

    def __init__(self, git: Git, branch: str = "main") -> None:
        self.git = git
        self._ref = f"refs/heads/{branch}"

    def look(self) -> str:
        return self.git("rev-parse", "--verify", self._ref)

    def move(self, old: str, new: str) -> bool:
        try:
            update_refs(self.git, f"update {self._ref} {new} {old}")
        except GitError as error:
            if error.status is None:  # there is no time to look again
                raise
            now = self.look()
            if now == old:
                raise
            return now == new
        return True


class CloneTip:
    """The tip seen from a clone: moved by a push through the git door."""

    def __init__(self, git: Git, branch: str = "main") -> None:
        self.git = git
        self._branch = branch

    def look(self) -> str:
        ref = f"refs/remotes/origin/{self._branch}"
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head")
        for attempt in range(1, _LOOKS + 1):
            try:
                self.git("fetch", *quiet, "origin", f"+refs/heads/{self._branch}:{ref}")
                break
            except GitError as error:
                if "cannot lock ref" not in error.stderr or attempt == _LOOKS:
                    raise
        return self.git("rev-parse", "--verify", ref)

    def move(self, old: str, new: str) -> bool:
        ref = f"refs/heads/{self._branch}"
        try:
            # The lease forces nothing, as `new` is built on `old`; it tells a tip that moved back from one that stayed.
            self.git("push", "--quiet", "--porcelain", f"--force-with-lease={ref}:{old}", "origin", f"{new}:{ref}")
        except GitError as error:
            verdict = [line for line in error.stdout.decode(errors="replace").splitlines() if line.startswith("!")]
            if any(line.endswith(_LOST) for line in verdict):
                return False
            now = self.look()
            if now == old:
                raise GitError(error.words, error.status, "\n".join([error.stderr, *verdict]), error.stdout) from None
            return now == new
        return True


_LOOKS = 3
"""Somebody else fetching in the same clone at the same moment costs one."""


_LOST = (
    "(stale info)",
    "(fetch first)",
    "(non-fast-forward)",
    "(failed to update ref)",
    "(cannot lock ref)",
    "(incorrect old value provided)",
)
"""How git's own line on a push ends when somebody else was first. Nothing else is looked at: the door's words come
on other lines, and might be the same."""


class TipBusy(Exception):
    """Others moved the branch at every one of `ATTEMPTS` attempts."""


def advance(tip: Tip, next_commit: Callable[[str], str | None]) -> str:
    """Move the tip to `next_commit(seen)`; None leaves it. Gives the commit it is at then.

    `next_commit` is called again with the newer commit when a race was lost. Raises GitError, TipBusy, and
    whatever `next_commit` raises; then the tip is where others left it."""
    for _ in range(ATTEMPTS):
        seen = tip.look()
        new = next_commit(seen)
        if new is None or new == seen:
            return seen
        if tip.move(seen, new):
            return new
    raise TipBusy(
        f"{ATTEMPTS} attempts to move a branch lost against other pushes, or against a lock file that somebody left "
        "beside the ref; try again, and if it stays so look for *.lock in the repository"
    )


class Entry(NamedTuple):
    """A file as a tree holds it."""

    mode: str
    id: str


def file_at(git: Git, commit: str, path: str) -> Entry | None:
    """The file at `path` of a commit, also a link; None when there is none. Raises GitError.

    A listing, because only that tells "not there" from "cannot be read"; whoever takes the second for the first
    writes an empty page over a full one."""
    listed = git.raw("ls-tree", "-z", "--full-tree", commit, "--", path).decode(errors="surrogateescape")
    for line in listed.split("\0"):
        words, _, name = line.partition("\t")
        mode, _, rest = words.partition(" ")
        kind, _, id = rest.partition(" ")
        if name == path and kind == "blob":
            return Entry(mode, id)
    return None


def read_file(git: Git, commit: str, path: str) -> str | None:
    """A text file of a commit; None when it is not there. Bytes that are not UTF-8 survive a write back.

    A link is not followed: it reads as not there. Raises GitError."""
    entry = file_at(git, commit, path)
    if entry is None or entry.mode == _LINK:
        return None
    return git.raw("cat-file", "blob", entry.id).decode(errors="surrogateescape")


_FILE, _EXECUTABLE, _LINK, _DIRECTORY = "100644", "100755", "120000", "040000"


def edit_file(git: Git, path: str, edit: Callable[[str], str], message: str) -> Callable[[str], str | None]:
    """A `next_commit` that changes one file (missing reads as empty) and nothing else."""

    def next_commit(seen: str) -> str | None:
        old = read_file(git, seen, path) or ""
        new = edit(old)
        if new == old:
            return None
        blob = git("hash-object", "-w", "--stdin", stdin=new.encode(errors="surrogateescape"))
        return commit_tree(git, tree_with(git, seen, {path: blob}), (seen,), message)

    return next_commit


def tree_with(git: Git, base: str, blobs: dict[str, str | None]) -> str:
    """The tree of `base` (a commit or tree) with these paths set to these blobs; None removes a path.

    A file that was there keeps its mode."""
    return tree_with_entries(git, base, {path: Entry("", blob) if blob else None for path, blob in blobs.items()})


def tree_with_entries(git: Git, base: str, entries: dict[str, Entry | None]) -> str:
    """The same with each file's mode said (empty: as it was). What stood at a path is replaced, whatever it was."""
    listed = git.raw("ls-tree", "-z", "--full-tree", base).decode(errors="surrogateescape").split("\0")
    tree = {name: words for words, _, name in (line.partition("\t") for line in listed if line)}
    inner: dict[str, dict[str, Entry | None]] = {}
    for path, entry in entries.items():
        name, below, rest = path.partition("/")
        was = tree.get(name, "").partition(" ")[0]
        if below:
            inner.setdefault(name, {})[rest] = entry
        elif entry:
            mode = entry.mode or (was if was in (_FILE, _EXECUTABLE) else _FILE)
            tree[name] = f"{mode} blob {entry.id}"
        else:
            tree.pop(name, None)
    for name, changes in inner.items():
        mode, _, rest = tree.pop(name, "").partition(" ")
        subtree = tree_with_entries(git, rest.split()[-1] if mode == _DIRECTORY else _EMPTY_TREE, changes)
        if subtree != _EMPTY_TREE:
            tree[name] = f"{_DIRECTORY} tree {subtree}"
    # Not `mktree`, which knows no `core.fsync`: a power cut would leave main at a commit whose tree is an empty file.
    return git("hash-object", "-t", "tree", "-w", "--stdin", stdin=_tree_object(tree))


def _tree_object(tree: dict[str, str]) -> bytes:
    """As git keeps it: of each entry the mode, the name and the id's bytes; a directory sorts as if it ended in `/`."""
    entries = []
    for name, words in tree.items():
        mode, kind, id = words.split()
        raw = name.encode(errors="surrogateescape")
        entry = mode.lstrip("0").encode() + b" " + raw + b"\0" + bytes.fromhex(id)
        entries.append((raw + b"/" if kind == "tree" else raw, entry))
    return b"".join(entry for _, entry in sorted(entries))


_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def commit_tree(git: Git, tree: str, parents: tuple[str, ...], message: str) -> str:
    """A new commit. What git cannot keep in a message (zero bytes, half of a surrogate pair) is written as `?`."""
    words = [word for parent in parents for word in ("-p", parent)]
    return git("commit-tree", tree, *words, stdin=message.replace("\0", "?").encode(errors="replace"))


def rollback_commit(git: Git, seen: str, target: str, message: str, kept: dict[str, Entry | None] | None = None) -> str:
    """A new commit on `seen` whose tree is `target`'s, with the pages kept from `seen`: history only grows.

    `target` is any ref; raises LookupError when it names no commit. `kept`: how other files are to stand."""
    wanted = resolve_commit(git, target)
    if wanted is None:
        raise LookupError(f"{target!r} names no commit in the repository; see 'git log --oneline --all'")
    pages = {page: file_at(git, seen, page) for page in PAGES}
    tree = tree_with_entries(git, wanted, {**(kept or {}), **pages})
    return commit_tree(git, tree, (seen,), message)


def resolve_object(git: Git, name: str) -> str | None:
    """The id that `name` (such as `<commit>:<path>`) stands for; None when there is no such thing. Raises GitError."""
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", name)
    except GitError as error:
        if error.status == 1:
            return None
        raise
