"""What in a bare repository's directory makes git do more than git: run a program, read or write elsewhere, wait for
ever, show another history than there is. And, for `minifram doctor`, whether it is what `minifram init` made.

`quick` is what every command does before git: the top, all of refs, of objects the first level, info and pack.
`thorough` looks at each object too. Both look only, at names and kinds and the first bytes of small files, through
descriptors that no link can turn aside, and at a bounded number of entries.

Between such a look and git's own the repository may change, below `objects` and `refs` alone where a container holds
the agent. What that can do is bounded elsewhere: git then waits until its time is up, or reads and writes files named
like refs and objects through a planted link; no program runs, as what names programs is at the top."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from infra.shared.safe_files import Below, Entry, Unseen

QUICK_ENTRIES = 100_000
THOROUGH_ENTRIES = 500_000
DEPTH = 40
"""Of directories below refs; a branch name of 200 characters with a directory every fifth has as many."""
CONFIG_BYTES = 64 << 10
PACKED_REFS_BYTES = 64 << 20
REF_BYTES = 4096

_REMOVE = "remove it"
_REMOVE_OR_KEEP = "remove it unless you put it there"
_COPY = "put it back from a copy"


class Finding(NamedTuple):
    """One thing that should not be there."""

    path: str
    """Below the repository; empty for the repository itself."""
    what: str
    remedy: str = _REMOVE
    stops: bool = True
    """minifram does no work beside it; the others only `doctor` reports."""


_KNOWN = {
    # What git reads where `minifram init` puts nothing, and what it makes of it.
    "commondir": Finding("commondir", "makes git read another repository's configuration"),
    "config.worktree": Finding("config.worktree", "is a second configuration"),
    "shallow": Finding("shallow", "cuts history off"),
    "info/grafts": Finding("info/grafts", "shows another history than there is"),
    "info/attributes": Finding("info/attributes", "can hide changes from you, and name drivers for merges and diffs"),
    "objects/info/alternates": Finding("objects/info/alternates", "takes objects from another place"),
    "objects/info/http-alternates": Finding("objects/info/http-alternates", "takes objects from another place"),
} | {
    # The same for what minifram's own calls never come to.
    path: Finding(path, what, _REMOVE_OR_KEEP, stops=False)
    for path, what in {
        "gitdir": "makes this a part of another repository",
        "worktrees": "makes other directories part of this repository",
        "modules": "holds other repositories with their own configuration",
        "remotes": "names other repositories to fetch from and push to",
        "branches": "names other repositories to fetch from",
        "reftable": "holds refs in another format than this repository's",
    }.items()
}
_EXPECTED = re.compile(
    r"HEAD|config|description|objects|refs|packed-refs|hooks|logs|info|info/(exclude|refs)|[A-Z_]+_HEAD|gc\.(pid|log)"
    r"|(HEAD|config|packed-refs|gc\.pid)\.(lock|new)|objects/(info|pack|[0-9a-f]{2})"
    r"|objects/[0-9a-f]{2}/([0-9a-f]{38}|[0-9a-f]{62}|tmp_obj_\w+)"
    r"|objects/pack/(pack-[0-9a-f]{40,64}\.\w+|multi-pack-index[-.\w]*|\.?tmp[-_.\w]*)"
    r"|objects/info/(packs|commit-graphs?)|objects/info/commit-graphs/.*|objects/(tmp_objdir|incoming)-.*|(refs|logs)/.*"
)
"""What git itself puts into a bare repository. What stands below refs is judged by its name as a ref."""
_CACHES = re.compile(r"objects/info/commit-graphs?|objects/pack/multi-pack-index.*")
_LIMITS = {"config": CONFIG_BYTES, "packed-refs": PACKED_REFS_BYTES, "HEAD": REF_BYTES}
_FILES, _DIRECTORIES = ("HEAD", "config", "packed-refs"), ("objects", "refs", "objects/info", "objects/pack")
_REF_NAME = re.compile(r"refs/\w+/[A-Za-z0-9][A-Za-z0-9._+/-]*", re.ASCII)
_REPOSITORY = {"HEAD", "objects", "refs"}


def quick(remote: str, uid: int, most: int = QUICK_ENTRIES) -> Iterator[Finding]:
    """What keeps minifram from working on `remote`, which `uid` must own."""
    return (found for found in _look(remote, uid, most, every_object=False) if found.stops)


def thorough(remote: str, uid: int, most: int = THOROUGH_ENTRIES) -> Iterator[Finding]:
    """Everything that should not be there, and whether all could be looked at."""
    return _look(remote, uid, most, every_object=True)


def in_words(remote: str, found: Finding) -> str:
    return f"{f'{remote}/{found.path}'.rstrip('/')} {found.what}: {found.remedy}"


def _look(remote: str, uid: int, most: int, every_object: bool) -> Iterator[Finding]:
    try:
        root = os.lstat(remote)
    except OSError as error:
        yield Finding("", f"cannot be opened ({error.strerror})", _COPY)
        return
    if not stat.S_ISDIR(root.st_mode):
        yield Finding("", "is not a directory", _COPY)
        return
    if root.st_uid != uid:
        what = f"belongs to uid {root.st_uid}, expected you ({uid})"
        yield Finding("", what, "give it back to its owner: chown -R, as root; or run minifram as that user")
    if root.st_mode & 0o022:
        what = f"can be written to by others (mode {stat.S_IMODE(root.st_mode):04o})"
        yield Finding("", what, "take that away: chmod 700")
    files = Below(remote)
    held: dict[str, set[str]] = {}
    for found in files.walk(depth=DEPTH, most=most, enter=lambda entry: _enters(entry.path, every_object)):
        if isinstance(found, Unseen):
            yield _unseen(found, most, every_object)
            continue
        parent, _, name = found.path.rpartition("/")
        if parent and name in _REPOSITORY:
            held.setdefault(parent, set()).add(name)
        yield from _of_entry(files, found, uid, root.st_dev)
    for path, names in held.items():
        if names == _REPOSITORY:
            what = "is a repository inside the repository; git that runs in it obeys its configuration"
            yield Finding(path, what, stops=False)


def _enters(path: str, every_object: bool) -> bool:
    top, _, rest = path.partition("/")
    if top != "objects":
        return top in ("refs", "info", "logs")
    return every_object or rest in ("", "info", "pack") or rest.startswith("info/")


def _unseen(found: Unseen, most: int, every_object: bool) -> Finding:
    if not found.at_bound:
        return Finding(found.path, f"cannot be opened ({found.why})", f"chmod u+rwx, or {_COPY}")
    if found.path:
        return Finding(found.path, f"is over {DEPTH} directories deep")
    if every_object:
        return Finding("", f"holds over {most:,} entries, the rest was not looked at", "pack it: git gc", False)
    what = f"holds over {most:,} refs, or files beside its objects: too many to look at before each command"
    return Finding("", what, "find out what makes them: find refs | head; then remove them")


def _of_entry(files: Below, entry: Entry, uid: int, device: int) -> Iterator[Finding]:
    path, status = entry
    mode = status.st_mode
    is_file, is_directory = stat.S_ISREG(mode), stat.S_ISDIR(mode)
    if status.st_uid != uid:
        what = f"belongs to uid {status.st_uid}, expected you ({uid})"
        yield Finding(path, what, "see who wrote it, then remove it or give it back: chown", path in _LIMITS)
    elif mode & 0o002 and not stat.S_ISLNK(mode):
        yield Finding(path, f"can be written to by all (mode {mode & 0o7777:04o})", "chmod o-w", stops=False)
    if is_file and mode & (stat.S_ISUID | stat.S_ISGID):
        yield Finding(path, f"runs with its owner's rights (mode {mode & 0o7777:04o})", stops=False)
    if not is_file and not is_directory:
        kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        yield Finding(path, f"is {kind}, which git would follow or wait for")
        return
    if path in _FILES and is_directory:
        yield Finding(path, "is a directory, expected a file", _COPY)
    elif path in _DIRECTORIES and not is_directory:
        yield Finding(path, "is a file, expected a directory", _COPY)
    elif path in _KNOWN:
        yield _KNOWN[path]
    elif not _EXPECTED.fullmatch(path):
        yield Finding(path, "is nothing that git or minifram put there", _REMOVE_OR_KEEP, stops=False)
    if is_file:
        yield from _of_file(files, entry)
    elif status.st_dev != device:
        yield Finding(path, "lies on another disk, which is not looked at", "unmount it")


def _of_file(files: Below, entry: Entry) -> Iterator[Finding]:
    path, status = entry
    is_ref = path.startswith("refs/")
    most = REF_BYTES if is_ref else _LIMITS.get(path)
    if most is not None and status.st_size > most:
        yield Finding(path, f"has {status.st_size:,} bytes, expected at most {most:,}", _COPY)
    elif is_ref and not path.endswith(".lock"):
        yield from _of_ref(files, path, status)
    if _CACHES.fullmatch(path):
        what = "is a cache that plain git believes without a look at the objects (minifram does not read it)"
        yield Finding(path, what, "remove it if you did not make it (git gc does)", stops=False)


def _of_ref(files: Below, path: str, status: os.stat_result) -> Iterator[Finding]:
    try:
        content = files.whole(path, REF_BYTES)[:80]
    except FileNotFoundError:  # a push ended meanwhile
        return
    except OSError as error:
        yield Finding(path, f"cannot be opened ({error.strerror or error})", f"chmod u+rw, or {_COPY}")
        return
    if content.startswith(b"ref:"):
        target = content.decode(errors="replace").strip()
        yield Finding(path, f"stands for another ref ({target!r}); what is done to it is done there")
    elif not re.fullmatch(rb"[0-9a-f]{40}([0-9a-f]{24})?\n?", content):
        yield Finding(path, f"holds {content!r}, expected the id of a commit", "put it right or remove it", stops=False)
    if path.startswith("refs/replace/"):
        what = "makes plain git show another object than the one that is there (minifram does not go by it)"
        yield Finding(path, what, stops=False)
    elif not _REF_NAME.fullmatch(path):
        yield Finding(path, "has a name that no branch of an agent can have", stops=False)
    if status.st_nlink > 1:
        yield Finding(path, "has another name outside of refs (a hard link)", stops=False)
