"""Text that people read, kept short."""

from __future__ import annotations


def cut(text: str, most: int) -> str:
    """The first `most` characters at most; the last of them is … when the text had more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(text: str) -> str:
    """The text without characters that a terminal or git would interpret."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
