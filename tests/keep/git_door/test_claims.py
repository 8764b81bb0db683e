"""What reports claim: sentences as agents write them, and what the keep takes them to say."""

from __future__ import annotations

import time

import pytest

from infra.keep.git_door.claims import Claim, claims_in

TESTS, PUSH = Claim.TESTS, Claim.PUSH

CLAIM = [
    ("All tests pass.", {TESTS}),
    ("I ran the tests: 12 passed, 0 failed.", {TESTS}),
    ("src/primes.py has is_prime(n); tests/test_primes.py checks it for -2 to 29 and passes.", {TESTS}),
    ("src/hello.py prints hello; tests/test_hello.py runs it and passes.", {TESTS}),
    ("The whole suite is green, with no warnings.", {TESTS}),
    ("The change passes all existing tests and was pushed to main.", {TESTS, PUSH}),
    ("pytest passed; 3 passed.", {TESTS}),
    ("make check passes.", {TESTS}),
    ("Everything works and every test has passed on Python 3.11.", {TESTS}),
    ("All tests pass, but I could not push.", {TESTS}),
    ("Output:\n\n```\n===== 14 passed, 1 skipped in 0.97s =====\n```\n", {TESTS}),
    ("- fixed the parser\n- added a passing test\n- pushed to fix-parser", {TESTS, PUSH}),
    ("Committed and pushed.", {PUSH}),
    ("I have pushed the branch report-duration; have a look at it.", {PUSH}),
    ("Done: the fix is pushed as 1a2b3c4.", {PUSH}),
    ("I couldn\u2019t reproduce it at first. Now it is fixed and pushed.", {PUSH}),
    ("The work is on branch x, pushed; nothing is left to do.", {PUSH}),
]
NONE = [
    "I wrote src/hello.py.",
    "No tests were run, and nothing was pushed.",
    "The tests do not pass yet.",
    "I didn't push; the tests haven't passed.",
    "I could not push: the door refused it.",
    "2 tests failed, 10 passed.",
    "```\n2 failed, 10 passed in 1.20s\n```",
    "If the tests pass I will push.",
    "Once all tests pass, merge it.",
    "Please run the tests; they should pass.",
    "I need the tests to pass before I push.",
    "Do all the tests pass?",
    "The test passes None to the parser.",
    "The tests passed over the empty case.",
    "You pushed a new spec, and I read it.",
    "What the PM pushed yesterday is merged into my branch.",
    "I pushed back on that idea.",
    "CI says `12 passed`, of which I know nothing.",
    'The README says "all tests pass".',
    "> all tests pass",
    "    12 passed",
    "It was already pushed earlier.",
    "The tests take a minute each. A password is needed.",
    "I tried to make the tests pass.",
    "Nothing to report: compassion, bypassed, passage.",
    "",
]


@pytest.mark.parametrize(("words", "claims"), CLAIM, ids=[words[:40] for words, _ in CLAIM])
def test_a_plain_claim_is_found(words: str, claims: set[Claim]) -> None:
    """Of tests that passed and of a push, each by itself."""
    assert claims_in(words) == claims


@pytest.mark.parametrize("words", NONE, ids=[words[:40] for words in NONE])
def test_denial_doubt_intent_and_quotation_claim_nothing(words: str) -> None:
    """Nor does what others did."""
    assert claims_in(words) == frozenset()


def test_long_words_are_looked_through_quickly() -> None:
    """A report is the agent's text, made to be slow if it can be."""
    for piece in ("test ", "`", "```\n", "> ", "pushed ", "1 passed, ", "test_a passes the ", " but ", "    "):
        claims_in(piece * 60_000)
    began = time.process_time()
    for piece in ("tests/", "test_a-", "tests/test_"):
        claims_in((piece * 160 + "\n\n") * 20)
    assert time.process_time() - began < 3.0
