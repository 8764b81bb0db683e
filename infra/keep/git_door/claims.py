"""What a report's own words claim to have been done, as far as a few plain English phrases tell. Pure.

It is meant to miss rather than to accuse: a sentence with any word of doubt, denial or intent claims nothing, and
neither does what is quoted or is code, except the summary line of a pytest run."""

from __future__ import annotations

import enum
import re

MOST_CHARS, SENTENCE_CHARS = 20_000, 1000
"""Of a report, and of a sentence; what stands behind is not looked at."""


class Claim(enum.Enum):
    TESTS = "that tests passed"
    PUSH = "a push"


def claims_in(words: str) -> frozenset[Claim]:
    """What the words say was done."""
    words = words[:MOST_CHARS]
    found = {Claim.TESTS} if any(map(_is_summary, words.splitlines())) else set[Claim]()
    for sentence in _sentences(words):
        if _DOUBT.search(sentence):
            continue
        if any(pattern.search(sentence) for pattern in _PASSED):
            found.add(Claim.TESTS)
        if _PUSHED.search(sentence) and not _PUSHED_BY_OTHERS.search(sentence):
            found.add(Claim.PUSH)
    return frozenset(found)


def _is_summary(line: str) -> bool:
    return bool(_SUMMARY.search(line)) and not _FAILURES.search(line)


def _sentences(words: str) -> list[str]:
    text = _CODE.sub(" ", _FENCED.sub("\n", words)).lower().replace("\u2019", "'")
    return [_HARMLESS.sub(" ", sentence[:SENTENCE_CHARS]) for sentence in _ENDS.split(text)]


_FENCED = re.compile(
    r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[^\n]*$|\Z)|^(?: {4}|\t| {0,3}\\?>)[^\n]*$", re.DOTALL | re.MULTILINE
)
_CODE = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d")
_ENDS = re.compile(r"[.!?;:](?=\s)|\n\s*\n|\n\s*(?:[-*+]|\d+[.)])\s|[,;]?\s(?:but|although|though|however|whereas)\s")
_HARMLESS = re.compile(
    r"\b(?:0|no|zero|without|with no|and no)(?: any)? "
    r"(?:failed|failures?|errors?|warnings?|regressions?|skipped|skips)\b"
)
"""What denies nothing that matters here."""
_DOUBT = re.compile(
    r"\b(?:not|never|no|none|nothing|nobody|neither|nor|cannot|without|unable|unless|until|if|whether|when|once|before"
    r"|will|would|should|could|can|might|may|must|shall|let|needs?|needed|wants?|wanted|please|try|tries|tried|trying"
    r"|hopes?|expect|plan|planned|todo|fail|fails|failed|failing|failures?|errors?|broken|skipped|instead|how|why"
    r"|said|says|claims?|claimed|asked|supposed)\b|n't\b|\bto (?:pass|push|make|be|have)\b|\?$"
)
# Nothing in it may run on by itself: the words are the agent's, and a few thousand of them would take a minute.
_TEST = r"(?:\btests?\b|\btest_\w|\btest suite\b|\bsuite\b|\bpytest\b|\bmake (?:test|check)\b)"
_AND_NOT_ON = r"(?!\s+(?:(?:over|by|along|through|to|as|none|true|false|an?|the|this|that|it|its|them)\b|\w+=))"
_PASSED = (
    re.compile(rf"{_TEST}[^\n]{{0,120}}?\b(?:pass|passes|passed|passing|succeed|succeeds|succeeded){_AND_NOT_ON}\b"),
    re.compile(rf"{_TEST}[^\n]{{0,40}}?\b(?:is|are|was|were|all|runs?|ran|stays?|stayed) (?:all )?(?:green|clean)\b"),
    re.compile(
        r"\bpass(?:es|ed)? (?:(?:all|every|each|both|the|its|their|my|our|new|old|own|existing|unit|whole|full)\s)*"
        r"(?:tests?|test suite|suite)\b"
    ),
    re.compile(r"\bpassing tests?\b"),
    re.compile(r"\b[1-9]\d* (?:tests? )?(?:passed|passing)\b"),
)
_PUSHED = re.compile(r"\bpushed\b(?!\s+(?:back|aside|off|through|further|hard|by (?:you|the pm)))")
_PUSHED_BY_OTHERS = re.compile(
    r"\b(?:you|your|pm|pm's|somebody|someone|others?|user|owner|watcher)\b[^\n]{0,60}\bpushed\b"
    r"|\b(?:already|earlier|previously|last|yesterday)\b"
)
_SUMMARY = re.compile(r"\b[1-9]\d* passed(?:, \d+ \w+)* in \d+(?:\.\d+)?\s?s\b")
_FAILURES = re.compile(r"\b[1-9]\d* (?:failed|errors?)\b")
