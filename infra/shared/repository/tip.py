"""A branch tip that several people move at once, and the one way we move it: look, build the next commit on what was
seen, move only if the branch is still there, else try again. So no work is lost and nobody meets a conflict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from infra.shared.repository.git import EMPTY_TREE, Git

ATTEMPTS = 50
"""Each lost race costs one attempt, and means that another push succeeded."""


class Tip(Protocol):
    """A branch of the shared repository, from one of its two sides."""

    git: Git

    def look(self) -> str:
        """The commit it is at, present in `git`. Raises GitError."""

    def move(self, old: str, new: str) -> bool:
        """Move it from `old` to `new`; False when it is no longer at `old`. Raises GitError for any other refusal."""


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
        f"{ATTEMPTS} attempts to move a branch lost against other pushes, or against a lock file that was left "
        "beside the ref; try again, and if it stays so look for *.lock in the repository"
    )


class TreeEntry(NamedTuple):
    """One entry of a directory."""

    mode: str
    id: str


_FILE, _EXECUTABLE, _LINK, DIRECTORY, _SUBMODULE = "100644", "100755", "120000", "040000", "160000"


def list_tree(git: Git, tree: str, *paths: str) -> dict[str, TreeEntry]:
    """One directory of a commit or tree (or these paths of it), by name. Raises GitError."""
    listed = git.raw("ls-tree", "-z", "--full-tree", tree, "--", *paths).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in listed.split("\0") if line)
    return {name: TreeEntry(words.split()[0], words.split()[2]) for words, _, name in lines}


def file_at(git: Git, commit: str, path: str) -> TreeEntry | None:
    """The file at `path` of a commit, also a link; None when there is none. Raises GitError.

    A listing, because only that tells "not there" from "cannot be read"; a caller that took the second for the first
    would write an empty page over a full one."""
    entry = list_tree(git, commit, path).get(path)
    return entry if entry and entry.mode not in (DIRECTORY, _SUBMODULE) else None


def read_file(git: Git, commit: str, path: str) -> str | None:
    """A text file of a commit; None when it is not there. Bytes that are not UTF-8 survive a write back.

    A link is not followed: it reads as not there. Raises GitError."""
    entry = file_at(git, commit, path)
    if entry is None or entry.mode == _LINK:
        return None
    return git.raw("cat-file", "blob", entry.id).decode(errors="surrogateescape")


def write_file(git: Git, text: str) -> str:
    """The id of a new blob. Raises GitError."""
    return git("hash-object", "-w", "--stdin", stdin=text.encode(errors="surrogateescape"))


def edit_file(git: Git, path: str, edit: Callable[[str], str], message: str) -> Callable[[str], str | None]:
    """A `next_commit` that changes one file (missing reads as empty) and nothing else."""

    def next_commit(seen: str) -> str | None:
        old = read_file(git, seen, path) or ""
        new = edit(old)
        if new == old:
            return None
        return commit_tree(git, tree_with(git, seen, {path: write_file(git, new)}), (seen,), message)

    return next_commit


def tree_with(git: Git, base: str, entries: Mapping[str, TreeEntry | str | None]) -> str:
    """The tree of `base` (a commit or tree) with these paths set; None removes a path, and a blob's id alone keeps the
    mode of a file that is there. Anything at such a path is replaced."""
    # By directory: to read a whole tree into an index could take for ever, as one can hold itself many times over.
    tree = list_tree(git, base)
    inner: dict[str, dict[str, TreeEntry | str | None]] = {}
    for path, entry in entries.items():
        name, below, rest = path.partition("/")
        if below:
            inner.setdefault(name, {})[rest] = entry
        elif entry is None:
            tree.pop(name, None)
        elif isinstance(entry, str):
            is_executable = name in tree and tree[name].mode == _EXECUTABLE
            tree[name] = TreeEntry(_EXECUTABLE if is_executable else _FILE, entry)
        else:
            tree[name] = entry
    for name, below_it in inner.items():
        old = tree.pop(name, None)
        subtree = tree_with(git, old.id if old and old.mode == DIRECTORY else EMPTY_TREE, below_it)
        if subtree != EMPTY_TREE:
            tree[name] = TreeEntry(DIRECTORY, subtree)
    return write_tree(git, tree)


def write_tree(git: Git, entries: Mapping[str, TreeEntry]) -> str:
    """The id of a new tree that holds these. Raises GitError."""
    lines = []
    for name, entry in entries.items():
        raw = name.encode(errors="surrogateescape")
        line = entry.mode.lstrip("0").encode() + b" " + raw + b"\0" + bytes.fromhex(entry.id)
        # git sorts a directory as if its name ended in a slash
        lines.append((raw + b"/" if entry.mode == DIRECTORY else raw, line))
    # Not `mktree`, which knows no `core.fsync`: a power cut would leave main at a commit whose tree is an empty file.
    return git("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"".join(line for _, line in sorted(lines)))


def commit_tree(git: Git, tree: str, parents: tuple[str, ...], message: str) -> str:
    """A new commit. What git cannot keep in a message (zero bytes, half of a surrogate pair) is written as `?`."""
    words = [word for parent in parents for word in ("-p", parent)]
    return git("commit-tree", tree, *words, stdin=message.replace("\0", "?").encode(errors="replace"))
