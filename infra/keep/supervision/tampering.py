"""What somebody left in a clone's `.git` that git would follow from then on: settings, hooks, attributes, other places
for objects or refs. A good main must not start from what a bad branch left in its clone.

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

_FILES = re.compile(
    r"HEAD|[A-Z]+(_[A-Z]+)+|index|index\.stash\.[0-9]+|packed-refs(\.new)?|config|description|gc\.(log|pid)"
    r"|rescue-index|genuine-index|ADD_EDIT\.patch|addp-hunk-edit\.diff"
)
"""What a fresh clone has, and what git's commands leave while they are under way. Locks are removed elsewhere."""
_DIRECTORIES = re.compile("objects|refs|logs|info|hooks|branches|rebase-merge|rebase-apply|sequencer|lost-found")
_USUAL = (
    ("hooks", re.compile(r".*\.sample"), "the hook "),
    ("branches", None, ""),
    ("info", re.compile("exclude|refs"), ""),
)
"""Directory, the names that may be there, and how another one is reported."""
_NO_LINKS = ("objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/remotes")
_NOT_THERE = ("objects/info/alternates", "objects/info/http-alternates", "refs/replace")
_EXCLUDED = (b"", b"/.signal")
"""`/.signal` is the runner's own link to the signals (`infra.cell.runner.home`)."""
_MOST_BYTES = 16 << 20
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
    """In words that fit behind "because it holds"."""
    content: str = ""


def tampering(directory: str, remote_url: str, cell: Identity = OURS) -> frozenset[Tampering]:
    """All of it in this `.git`; empty for a clone of `remote_url` in ordinary use. Raises OSError."""
    return frozenset(_look(directory, remote_url, cell))


def _look(directory: str, remote_url: str, cell: Identity) -> Iterator[Tampering]:
    with os.scandir(directory) as entries:
        for entry in entries:
            is_usual = (
                _DIRECTORIES.fullmatch(entry.name)
                if entry.is_dir(follow_symlinks=False)
                else entry.is_file(follow_symlinks=False) and _FILES.fullmatch(entry.name)
            )
            if not is_usual and not entry.name.endswith(".lock"):
                yield Tampering(f".git/{_shown(entry.name)}")
    for where, allowed, words in _USUAL:
        for name in _names(f"{directory}/{where}"):
            if not (allowed and allowed.fullmatch(name)):
                yield Tampering((words or f".git/{where}/") + _shown(name))
    for line in _content(f"{directory}/info/exclude").splitlines():
        if line.strip() not in _EXCLUDED and not line.startswith(b"#"):
            yield Tampering("a line in .git/info/exclude", line.decode(errors="replace"))
    yield from (Tampering(f".git/{name} as a link") for name in _NO_LINKS if os.path.islink(f"{directory}/{name}"))
    yield from (Tampering(f".git/{name}") for name in _NOT_THERE if os.path.lexists(f"{directory}/{name}"))
    for name in ("refs", "logs"):
        for where, directories, files in os.walk(f"{directory}/{name}"):
            for each in (*directories, *files):
                mode = os.lstat(f"{where}/{each}").st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    yield Tampering(f".git/{name}/…/{_shown(each)}, which is no file")
    if b" refs/replace/" in _content(f"{directory}/packed-refs"):
        yield Tampering("a replaced object")
    for setting in _settings(_content(f"{directory}/config"), cell):
        key, _, value = setting.partition("\n")
        if not (value == remote_url if key == "remote.origin.url" else _SETTINGS.fullmatch(setting)):
            yield Tampering(f"the setting {_shown(key)}", value)


def _names(directory: str) -> list[str]:
    """Empty for what is no directory, which was reported already."""
    try:
        return os.listdir(directory) if stat.S_ISDIR(os.lstat(directory).st_mode) else []
    except FileNotFoundError:
        return []


def _content(path: str) -> bytes:
    """Empty for what is not there. Raises OSError also for what is no regular file, or too long."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            raise OSError(f"{path} is no regular file of at most {_MOST_BYTES >> 20} MiB")
        return file.read(_MOST_BYTES)


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
