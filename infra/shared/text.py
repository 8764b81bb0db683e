"""Text that people read, kept short."""

from __future__ import annotations

import re

_BLANKS = re.compile(r"[\s\x00-\x1f\u2028\u2029]+")


def cut(text: str, most: int) -> str:
    """The first `most` characters at most; the last of them is … when the text had more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(text: str) -> str:
    """The text without characters that a terminal or git would interpret."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def one_line(text: str) -> str:
    """With single blanks, and nothing that ends a line."""
    return _BLANKS.sub(" ", text).strip()
