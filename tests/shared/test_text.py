"""Characters that cannot be seen, in names and in text that is shown."""

from __future__ import annotations

import sys
import unicodedata

from infra.shared.network import as_resolved
from infra.shared.text import is_visible, spelled, without_invisible
from tests.shared.rows import each_row

EVERY = "".join(map(chr, range(sys.maxunicode + 1)))


IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u17b4\u180b\u180f\u200b\u202e\u2060\u2065\u3164"
    "\ufe0f\uffa0\ufff0\U0001d173\U000e0001\U000e0fff"
)
"""One of each range that Unicode calls default ignorable."""


def test_no_character_that_shows_nothing_passes() -> None:
    """All controls, all that reorders or ends lines, and what Unicode calls ignorable."""
    unseen = (each for each in EVERY if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp"))
    hidden = "".join([*IGNORABLE, "\u2800", *unseen])
    shown = spelled(hidden)

    assert shown.isascii()
    assert shown.isprintable()
    assert without_invisible(hidden) == ""
    assert not any(is_visible(f"name{each}") for each in hidden)


@each_row("text", ["plain words", "ünï", "漢字", "عربي", "देवनागरी", "한국어", "é", "🙂", "→ …"])
def test_what_can_be_seen_stays(text: str) -> None:
    """Letters of all scripts, with their marks; symbols."""
    assert is_visible(text)
    assert spelled(text) == text == without_invisible(text)


def test_format_characters_with_a_shape_are_shown() -> None:
    """Signs before Arabic digits; a name cannot have them."""
    assert spelled("\u0600\u0661") == without_invisible("\u0600\u0661") == "\u0600\u0661"


def test_what_is_kept_stays() -> None:
    """In ASCII as elsewhere."""
    assert spelled("a\tb\nc\r", kept="\t\n") == "a\tb\nc\\r"
    assert spelled("ä\tb\nc\r", kept="\t\n") == "ä\tb\nc\\r"


def test_an_address_is_the_same_with_ignorable_characters_in_it() -> None:
    """As the programs see it that pass over them."""
    assert as_resolved("127.\u3164\u00ad0\ufe0f.0.1") == "127.0.0.1"
