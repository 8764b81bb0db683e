"""The PM's patterns for what the agent may not touch: which names one protects, and which are no patterns.

A pattern protects the names that it matches and all that lies below those. It is matched against the whole name from
the repository's root: `*` stands for any characters, `/` among them, `?` for one, `[ab]` and `[!ab]` for one of a set;
capital and small letters are the same, as they are to some of the PM's machines. In doubt it protects more."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from infra.keep.folding import folded
from infra.shared.branches import MAIN, MIND
from infra.shared.paths import PAGES
from infra.shared.policy import problem_with_pattern
from infra.shared.text import cut


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


def problem_with_file_pattern(pattern: str) -> str:
    """Why this cannot be one of `protected.files`; empty when it can."""
    if pattern.casefold() == "comms.md":
        return "'COMMS.md' has rules of its own, and the agent reports in it; take it out of the list"
    return _problem(pattern, "a path from the repository's root, such as SYSTEM.md, infra/ or spec/SPEC_*.md")


def problem_with_branch_pattern(pattern: str) -> str:
    """Why this cannot be one of `protected.branches`; empty when it can."""
    expected = "a name without refs/heads/, such as release or pm/*"
    if pattern.startswith("refs/"):
        return f"{pattern!r} is a whole ref; expected {expected}"
    if problem := _problem(pattern, expected):
        return problem
    needed = [name for name in (MAIN, MIND) if protecting([pattern], name)]
    return f"{pattern!r} protects {needed[0]} as well, which the agent must write" if needed else ""


def _problem(pattern: str, expected: str) -> str:
    parts = pattern.removesuffix("/").split("/")
    if pattern != pattern.strip() or pattern.startswith("!") or "\\" in pattern or {"", ".", ".."} & {*parts}:
        words = "no pattern takes back what another protects, and a backslash matches itself"
        return f"{cut(pattern, 80)!a} is not {expected}; {words}"
    return problem_with_pattern(pattern)
