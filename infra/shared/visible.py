"""Which characters of a text are visible: the same rule for names and for displayed text. Pure.

Unicode's properties decide, as the library `regex` knows them; it is imported only for text that is not ASCII."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HIDDEN = (
    r"[[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Control}\p{Surrogate}"
    r"\p{Line_Separator}\p{Paragraph_Separator}"
    r"\u2800]"  # a Braille cell without dots: a symbol by its properties, blank in every font
    # Most format characters; those that stand before digits, as in Arabic, have a shape of their own.
    r"[\p{Format}--\p{Prepended_Concatenation_Mark}]]"
)
_IGNORABLE = r"[\p{Default_Ignorable_Code_Point}\p{Format}]"


def is_visible(text: str) -> bool:
    """Whether every character of a name shows, and is no blank but the plain space. Letters of different scripts that
    look alike are not told apart."""
    return text.isprintable() and (text.isascii() or _compiled(_HIDDEN).search(text) is None)


def spelled(text: str, kept: str = "") -> str:
    """`text` with each character that shows nothing, or moves or hides others, as its number: `\\u200b`. Those in
    `kept` stay as they are."""

    def replace(match: re.Match[str] | regex.Match[str]) -> str:
        found = match[0]
        return found if found in kept else _number(ord(found))

    if text.isascii():
        return _CONTROL.sub(replace, text)
    return _compiled(_HIDDEN).sub(replace, text)


def without_invisible(text: str, kept: str = "") -> tuple[str, int]:
    """`text` without each character that shows nothing, or moves or hides others, and how many those were. Those in
    `kept` stay as they are."""
    if text.isascii():
        left = text.translate(_controls_but(kept))
    else:  # a text has few different characters, and most have none of these
        hidden = set(_compiled(_HIDDEN).findall("".join(set(text)))) - set(kept)
        left = text.translate({ord(each): None for each in hidden}) if hidden else text
    return left, len(text) - len(left)


@functools.cache
def _controls_but(kept: str) -> dict[int, None]:
    return {code: None for code in range(128) if _CONTROL.match(chr(code)) and chr(code) not in kept}


def without_ignorable(text: str) -> str:
    """`text` without what programs that compare or look up names pass over (Unicode TR 46 maps it to nothing)."""
    return text if text.isascii() else _compiled(_IGNORABLE).sub("", text)


@functools.cache
def _compiled(pattern: str) -> regex.Pattern[str]:
    import regex

    return regex.compile(pattern, regex.VERSION1)


def _number(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
