"""The PM's patterns for what the agent may not touch: which names one protects, and which are no patterns.

A pattern protects the names that it matches and all that lies below those. It is matched against the whole name from
the repository's root: `*` stands for any characters, `/` among them, `?` for one, `[ab]` and `[!ab]` for one of a set;
capital and small letters are the same, as they are to some of the PM's machines. In doubt it protects more."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from infra.keep.folding import folded
from infra.shared.branches import MAIN, MIND, RESCUE
from infra.shared.repository.page_text import PAGES
from infra.shared.text import cut
from infra.shared.visible import is_visible

MAX_LENGTH = 200
MAX_PATTERNS = 100


def protecting(patterns: Iterable[str], name: str) -> str | None:
    """The first pattern that protects this file or branch; None when none does."""
    parts = name.casefold().split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for pattern in patterns:
        wanted = pattern.casefold().removesuffix("/")
        if any(fnmatch.fnmatchcase(each, wanted) for each in above):
            return pattern
    return None


def protecting_on_main(protected: Iterable[str], path: str) -> str | None:
    """The pattern that keeps this file of main for the PM. The pages have a rule of their own, whatever the patterns
    say."""
    return None if path in PAGES else protecting(protected, path)


def is_second_page(path: str) -> bool:
    """Where capital letters count for nothing, this file, or a directory above it, stands in the place of a page."""
    top = path.partition("/")[0]
    return top not in PAGES and folded(top) in {folded(page) for page in PAGES}


def problem_with_file_pattern(pattern: str) -> str | None:
    """Why this cannot be one of `protected.files`; None when it can."""
    if pattern.casefold() == "comms.md":
        return "'COMMS.md' has rules of its own, and the agent reports in it; take it out of the list"
    return _problem(pattern, "a path from the repository's root, such as SYSTEM.md, infra/ or spec/SPEC_*.md")


def problem_with_branch_pattern(pattern: str) -> str | None:
    """Why this cannot be one of `protected.branches`; None when it can."""
    expected = "a name without refs/heads/, such as release or pm/*"
    if pattern.startswith("refs/"):
        return f"{pattern!r} is a whole ref; expected {expected}"
    problem = _problem(pattern, expected)
    if problem:
        return problem
    for needed in (MAIN, MIND, f"{RESCUE}2026-01-31T10-42-12.345Z"):
        if protecting([pattern], needed):
            return (
                f"{pattern!r} protects {needed} as well, which the agent must write; 'autonomy' says what it may there"
            )
    return None


def _problem(pattern: str, expected: str) -> str | None:
    shown = ascii(cut(pattern, 80))
    if not pattern.strip("/") or pattern != pattern.strip():
        return f"{shown} is empty or has blanks around it; expected {expected}"
    if len(pattern) > MAX_LENGTH:
        return f"{shown} is {len(pattern)} characters long; at most {MAX_LENGTH} are allowed"
    if not is_visible(pattern) or "\\" in pattern:
        return (
            f"{shown} holds a character that cannot be seen, or a backslash, which matches itself; expected {expected}"
        )
    if pattern.startswith("!"):
        return f"{shown} begins with '!': no pattern takes back what another one protects; expected {expected}"
    if pattern.startswith("/") or any(part in (".", "..", "") for part in pattern.removesuffix("/").split("/")):
        return f"{shown} is not a path within a repository; expected {expected}"
    at = pattern.find("[")
    while at >= 0:
        # The first character of a set may be the one that otherwise ends it.
        end = pattern.find("]", at + (3 if pattern[at + 1 : at + 2] == "!" else 2))
        if end < 0:
            return f"{shown} has a '[' without its ']'; for the character itself write [[]"
        at = pattern.find("[", end)
    return None
