"""What a running agent is made of, in a commit: the cell's code, what it shares with the keep, and what these read."""

from __future__ import annotations

from infra.shared.paths import BODY
from infra.shared.repository.git import Git

_INSIDE = BODY[0].encode() + b"/"
KEEP = b"infra/keep"
_PROGRAMS = (b"git_door", b"model_door", b"seal", b"watcher", b"web_door")
_KEEPS = (KEEP, *(b"infra/" + name + b".py" for name in _PROGRAMS))
"""The keep's code. Of a commit it runs nowhere: the image has its own."""
TREE_BYTES = 4 << 20
"""Of one directory, as listed."""


def is_keeps(path: bytes) -> bool:
    """Whether a file of a commit belongs to the keep's code."""
    return path in _KEEPS or path.startswith(KEEP + b"/")


def body_of(git: Git, commit: str) -> bytes:
    """git's listing of the body in this commit: the same for the same version. Raises GitError.

    All of `infra` counts but the keep's part, whatever it is called: a package `infra/runner` is run in the place of
    `infra/runner.py`."""
    bounded = git.saying_at_most(TREE_BYTES)
    words = ("ls-tree", "-z", "--full-tree", commit, "--")
    entries = bounded.raw(*words, f"{BODY[0]}/", *BODY[1:]).split(b"\0")[:-1]
    named = {entry.partition(b"\t")[2]: entry for entry in entries}
    inside = [entry for name, entry in named.items() if name.startswith(_INSIDE) and name not in _KEEPS]
    beside = [entry for name, entry in named.items() if not name.startswith(_INSIDE)]
    return b"".join(entry + b"\0" for entry in inside + beside)
