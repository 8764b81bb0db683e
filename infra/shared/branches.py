"""Which names a branch of an agent can have.

The rules of git-check-ref-format(1), and our own: a branch becomes a directory `/bot/<branch>/minifram` and a word on
command lines, so names are refused that could be an option, leave their directory or hide the clone of another
branch."""

from __future__ import annotations

import re

from infra.shared.text import cut

MAIN = "main"
MIND = "mind"

MAX_LENGTH = 200
MAX_PARTS = 12
"""Each but the last is a directory of the bare repository."""
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*")
_SHA = re.compile(r"[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}")
_TAKEN_DIRECTORIES = ("mind", "minifram")


def problem_with_branch(name: str) -> str | None:
    """Why `name` cannot be a branch with a clone of its own; None when it can."""
    shown = ascii(cut(name, 80))
    if not name:
        return "a branch name is empty; give one such as 'improve-reports'"
    if len(name) > MAX_LENGTH:
        return f"branch name {shown} is {len(name)} characters long; at most {MAX_LENGTH} are allowed"
    if not _ALLOWED.fullmatch(name):
        return (
            f"branch name {shown} is not allowed: it must begin with a letter or digit and hold only "
            "letters, digits and . _ + / -"
        )
    if name.count("/") >= MAX_PARTS:
        return f"branch name {shown} has over {MAX_PARTS} parts between its slashes; give a flatter one"
    if ".." in name or "//" in name or name.endswith(("/", ".")):
        return f"branch name {shown} is not allowed: no '..', no '//', no '/' or '.' at its end"
    for part in name.split("/"):
        if part.startswith(".") or part.endswith(".lock"):
            return f"branch name {shown} is not allowed: no part may begin with '.' or end with '.lock'"
        if part in _TAKEN_DIRECTORIES:
            return f"branch name {shown} is not allowed: the directory {part!r} is taken; choose another name"
    if name == "HEAD" or name.startswith("refs/"):
        return f"branch name {shown} is not allowed: give the short name, without refs/heads/"
    if _SHA.fullmatch(name):
        return f"branch name {shown} is not allowed: git would read it as a commit; give the name of a branch"
    return None


def version(branch: str, commit: str) -> str:
    """`branch@0123456789ab`: a branch at a commit, the form that reports use."""
    return f"{branch}@{commit[:12]}"


_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*(?:[~^][0-9]*)*")


def problem_with_ref(ref: str) -> str | None:
    """Why `ref` cannot name a commit to roll back to (a branch, tag, sha, or one of these with ~N or ^N)."""
    shown = ascii(cut(ref, 80))
    if not ref:
        return "a git ref is empty; give a commit, branch or tag, such as 'main~1'"
    if len(ref) > MAX_LENGTH:
        return f"git ref {shown} is {len(ref)} characters long; at most {MAX_LENGTH} are allowed"
    if not _REF.fullmatch(ref) or ".." in ref:
        return f"git ref {shown} is not allowed: give a commit, branch or tag, optionally with ~N or ^N"
    return None
