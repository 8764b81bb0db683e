"""Whether a call may change what the agent is made of or which version of it runs, as far as its words go. Pure.

Asked about the calls of work that has read the web. It guards a model that obeys a page, and is no wall: a program can
be given any name, and a script holds anything. The wall is the git door's (SPEC_POLICY)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from itertools import pairwise

from infra.cell.policy.commands import Script
from infra.cell.policy.decide import Call
from infra.shared.branches import MAIN
from infra.shared.folding import folded
from infra.shared.policy import AUTH, READ
from infra.shared.verdicts.guarded import GUARDED, is_guarded

SIGNALS = ".signal"
_CLONE = "minifram"
READERS = frozenset(("cat", "cmp", "diff", "file", "grep", "head", "ls", "rg", "sha256sum", "stat", "tail", "wc"))
GIT_READERS = frozenset(("blame", "diff", "grep", "log", "ls-files", "ls-tree", "rev-parse", "show", "status"))
_TOPS = "|".join(name for name in GUARDED if "." not in name)
_FILES = "|".join(re.escape(name) for name in GUARDED if "." in name)
_NAMED = re.compile(
    rf"(?:^|[\s\"'=:(,<>]|\./|{_CLONE}/)(?:(?:{_TOPS})/|{_FILES}|requirements[\w.-]*)|\.signal\b|\bdoor\.sock\b",
    re.IGNORECASE,
)
_GIT, _PUSH = re.compile(r"\bgit\b"), re.compile(r"\bpush\b")
_LINES = re.compile(r"[\d,$]+p")
"""What `sed -n` prints; other scripts of it may write files."""
_WRITES = ("--output", "-O", "--open-files-in-pager", "--pre")
"""Options by which one of the readers writes a file or runs a program."""


def steering(call: Call) -> str:
    """What the call does of that, in words that fit behind "the call"; empty for nothing that can be seen."""
    if call.effect == AUTH:
        return "decides which version of the agent runs"
    if call.effect == READ:
        return ""
    for path in (*call.file.real, *call.file.seeming, *filter(None, (call.path,))):
        if is_steering_path(path):
            return f"changes {path[:200]!a}"
    script = call.whole_script
    return "" if script is None else _of_script(script, call.command or "")


def is_steering_path(path: str) -> bool:
    """In this checkout or in any other clone."""
    parts = posixpath.normpath(path).split("/")
    if SIGNALS in parts:
        return True
    if not path.startswith("/") and is_guarded("/".join(parts)):
        return True
    return any(part == _CLONE and folded(next_part) in GUARDED for part, next_part in pairwise(parts))


def _of_script(script: Script, text: str) -> str:
    if not script.plain:
        named = _named([text, *text.split()])
        return named or ("pushes to main, or may" if _may_push(text) else "")
    for words, redirections in zip(script.commands, script.redirections, strict=True):
        written = [word.lstrip("0123456789>&|") for word in redirections if "<" not in word]
        if named := _named([*written, *(() if _only_reads(words) else words)]):
            return named
        if _pushes_to_main(words):
            return "pushes to main, or may"
    return ""


def _named(words: Iterable[str]) -> str:
    for word in words:
        found = _NAMED.search(word)
        if found or word.lower().rstrip("/") in GUARDED:
            return f"names {(found[0] if found else word).strip()!r}"
    return ""


def _only_reads(words: tuple[str, ...]) -> bool:
    if not words:
        return True
    program = posixpath.basename(words[0])
    if any(word.startswith(_WRITES) for word in words):
        return False
    if program == "sed":
        return words[1:2] == ("-n",) and all(_LINES.fullmatch(word) for word in words[2:3]) and not _options(words[3:])
    if program == "git":
        return next((word for word in words[1:] if not word.startswith("-")), "") in GIT_READERS
    return program in READERS


def _options(words: tuple[str, ...]) -> bool:
    return any(word.startswith("-") for word in words)


def _may_push(text: str) -> bool:
    git = _GIT.search(text)
    return git is not None and _PUSH.search(text, git.end()) is not None


def _pushes_to_main(words: tuple[str, ...]) -> bool:
    """Without the name of a branch, what is pushed is where the clone stands."""
    names = [posixpath.basename(word) for word in words]
    if "git" not in names or "push" not in words:
        return False
    given = [word for word in words[words.index("push") + 1 :] if not word.startswith("-")]
    targets = [word.rpartition(":")[2].rpartition("/")[2] for word in given[1:]]
    return not targets or MAIN in targets or "HEAD" in targets or any("*" in target for target in targets)
