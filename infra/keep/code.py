"""What runs: a copy that the keep makes of a commit, and the versions of commits.

Nothing is imported from a clone. The copy is made of the shared repository's objects, byte by byte (git-archive(1)
would obey the commit's attributes), where the cell may read and not write."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable

from infra.keep.watcher_file import Version
from infra.shared.paths import BODY, PAGES
from infra.shared.repository.git import Git, TooMuch
from infra.shared.repository.version import TREE_BYTES, body_of, is_keeps

MOST_BYTES, MOST_FILES, MOST_PATH = 4 << 20, 1000, 250
"""Of a copy's files, and of their listing: any copy fits with its bytecode into the container's `/code`, where a file
takes at least 4 KiB."""
COMPILE_SECONDS = 30
_LIMITS = (f"--cpu={COMPILE_SECONDS}", "--as=1073741824", f"--fsize={MOST_BYTES}", "--core=0")
_MODES = {b"100644": 0o644, b"100755": 0o755}


class NoCode(Exception):
    """A commit holds nothing that can be run; says why."""


def export(git: Git, commit: str, folder: str) -> str:
    """The directory below `folder` that holds what runs of this commit (`paths.BODY` but the keep's part of `infra`);
    it is made unless it is there. Raises NoCode, GitError, OSError."""
    try:
        listed = git.saying_at_most(MOST_BYTES).raw("ls-tree", "-r", "-z", "--full-tree", commit, "--", *BODY)
        entries = [entry for entry in listed.split(b"\0")[:-1] if not is_keeps(entry.partition(b"\t")[2])]
        made = f"{folder}/{_id(b''.join(entries))}"
        if not os.path.isdir(made):
            _make(git, made, entries)
    except TooMuch:
        raise NoCode(f"{commit[:12]} has more than {MOST_BYTES:,} bytes of code; make it smaller") from None
    return made


def remove_others(folder: str, kept: Iterable[str]) -> None:
    """Remove all copies but these, and what a killed watcher left half made. Raises OSError."""
    os.makedirs(folder, 0o711, exist_ok=True)
    for name in set(os.listdir(folder)) - {os.path.basename(each) for each in kept}:
        shutil.rmtree(f"{folder}/{name}")


def version_of(git: Git, commit: str) -> Version:
    """The version of a commit of main: what a start can fail for. Raises GitError."""
    return Version(commit, _id(body_of(git, commit)))


def candidate_of(git: Git, commit: str) -> Version:
    """The version of a branch: all that it holds but the pages. A branch fails for itself: main, which may start from
    the same files, is not to be pinned with it. Raises GitError."""
    entries = git.saying_at_most(TREE_BYTES).raw("ls-tree", "-z", "--full-tree", commit).split(b"\0")
    kept = (entry for entry in entries if entry.partition(b"\t")[2].decode(errors="replace") not in PAGES)
    return Version(commit, "branch-" + _id(b"\0".join(kept)))


def _id(listed: bytes) -> str:
    return hashlib.sha256(listed).hexdigest()[:16]


def _make(git: Git, made: str, entries: list[bytes]) -> None:
    """Beside its place, and renamed, so that no half is ever run."""
    files = [entry.partition(b"\t")[::2] for entry in entries]
    if not any(path.startswith(b"infra/") for _, path in files):
        raise NoCode("it has no directory infra")
    if len(files) > MOST_FILES:
        raise NoCode(f"it has {len(files)} files of code, expected at most {MOST_FILES}")
    asked = b"".join(facts.split(b" ")[2] + b"\n" for facts, _ in files)
    answer = io.BytesIO(git.saying_at_most(MOST_BYTES).raw("cat-file", "--batch", stdin=asked))
    half = os.fsencode(tempfile.mkdtemp(prefix="half-", dir=os.path.dirname(made)))
    try:
        for facts, path in files:
            mode, _, blob = facts.split(b" ")
            if mode not in _MODES or len(path) > MOST_PATH or {b"", b".", b".."} & set(path.split(b"/")):
                why = f"is no plain file with a path of at most {MOST_PATH} bytes"
                raise NoCode(f"{os.fsdecode(path)!r} {why}; what runs has neither links nor submodules")
            head = answer.readline()
            if not head.startswith(blob + b" blob "):
                raise NoCode(f"the repository has lost {os.fsdecode(path)!r}")
            os.makedirs(os.path.dirname(half + b"/" + path), exist_ok=True)
            copy = os.open(half + b"/" + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODES[mode])
            with os.fdopen(copy, "wb") as file:
                file.write(answer.read(int(head.split(b" ")[2]) + 1)[:-1])
        _compile(half)
        os.chmod(half, 0o755)  # noqa: S103 - the cell runs it
        os.rename(half, made)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise


def _compile(directory: bytes) -> None:
    """Bytecode that Python believes unseen (PEP 552): nobody who runs it could write another. Without it, a version
    only starts more slowly."""
    ends_with_us = ("setpriv", "--pdeathsig", "KILL", "prlimit", *_LIMITS)
    words = (sys.executable, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", ".")
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [*ends_with_us, *words],
            cwd=directory,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMPILE_SECONDS,
            check=False,
        )
