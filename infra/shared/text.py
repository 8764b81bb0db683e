"""Text that people read, kept short."""

from __future__ import annotations


def cut(text: str, most: int) -> str:
    """The first `most` characters at most; the last of them is … when the text had more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
