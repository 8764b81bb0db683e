"""Text that people read: kept short, and with nothing in it that does not show. Pure."""

from __future__ import annotations

import re
import unicodedata

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


def first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return cut(line, 100)


# Which characters show nothing, or move or hide others. Look-alikes of different scripts are not told apart.

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""By their general category: controls, format characters, halves of pairs, ends of lines and paragraphs."""
_SHOWN = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Format characters that stand before digits, as in Arabic, and have a shape of their own."""
_IGNORED = (
    *((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x13439, 0x1343F), (0xE0000, 0xE0FFF)),
    (0x2800, 0x2800),  # a Braille cell without dots: a symbol by its properties, blank in every font
)
"""Ranges of letters and marks that Unicode calls default ignorable, whatever their category says."""


def _hides(char: str) -> bool:
    if unicodedata.category(char) in _HIDDEN:
        return char not in _SHOWN
    return any(first <= ord(char) <= last for first, last in _IGNORED)


def is_visible(text: str) -> bool:
    """Whether every character of a name shows, and is no blank but the plain space."""
    return text.isprintable() and (text.isascii() or not any(map(_hides, set(text))))


def spelled(text: str, kept: str = "") -> str:
    """`text` with each hidden character as its number: `\\u200b`. Those in `kept` stay as they are."""
    # A text has few different characters, and most have none of these.
    hidden = filter(_hides, set(text) - set(kept))
    return text.translate({ord(each): each.encode("unicode_escape").decode() for each in hidden})


def without_invisible(text: str, kept: str = "") -> str:
    """`text` without each hidden character. Those in `kept` stay."""
    return text.translate({ord(each): None for each in filter(_hides, set(text) - set(kept))})
