"""When two statements are the same: by their words, without case, marks, articles and plurals; and which checks show
nothing. Pure."""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from typing import Final

_AROUND = "\"'`()[]{}*_\u201c\u201d\u2018\u2019\u00ab\u00bb"
_BEHIND = ".,;:!?\u2026"
_ARTICLES = frozenset(("a", "an", "the"))
_JOINS = re.compile(r"&&|\|\||[;|\n]")
_ALWAYS_TRUE = re.compile(r"(?:true|:|exit( 0)?|cd( .*)?|sleep .*|echo( .*)?|printf( .*)?|test( -n)? \S+|)\Z")
_OF_MIND = re.compile(
    r"(?:^|[\s\"'=:(<])(?:/agent\b|(?:\.{0,2}/)*(?:memory|logs|tasks|reflection|boot)/[\w.-]+)|/bot/mind\b"
)

_STOP_WORDS = """
a about above after again all also am an and any are as at be because been before being below between both but by
can cannot could did do does doing done down during each few for from further get give had has have having he her
here hers him his how i if in into is it its itself just let like make me more most my new no nor not now of off
on once only or other our ours out over own please put same see she should so some such take tell than that the
their theirs them then there these they this those through to too under until up use using very want was we were
what when where which while who whom why will with work would write you your yours
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
"""Words that say little of what is meant."""


@functools.lru_cache(maxsize=8192)
def words_of(text: str) -> tuple[str, ...]:
    """The words in order, each by its stem; numbers, paths, signs and other names of machines stay as they are, as
    `3.1` is not `31` and `-1` is not `1`."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    stripped = [word for word in map(_stripped, plain.split()) if word]
    return tuple(_stem(word) for word in stripped if word not in _ARTICLES) or tuple(stripped)


def normalised(text: str) -> str:
    return " ".join(words_of(text))


def key_of(subject: str, statement: str) -> str:
    """Sixteen hexadecimal digits: the same for what says the same of the same thing."""
    whole = f"{normalised(subject)}\0{normalised(statement)}"
    return hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:16]


def problem_with_check(command: str) -> str:
    """Why the command shows nothing of the world, whatever it ends with; empty when it may. A check can be weak in more
    ways than these, which are the usual ones."""
    if _OF_MIND.search(command):
        return "it reads the mind, and what stands there is no evidence of itself"
    parts = [part.strip() for part in _JOINS.split(command)]
    if all(_ALWAYS_TRUE.match(part) for part in parts):
        return "it ends well whatever is true"
    if re.search(r"(?:\|\||;|\n|&)\s*(?:true|:|exit 0|echo\b[^|;&]*)\s*\Z", command):
        return "its end does not depend on what it looks at"
    return ""


def _stripped(word: str) -> str:
    while (shorter := word.strip(_AROUND).rstrip(_BEHIND)) != word:
        word = shorter
    return word


def _stem(word: str) -> str:
    """Without the `s` of a plural or of a verb."""
    is_one = len(word) < 4 or not (word.isascii() and word.isalpha()) or word.endswith(("ss", "us", "is"))
    return word if is_one else word.removesuffix("s")
