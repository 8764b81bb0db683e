"""What somebody left in a clone's `.git` that git would follow from then on: settings, hooks, attributes, other places
for objects or refs. A good main must not start from what a bad branch planted in its clone.

Looked at is what git reads as words to follow, file by file and without git. Not looked at is what it holds as data
(objects, index, refs but replaced ones), nor the files of the work tree that git ignores."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

_FILES = re.compile(
    r"HEAD|[A-Z]+(_[A-Z]+)+|index|index\.stash\.[0-9]+|packed-refs(\.new)?|config|description|gc\.(log|pid)"
    r"|rescue-index|genuine-index|ADD_EDIT\.patch|addp-hunk-edit\.diff"
)
"""What a fresh clone has, and what git's commands leave while they are under way."""
_DIRECTORIES = (
    *("objects", "refs", "logs", "info", "hooks", "branches"),
    *("rebase-merge", "rebase-apply", "sequencer", "lost-found"),
)
_NOT_THERE = ("objects/info/alternates", "objects/info/http-alternates", "refs/replace")
_INFO = ("exclude", "refs")
_EXCLUDED = (b"", b"/.signal")
"""The runner's own link to the signals (`infra.cell.runner.home`)."""
_MOST_BYTES = 16 << 20


class Tampering(NamedTuple):
    """Something that git follows, and no fresh clone has."""

    where: str
    """In words that fit behind "because it holds"."""
    content: str = ""


def tampering(directory: str, remote_url: str) -> frozenset[Tampering]:
    """All of it in this `.git`, none for a clone of `remote_url` in ordinary use. Raises OSError."""
    return frozenset(_look(directory, remote_url))


def _look(directory: str, remote_url: str) -> Iterator[Tampering]:
    with os.scandir(directory) as entries:
        for entry in entries:
            is_usual = (
                entry.name in _DIRECTORIES
                if entry.is_dir(follow_symlinks=False)
                else entry.is_file(follow_symlinks=False) and _FILES.fullmatch(entry.name)
            )
            if not is_usual and not entry.name.endswith(".lock"):  # these are looked after elsewhere
                yield Tampering(f".git/{_shown(entry.name)}")
    for name in _names(f"{directory}/hooks"):
        if not name.endswith(".sample"):
            yield Tampering(f"the hook {_shown(name)}")
    for name in _names(f"{directory}/branches"):
        yield Tampering(f".git/branches/{_shown(name)}")
    for name in _names(f"{directory}/info"):
        if name not in _INFO:
            yield Tampering(f".git/info/{_shown(name)}")
    for line in _content(f"{directory}/info/exclude").splitlines():
        if line.strip() not in _EXCLUDED and not line.startswith(b"#"):
            yield Tampering("a line in .git/info/exclude", line.decode(errors="replace"))
    for name in ("objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/remotes"):
        if os.path.islink(f"{directory}/{name}"):
            yield Tampering(f".git/{name} as a link")
    for name in ("refs", "logs"):
        for where, directories, files in os.walk(f"{directory}/{name}"):
            for each in (*directories, *files):
                mode = os.lstat(f"{where}/{each}").st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    yield Tampering(f".git/{name}/…/{_shown(each)}, which is no file")
    for name in _NOT_THERE:
        if os.path.lexists(f"{directory}/{name}"):
            yield Tampering(f".git/{name}")
    if b" refs/replace/" in _content(f"{directory}/packed-refs"):
        yield Tampering("a replaced object")
    for key, value in _settings(_content(f"{directory}/config").decode(errors="surrogateescape")):
        if not _is_usual(key, value, remote_url):
            yield Tampering(f"the setting {_shown(key)}", value)


def _names(directory: str) -> list[str]:
    """None for what is no directory; that was said already."""
    try:
        return os.listdir(directory) if stat.S_ISDIR(os.lstat(directory).st_mode) else []
    except FileNotFoundError:
        return []


def _content(path: str) -> bytes:
    """Nothing for what is not there. Raises OSError also for what is no file, or too long."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            raise OSError(f"{path} is no regular file of at most {_MOST_BYTES >> 20} MiB")
        return file.read(_MOST_BYTES)


_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*(.*)", re.DOTALL)
_BOOLEAN = r"true|false"
_USUAL = {
    "core.repositoryformatversion": "0",
    "core.bare": "false",
    **dict.fromkeys(("core.filemode", "core.logallrefupdates", "core.symlinks"), _BOOLEAN),
    **dict.fromkeys(("core.ignorecase", "core.precomposeunicode"), _BOOLEAN),  # as the file system is
    "remote.origin.fetch": re.escape("+refs/heads/*:refs/remotes/origin/*"),
    "user.name": r".*",  # nobody runs or reads anything because of these two
    "user.email": r".*",
    "branch.*.remote": r"origin|\.",
    "branch.*.merge": r"refs/heads/.*",
    "branch.*.rebase": rf"{_BOOLEAN}|merges",
    "branch.*.description": r".*",
}
"""As regular expressions of the whole value."""


def _is_usual(key: str, value: str, remote_url: str) -> bool:
    if key == "remote.origin.url":
        return value == remote_url
    if key.startswith("branch.") and key.count(".") > 1:
        key = f"branch.*.{key.rpartition('.')[2]}"
    return bool(key in _USUAL and re.fullmatch(_USUAL[key], value, re.DOTALL))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values as git reads what git has written; a line that it would not write is a key of its own."""
    section = ""
    for line in text.split("\n"):
        words = line.strip(" \t\r")
        if not words or words[0] in "#;":
            continue
        opened, setting = _SECTION.fullmatch(words), _SETTING.fullmatch(words)
        value = _value(setting[2]) if setting else None
        if opened:
            inner = "" if opened[2] is None else "." + re.sub(r"\\(.)", r"\1", opened[2])
            section = opened[1].lower() + inner
        elif setting and value is not None:
            yield f"{section}.{setting[1].lower()}", value
        else:
            yield words, ""


def _value(text: str) -> str | None:
    """None for what git would not write."""
    found, quoted, at = list[str](), False, 0
    while at < len(text):
        each = text[at]
        if each == "\\":
            at += 1
            if text[at : at + 1] not in _ESCAPED:
                return None
            found.append(_ESCAPED[text[at]])
        elif each == '"':
            quoted = not quoted
        elif each in "#;" and not quoted:
            return None
        else:
            found.append(each)
        at += 1
    return None if quoted else "".join(found)


_ESCAPED = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 80 else name[:80] + "…")
