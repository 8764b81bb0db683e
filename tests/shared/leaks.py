"""Secrets of every shape, in every position; and that places where text leaves show none of them: tables of those of
the cell (`tests/shared/test_redacted_file.py`), the keep (`tests/keep/test_leaks.py`), the host
(`tests/host/test_notify.py`), each beside the code that it runs."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from infra.keep.questions import Question
from tests.shared.test_secret_shapes import BASE62, MAKERS, some

AT = "2026-01-31T10:42:12.345Z"
COUNTERS = {"input_tokens": 123456, "max_tokens": "4096", "output_tokens": 7890, "token": 3}
"""Never redacted: neither as values nor in words."""
COUNTED = "input_tokens: 123456, cache_read_input_tokens=1234567, 98765 tokens"
NAMES = ("api_key", "X-API-Key", "clientSecret", "access_token", "db_password", "Authorization", "cookie", "passphrase")
AROUND: tuple[tuple[str, str], ...] = (
    ("", ""),
    ("first\n", "\nlast"),
    ("export KEY='", "'"),
    ("(", ")"),
    ("\t- ", ";"),
    ("é ", " é"),
    ("." * 300 + " ", " " + "." * 300),
)


class Secret(NamedTuple):
    kind: str
    written: str
    """As it stands in a text."""
    parts: tuple[str, ...]
    """What must not be seen of it."""


def secrets(chance: random.Random) -> Iterator[Secret]:
    """One of each shape."""
    for kind, make in MAKERS.items():
        key = make(chance)
        yield Secret(
            kind, key, tuple(line for line in key.splitlines() if len(line) > 30 and "PRIVATE" not in line) or (key,)
        )
    plain = some(chance, string.ascii_lowercase, 7) + some(chance, BASE62, 4)
    for form in (
        *("password: {}", "DB_PASSWORD={}", "passphrase='{}'", 'password = "{}"', "--password={} --verbose"),
        *("https://me:{}@host.example/x", "postgres://app:{}@db:5432/x"),
        *(
            "Authorization: Basic {}",
            "Authorization: Bearer {}",
            "-H 'authorization: token {}'",
            "Proxy-Authorization: Basic {}",
        ),
    ):
        yield Secret(form, form.format(plain), (plain,))


def positions(secret: Secret) -> Iterator[str]:
    """As text, at either end, between other words, and in JSON within JSON."""
    for before, behind in AROUND:
        yield f"{before}{secret.written}{behind}"
    yield json.dumps({"args": [{"command": secret.written}]})
    yield json.dumps({"told": json.dumps(["x", secret.written])})


def structured(chance: random.Random) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Arguments that hold any value under the name of a secret, at any depth, beside what only counts."""
    value = some(chance, BASE62 + " !", chance.randint(6, 40))
    name = chance.choice(NAMES)
    inner: Any = chance.choice(({name: value}, {name: [value, value]}, [{name: value}], {"b": {name: value}}))
    for _ in range(chance.randint(0, 3)):
        inner = chance.choice(({"a": inner}, [1, inner], {"headers": inner, **COUNTERS}))
    return {"command": "x", "more": inner, "usage": COUNTERS}, (value,)


Place = Callable[[str, Mapping[str, Any]], str]
"""Writes words, and arguments where it takes some; gives what can be read there."""


def examine(places: Mapping[str, Place], seed: int, most: int = 3) -> None:
    """Every place shows every text without the secret in it; of the positions of each secret, `most` are tried."""
    chance = random.Random(seed)
    leaks: list[tuple[str, str, object]] = []
    for secret in secrets(chance):
        several = list(positions(secret))
        for words in chance.sample(several, min(most, len(several))):
            given, values = structured(chance)
            for name, place in places.items():
                shown = place(words, given)
                plain = shown.replace("\\\\", "\\").replace('\\"', '"')
                leaks += [(name, secret.kind, words) for part in secret.parts if part in shown or part in plain]
                leaks += [(name, "structured", given) for value in values if value in shown]
    assert leaks == []


def counters_stay(places: Mapping[str, Place]) -> None:
    """The control: what counts tokens is shown as it is, in words; and among arguments, where the place has some."""
    given = {"command": COUNTED, "usage": COUNTERS}
    for name, place in places.items():
        shown = place(COUNTED, given)
        assert "[secret]" not in shown, (name, shown)
        assert "123456" in shown, (name, shown)


def question(words: str, given: Mapping[str, Any]) -> Question:
    """The keep's question about a call that holds the words, for a reason that holds them."""
    call = {"command": words, **given}
    return Question(
        id="a" * 8,
        call="b" * 64,
        tool="bash",
        input=call,
        why=words,
        branch="main",
        commit="c" * 40,
        asked_at=AT,
    )
