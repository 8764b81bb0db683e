"""What a line of bash is read into, and where its quotes and parentheses end."""

from __future__ import annotations

from dataclasses import dataclass

DEPTH = 8
"""Substitutions inside substitutions."""


class Unclear(Exception):
    """Beyond this reader."""


@dataclass(frozen=True)
class Word:
    """`value` is what the shell makes of it, the home directory filled in; None where that cannot be told."""

    raw: str
    value: str | None
    glob: bool = False
    """It has a pattern for names, which the shell replaces by those that there are."""


@dataclass(frozen=True)
class Simple:
    """A simple command: its words, and what it takes part in."""

    words: tuple[Word, ...]
    assigned: tuple[Word, ...] = ()
    redirects: tuple[tuple[str, Word], ...] = ()
    joined: str = ""
    """What stands between it and the one before: "" of the first, ";", "&", "&&", "||" or "|"."""
    inside: bool = False
    """In a condition or a group, or in a loop that may be run no time."""


@dataclass(frozen=True)
class Line:
    simples: tuple[Simple, ...]
    inner: tuple[str, ...]
    """The texts of command and process substitutions."""
    background: bool = False
    """Its last command was sent to the background: that the line ended with 0 tells nothing of it."""


def is_pattern(bare: set[str]) -> bool:
    """Whether a word with these characters outside of quotes may stand for names."""
    return bool(bare & {"*", "?"}) or {"[", "]"} <= bare or ({"{", "}"} <= bare and bool(bare & {",", "."}))


def parenthesis_end(text: str, at: int, depth: int) -> int:
    """Where the parenthesis ends that was opened before `at`. Raises Unclear."""
    if depth > DEPTH:
        raise Unclear("nested too deep")
    level = 1
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'":
            at = text.find("'", at + 1)
            if at < 0:
                break
        elif char == '"':
            at = _quote_end(text, at + 1, depth + 1)
        elif char == "(":
            level += 1
        elif char == ")":
            level -= 1
            if level == 0:
                return at
        elif char == "#" and text[at - 1] in " \t\n;":
            raise Unclear("a comment in a substitution")
        at += 1
    raise Unclear("a parenthesis is left open")


def _quote_end(text: str, at: int, depth: int) -> int:
    if depth > DEPTH:
        raise Unclear("nested too deep")
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == '"':
            return at
        elif text.startswith("$(", at):
            at = parenthesis_end(text, at + 2, depth + 1)
        at += 1
    raise Unclear("a quote is left open")
