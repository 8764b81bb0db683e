"""What an earlier version left in a clone's `.git` that git would follow from then on: settings, hooks, attributes,
other places for objects or refs. A good main must not start from what a bad branch left in its clone.

This looks at what git reads as words to follow, file by file. Git parses only the text of the settings, nowhere near
the clone. It does not look at what git holds as data (objects, index, refs but replaced ones), nor at ignored files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from infra.shared.identity import OURS, Identity
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.git_environment import NO_DRIVERS
from infra.shared.safe_files import Below, Entry, Unseen

_FILES = re.compile(
    r"HEAD|[A-Z]+(_[A-Z]+)+|index|index\.stash\.[0-9]+|packed-refs(\.new)?|config|description|gc\.(log|pid)"
    r"|rescue-index|genuine-index|ADD_EDIT\.patch|addp-hunk-edit\.diff"
)
"""What a fresh clone has, and what git's commands leave while they are under way. Locks are removed elsewhere."""
_DIRECTORIES = re.compile("objects|refs|logs|info|hooks|branches|rebase-merge|rebase-apply|sequencer|lost-found")
_USUAL = (
    ("hooks", re.compile(r".*\.sample"), "the hook "),
    ("branches", None, ""),
    ("info", re.compile("attributes|exclude|refs"), ""),
)
"""Directory, the names that may be there, and how another one is reported."""
_NO_LINKS = ("objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/remotes")
_NOT_THERE = ("objects/info/alternates", "objects/info/http-alternates", "refs/replace")
_EXCLUDED = (b"", b"/.signal")
"""`/.signal` is the runner's own link to the signals (`infra.cell.runner.context`)."""
_MOST_ENTRIES = 100_000
_MOST_DEPTH = 200
_SETTINGS = re.compile(
    r"core\.repositoryformatversion\n0|core\.bare\nfalse"
    r"|core\.(filemode|logallrefupdates|symlinks|ignorecase|precomposeunicode)\n(true|false)"
    r"|remote\.origin\.fetch\n\+refs/heads/\*:refs/remotes/origin/\*"
    r"|user\.(name|email)\n.*"  # no program runs or reads anything because of these two
    r"|branch\.[^\n]*\.(remote\n(origin|\.)|merge\nrefs/heads/.*|rebase\n(true|false|merges)|description\n.*)",
    re.DOTALL,
)
"""The usual settings, as `git config --list -z` prints them."""


class Tampering(NamedTuple):
    """Something that git follows and that no fresh clone has."""

    where: str
    """Completes the sentence "because it holds …"."""
    content: str = ""


def tampering(directory: str, remote_url: str, cell: Identity = OURS) -> frozenset[Tampering]:
    """All of it in this `.git`; empty for a clone of `remote_url` in ordinary use. Raises OSError."""
    return frozenset(_look(directory, remote_url, cell))


def _look(directory: str, remote_url: str, cell: Identity) -> Iterator[Tampering]:
    git = Below(directory, cell)
    for entry in _seen(git.walk(depth=0, most=_MOST_ENTRIES, enter=lambda _: False)):
        usual = _DIRECTORIES if stat.S_ISDIR(entry.status.st_mode) else _FILES
        is_usual = usual.fullmatch(entry.path) and _is_plain(entry)
        if not is_usual and not entry.path.endswith(".lock"):
            yield Tampering(f".git/{_shown(entry.path)}")
    for where, allowed, words in _USUAL:
        for name in git.names(where, _MOST_ENTRIES) if git.is_directory(where) else ():
            if not (allowed and allowed.fullmatch(name)):
                yield Tampering((words or f".git/{where}/") + _shown(name))
    if _content(git, "info/attributes") not in (b"", NO_DRIVERS.encode()):  # the runner's own
        yield Tampering(".git/info/attributes")
    for line in _content(git, "info/exclude").splitlines():
        if line.strip() not in _EXCLUDED and not line.startswith(b"#"):
            yield Tampering("a line in .git/info/exclude", line.decode(errors="replace"))
    yield from (Tampering(f".git/{name} as a link") for name in _NO_LINKS if _is_link(git.status(name)))
    yield from (Tampering(f".git/{name}") for name in _NOT_THERE if git.status(name))
    for name in ("refs", "logs"):
        for entry in _seen(git.walk(name, depth=_MOST_DEPTH, most=_MOST_ENTRIES)) if git.is_directory(name) else ():
            if not _is_plain(entry):
                yield Tampering(f".git/{name}/…/{_shown(entry.path.rpartition('/')[2])}, which is not a file")
    if b" refs/replace/" in _content(git, "packed-refs"):
        yield Tampering("a replaced object")
    for setting in _settings(_content(git, "config"), cell):
        key, _, value = setting.partition("\n")
        if not (value == remote_url if key == "remote.origin.url" else _SETTINGS.fullmatch(setting)):
            yield Tampering(f"the setting {_shown(key)}", value)


def _seen(walked: Iterator[Entry | Unseen]) -> Iterator[Entry]:
    """Raises OSError for what could not be looked at: it may hold anything."""
    for each in walked:
        if isinstance(each, Unseen):
            raise OSError(f".git/{each.path}: {each.why}")
        yield each


def _is_plain(entry: Entry) -> bool:
    return stat.S_ISREG(entry.status.st_mode) or stat.S_ISDIR(entry.status.st_mode)


def _is_link(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISLNK(status.st_mode)


def _content(git: Below, path: str) -> bytes:
    """Empty for what is not there. Raises OSError also for what is not a regular file, or too long."""
    try:
        return git.whole(path)
    except FileNotFoundError:
        return b""


@lru_cache(maxsize=4)  # a restart finds the text of before and needs no git for it
def _settings(config: bytes, cell: Identity) -> list[str]:
    """What git makes of this text, which it reads outside of any repository and without what it includes."""
    try:
        listed = Git("/", identity=cell).raw("config", "--file", "-", "--no-includes", "--list", "-z", stdin=config)
    except GitError as error:
        return [f"that git cannot read ({error.stderr.strip()})"]
    return listed.decode(errors="surrogateescape").split("\0")[:-1]


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 80 else name[:80] + "…")
