"""The PM's patterns against commands and paths. Pure.

`*` stands for any characters, `/` among them, `?` for one, `[ab]` and `[!ab]` for one of a set. In doubt a rule that
forbids or asks matches, and one that allows does not: capital and small letters are the same for the first alone."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from infra.cell.policy.commands import Script, forms


def command_forbidden(patterns: Iterable[str], text: str, script: Script) -> bool:
    """One of the patterns matches the whole text or one of its commands, or the text is in doubt."""
    if not script.plain:
        return True
    found = {" ".join(text.split()), *(form for command in script.commands for form in forms(command))}
    return any(_matches(pattern, form, fold=True) for pattern in patterns for form in found)


def command_allowed(patterns: Iterable[str], script: Script) -> bool:
    """Each command of the text is matched by one of the patterns, its redirections behind it, and the text is in no
    doubt."""
    pairs = zip(script.commands, script.redirections, strict=script.plain)
    commands = [" ".join((*command, *redirections)) for command, redirections in pairs]
    matched = (any(_matches(pattern, each, fold=False) for pattern in patterns) for each in commands)
    return script.plain and bool(commands) and all(matched)


def path_matches(patterns: Iterable[str], path: str, fold: bool) -> bool:
    """Whether a pattern matches the path or a directory above it."""
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return any(_matches(pattern.removesuffix("/"), each, fold) for pattern in patterns for each in above)


def _matches(pattern: str, text: str, fold: bool) -> bool:
    return fnmatch.fnmatchcase(*((text.casefold(), pattern.casefold()) if fold else (text, pattern)))
