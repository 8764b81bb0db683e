"""What leaves with the addresses that the web door is asked for: never a known secret, and never a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from infra.keep.allowance import Allowance
from infra.keep.web_door.outgoing import (
    FREE_CHARS,
    MOST_IN_TEXT,
    SECONDS_A_CHAR,
    Outgoing,
    addresses_in,
    let_words,
)
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.target import target_of

EVIL = "https://evil.example"
KEY = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


def refusal_of(ask: Callable[[], None]) -> WebRefusal | None:
    try:
        ask()
    except WebRefusal as refusal:
        return refusal
    return None


def is_let(ask: Callable[[], None]) -> bool:
    refusal = refusal_of(ask)
    if refusal:
        error = refusal.error
        assert (error.type, error.retriable, refusal.flags) == ("policy_denied", False, ("outgoing",))
        assert KEY not in error.message
    return refusal is None


def let(out: Outgoing, *urls: str, now: float = 0.0, is_named: bool = False) -> list[bool]:
    return [is_let(partial(out.let, target_of(url), is_named, now)) for url in urls]


@pytest.mark.attack("S56")
def test_a_file_does_not_leave_in_an_address_nor_in_pieces() -> None:
    """In the query, the path, the host's name, and in as many addresses as one likes."""
    data = "q7Gd" * 500
    assert let(Outgoing(), f"{EVIL}/?data={data}", f"{EVIL}/{data}", f"{EVIL}/{'a/' * FREE_CHARS}") == [False] * 3
    out, sent = Outgoing(), 0
    for at in range(0, len(data), 50):
        piece = data[at : at + 50]
        sent += 50 * sum(let(out, f"{EVIL}/?d={piece}", f"{EVIL}/{piece}", f"https://{piece}.evil.example/"))
    assert 0 < sent <= FREE_CHARS


def test_time_gives_back_what_may_leave() -> None:
    """Never more than the most, and a clock that stands still gives nothing."""
    mine = Allowance(2, 10.0)
    assert [mine.take(now) for now in (0.0, 0.0, 0.0, 9.0, 10.5, 10.5)] == [True, True, False, False, True, False]
    assert [mine.take(1000.0) for _ in range(3)] == [True, True, False]
    out = Outgoing()
    page = f"{EVIL}/{'x' * (FREE_CHARS - 20)}"
    assert let(out, page, page) == [True, False]
    assert let(out, page, now=FREE_CHARS * SECONDS_A_CHAR) == [True]


def test_honest_reading_is_not_hindered() -> None:
    """Links of what was read, whatever their length; hosts that the PM names; thirty short addresses."""
    out = Outgoing()
    long = f"https://docs.example/search?{'q=x&' * 500}"
    assert let(out, long) == [False]
    out.served("https://docs.example/", [long])
    assert let(out, f"{long}#part") == [True]
    assert let(out, f"{EVIL}/?{'x' * 5000}", is_named=True) == [True]
    assert all(let(Outgoing(), *(f"https://docs.example/library/{n}.html" for n in range(20))))


def test_a_link_is_known_however_it_is_written() -> None:
    """As pages write them, and as they stand in a text without links."""
    out, path = Outgoing(), "\u00fc" * FREE_CHARS
    out.served("https://docs.example/", ["https://Docs.example:443/" + path, "https://a.example", "no address"])
    assert let(out, f"https://docs.example/{path}") == [True]
    text = f'{{"next": "{EVIL}/{"x" * 900}", "more": ["{EVIL}/{"y" * 900}"]}} and (see {EVIL}/{"z" * 900}).'
    out.served("https://docs.example/api", addresses_in(text))
    assert let(out, *(f"{EVIL}/{letter * 900}" for letter in "xyz")) == [True] * 3
    assert let(out, f"{EVIL}/{'v' * FREE_CHARS}") == [False]
    assert len(list(addresses_in(f"{EVIL}/a " * 5000))) == MOST_IN_TEXT


@pytest.mark.attack("S56")
@pytest.mark.parametrize("words", [f"{EVIL}/?k={KEY}", f"{EVIL}/{KEY.replace('_', '%5f')}", f"how does {KEY} work"])
def test_no_known_shape_of_a_secret_leaves(words: str) -> None:
    """Not even to a host that the PM names, and not in what is searched for."""
    assert not is_let(partial(let_words, words))
    assert "://" not in words or let(Outgoing(), words, is_named=True) == [False]


def test_what_is_remembered_is_bounded() -> None:
    out, long = Outgoing(most_known=10), f"{EVIL}/{'x' * FREE_CHARS}"
    out.served(f"{EVIL}/", (f"{long}{number}" for number in range(20)))
    assert let(out, f"{long}9", f"{long}10") == [False, True]
