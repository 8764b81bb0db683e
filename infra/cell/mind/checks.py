"""Whether a check that ended well bears out its statement: it names what the statement says, and does not end well when
that is made something else. Pure.

`test -d src` ends well whatever is said of `src`, and so does `grep 8080 config | head` whatever the port is. The one
names nothing of the statement, the other ends the same with any other number in it."""

from __future__ import annotations

import re
from typing import Final

from infra.cell.mind.statements import STOP_WORDS, words_of

_COMMON: Final = """add call come contain exist file find folder go hold install keep lie live look name place project
read repo repository run say set stand start use version write"""
_STOP: Final = frozenset(words_of(" ".join((*STOP_WORDS, _COMMON))))
"""No check is asked to name them."""
_EXACT: Final = re.compile(r"\d|[^\W\d][_=:@#][^\W\d]")
_PLACE: Final = re.compile(r"/|\.[a-z]{1,5}$")
_LETTERS: Final = "zq"


def named(subject: str, statement: str, check: str) -> tuple[str, ...]:
    """The words of the statement that the check names, when these are enough: every number and name of a machine's in
    it that is no path; without such, half of its words that are not the subject's; without such, its paths. Else none.
    """
    words = [word for word in dict.fromkeys(words_of(statement)) if word not in _STOP and len(word.strip("-")) > 1]
    words += [word for word in words_of(statement) if word.isdecimal() and word not in words]
    exact = [word for word in words if _EXACT.search(word) and not _PLACE.search(word)]
    if exact:
        return tuple(exact) if all(_of(word).search(check) for word in exact) else ()
    about = frozenset(words_of(subject))
    words = [word for word in words if word not in about] or words
    plain = [word for word in words if not _PLACE.search(word)] or words
    found = tuple(word for word in words if _of(word).search(check))
    return found if 2 * len([word for word in plain if word in found]) >= len(plain) else ()


def control(check: str, words: tuple[str, ...]) -> str:
    """The check with these words of it made others: as long, and of the same kind."""
    for word in words:
        check = _of(word).sub(lambda found: _other(found[0]), check)
    return check


def _of(word: str) -> re.Pattern[str]:
    """Where a command names the word; a stem also begins longer ones."""
    behind = "" if word.isalpha() else r"(?![^\W_])"
    return re.compile(rf"(?<![^\W_]){re.escape(word)}{behind}", re.IGNORECASE)


def _other(word: str) -> str:
    letters = (_LETTERS[at % 2] if each.isalpha() else each for at, each in enumerate(word))
    return "".join(str((int(each) + 5) % 10) if each in "0123456789" else each for each in letters)
