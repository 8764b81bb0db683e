"""What a running agent is made of, in a commit: the cell's code, what it shares with the keep, and its requirements."""

from __future__ import annotations

from infra.shared.paths import BODY
from infra.shared.repository.git import Git

_INSIDE = BODY[0].encode() + b"/"
KEEP = b"infra/keep"
_PROGRAMS = (b"git_door", b"model_door", b"seal", b"watcher", b"web_door")
_KEEPS = (KEEP, *(b"infra/" + name + b".py" for name in _PROGRAMS))
"""The keep's code. In a checkout it runs nowhere: the image has its own, and `tests/shared/test_zones.py`, which every
examination runs, refuses a runner that imports it."""
TREE_BYTES = 4 << 20
"""Of one directory, as listed."""


def body_of(git: Git, commit: str, *more: str) -> bytes:
    """git's listing of the body and of the files `more` in this commit: the same for the same version. Raises GitError.

    All of `infra` counts but the keep's part, whatever it is called: a package `infra/runner` is run in the place of
    `infra/runner.py`."""
    bounded = git.saying_at_most(TREE_BYTES)
    words = ("ls-tree", "-z", "--full-tree", commit, "--")
    entries = bounded.raw(*words, f"{BODY[0]}/", *BODY[1:], *more).split(b"\0")[:-1]
    named = {entry.partition(b"\t")[2]: entry for entry in entries}
    inside = [entry for name, entry in named.items() if name.startswith(_INSIDE) and name not in _KEEPS]
    beside = [entry for name, entry in named.items() if not name.startswith(_INSIDE)]
    return b"".join(entry + b"\0" for entry in inside + beside)
