"""Where in a push the secrets are that were found in its objects: commit, file and line, as `decide` reports them. What
the same file, or the page, held before the push is left out."""

from __future__ import annotations

import re

from infra.keep.git_door.decide import Leak
from infra.keep.git_door.objects import Hit
from infra.shared.repository.changes import COMPARE
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page_text import PAGE

_SHA = re.compile(r"[0-9a-f]{40}")
_SEARCH_SECONDS = 5.0


def leaks_of_commit(git: Git, id: str, hits: list[Hit], base: str) -> list[Leak]:
    before = _text_before(git, base, PAGE)  # messages quote directives
    place = "in its message, or the name of who made it"
    return [Leak(hit.kind, place, id) for hit in hits if hit.value not in before]


def leaks_of_object(git: Git, id: str, path: str, hits: list[Hit], commits: list[str], base: str) -> list[Leak]:
    """Where in the push an object with secrets is; its path may itself be one."""
    commit, path = _origin(git, id, path, commits)
    names = f"in the name of something in {path!r}" if path else "in a name at the top"
    before = _text_before(git, base, path)
    return [
        Leak(hit.kind, f"in {path!r}, line {hit.line}" if hit.line else names, commit)
        for hit in hits
        if hit.value not in before
    ]


def _text_before(git: Git, base: str, path: str) -> bytes:
    """A file as the push found it: what the PM has in it, such as in a directive, is not the agent's to mend."""
    try:
        text = git.raw("cat-file", "blob", f"{base}:{path}")
    except GitError:  # it is not there, or is not a file, or larger than files are
        return b""
    return text + text.replace(b"\0", b"") if b"\0" in text else text


def _origin(git: Git, id: str, path: str, commits: list[str]) -> tuple[str, str]:
    """The oldest of these commits that brings the object in, and its path there."""
    words = ("diff-tree", "--stdin", "--root", "-m", "-r", "-t", *COMPARE, f"--find-object={id}")
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    try:
        fields = iter(git.raw(*words, stdin=asked, timeout=_SEARCH_SECONDS).decode(errors="replace").split("\0"))
    except GitError:  # it is reported without its commit
        return "", path
    found, commit = ("", path), ""
    for field in fields:
        if field.startswith(":"):
            name = next(fields)
            if field.split(" ")[3] == id:
                found = commit, name
        elif _SHA.fullmatch(field):
            commit = field
    return found
