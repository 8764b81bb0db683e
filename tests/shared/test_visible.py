"""Characters that cannot be seen, in names and in text that is shown."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import regex

from infra.shared.addresses import plain
from infra.shared.visible import is_visible, spelled, without_ignorable
from tests.shared.rows import each_row

EVERY = "".join(map(chr, range(sys.maxunicode + 1)))


def of(pattern: str) -> list[str]:
    """All characters that fit."""
    return regex.findall(pattern, EVERY)


def test_no_character_that_shows_nothing_passes() -> None:
    """All that Unicode calls ignorable, all controls, and all that reorders or ends lines."""
    ignorable = of(r"\p{Default_Ignorable_Code_Point}")
    hidden = "".join([*ignorable, *(each for each in EVERY if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp"))])
    shown = spelled(hidden)

    assert len(ignorable) > 4000
    assert shown.isascii()
    assert shown.isprintable()
    assert not any(is_visible(f"name{each}") for each in hidden)


@each_row("text", ["plain words", "ünï", "漢字", "عربي", "देवनागरी", "한국어", "é", "🙂", "→ …"])
def test_what_can_be_seen_stays(text: str) -> None:
    """Letters of all scripts, with their marks; symbols."""
    assert is_visible(text)
    assert spelled(text) == text == without_ignorable(text)


def test_what_is_kept_stays() -> None:
    """In ASCII as elsewhere."""
    assert spelled("a\tb\nc\r", kept="\t\n") == "a\tb\nc\\x0d"
    assert spelled("ä\tb\nc\r", kept="\t\n") == "ä\tb\nc\\x0d"


def test_an_address_is_the_same_with_ignorable_characters_in_it() -> None:
    """As the programs see it that pass over them."""
    assert plain("127.\u3164\u00ad0\ufe0f.0.1") == "127.0.0.1"


def test_the_library_is_imported_for_text_that_needs_it() -> None:
    """Text in ASCII costs no import."""
    look = "import sys; from infra.shared.visible import spelled; spelled({!r}); print('regex' in sys.modules)"
    found = [
        subprocess.run([sys.executable, "-c", look.format(text)], capture_output=True, text=True, check=True).stdout
        for text in ("a\x1bb", "ä")
    ]
    assert found == ["False\n", "True\n"]
