"""Makes text that others wrote safe to print: nothing in it can steer a terminal or hide."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])
_BLANK = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and symbols by their category, and yet nothing to be seen."""
LINE_CHARS = 400


def visible(text: str, most: int = LINE_CHARS) -> str:
    """On one line, cut to `most` characters; each character that shows nothing, or moves or hides others, as its
    number: `\\x1b`, `\\u202e`. Variation selectors are among them."""
    spelled = "".join(char if _shows(char) else _number(char) for char in text[:most])
    return spelled + (f" … (cut: {len(text) - most} more characters)" if len(text) > most else "")


def _shows(char: str) -> bool:
    if char.isascii():
        return char.isprintable()
    selects = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return unicodedata.category(char) not in _HIDDEN and char not in _BLANK and not selects


def _number(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
