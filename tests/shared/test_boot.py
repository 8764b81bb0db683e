"""The value that tells a runner what it is: it comes through whole, or is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.boot import VARIABLE, Boot, Limits, from_json, to_json
from infra.shared.paths import CONTAINER, Paths
from tests.shared.rows import each_row
from tests.shared.texts import any_text

SECONDS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
COUNTS = st.integers(min_value=0)
LIMITS = st.builds(Limits, SECONDS, COUNTS, SECONDS, COUNTS, SECONDS, SECONDS, SECONDS, COUNTS)
PLACES = st.builds(Paths, any_text(), any_text(), any_text(), any_text())
BOOTS = st.builds(
    Boot,
    any_text(),
    any_text(),
    any_text(),
    any_text(),
    any_text(),
    any_text(),
    PLACES,
    LIMITS,
    any_text(),
    any_text(),
    any_text(),
    exploration_usd=st.none() | st.floats(0.0, 1e6),
)


def a_boot() -> Boot:
    return Boot(
        id="0" * 32,
        branch="main",
        commit="c0ffee" * 6 + "c0ff",
        reason="start",
        remote_url="/mnt/remote",
        autonomy="merge",
        places=CONTAINER,
        limits=Limits(600.0, 200, 7200.0, 10_000, 900.0, 600.0, 10.0, 150_000),
    )


@given(BOOTS)
def test_what_the_watcher_writes_the_runner_reads(boot: Boot) -> None:
    """Every value comes back the same, through an environment variable."""
    text = to_json(boot)
    assert "\0" not in text
    assert text.isascii()
    assert from_json(text) == boot


def test_whole_numbers_serve_as_seconds() -> None:
    """A setting of 600 is as good as 600.0."""
    raw = json.loads(to_json(a_boot()))
    raw["limits"]["bash_seconds"] = 600
    assert from_json(json.dumps(raw)) == a_boot()


KEYS = [*Boot._fields, *(f"places.{name}" for name in Paths._fields), *(f"limits.{name}" for name in Limits._fields)]

ADDED = [*Boot._field_defaults, *(f"limits.{name}" for name in Limits._field_defaults)]


def changed(key: str, change: Any) -> str:
    """The JSON of a good boot in which `change` was made to the object that holds `key`."""
    raw = json.loads(to_json(a_boot()))
    group, _, name = key.rpartition(".")
    change(raw[group] if group else raw, name)
    return json.dumps(raw)


@each_row("key", ADDED)
def test_what_an_older_watcher_does_not_say_has_a_default(key: str) -> None:
    """A keep that was put back must be able to run what the agent has become."""
    value = from_json(changed(key, lambda held, name: held.pop(name)))
    name = key.rpartition(".")[2]
    shape = Limits if key.startswith("limits.") else Boot
    assert getattr(value.limits if shape is Limits else value, name) == shape._field_defaults[name]


@each_row("key", [key for key in KEYS if key not in ADDED])
def test_a_missing_key_is_named(key: str) -> None:
    """A watcher of another version is told apart from a broken one."""
    with pytest.raises(ValueError, match=f"missing key {key}; watcher and runner disagree"):
        from_json(changed(key, lambda held, name: held.pop(name)))


OTHERS: tuple[object, ...] = (None, True, [], {}, [1])
ILL_TYPED = [(key, value) for key in KEYS for value in OTHERS]


@pytest.mark.parametrize(("key", "value"), [each for each in ILL_TYPED if each != ("exploration_usd", None)])
def test_an_ill_typed_value_is_named(key: str, value: object) -> None:
    """No value of the wrong type gets as far as the work that needs it."""
    with pytest.raises(ValueError, match=f"^{VARIABLE}: ") as refused:
        from_json(changed(key, lambda held, name: held.__setitem__(name, value)))
    assert key.split(".")[0] in str(refused.value)


@each_row(
    "key, value",
    [
        ("id", 3),
        ("places.bot", 1.5),
        ("limits.run_steps", 1.5),
        ("limits.run_steps", "3"),
        ("limits.run_seconds", "3"),
        ("places", "x"),
        ("limits", 3),
    ],
)
def test_a_number_is_no_text_and_a_fraction_no_count(key: str, value: object) -> None:
    """The types are those of the fields, not merely something that JSON can hold."""
    with pytest.raises(ValueError, match=key):
        from_json(changed(key, lambda held, name: held.__setitem__(name, value)))


@each_row("key", ["extra", "places.extra", "limits.extra"])
def test_what_a_newer_watcher_says_more_is_passed_over(key: str) -> None:
    """An upgraded keep must be able to run an agent that is as it was."""
    assert from_json(changed(key, lambda held, name: held.__setitem__(name, {"new": 1}))) == a_boot()


@each_row("text", ["", "{", "nonsense", "[" * 100_000, '{"id": NaN}', "\ufeff{}"])
def test_what_is_no_json_is_refused_with_the_name_of_the_variable(text: str) -> None:
    """The message says where the trouble is, as the runner has nothing else to show."""
    with pytest.raises(ValueError, match=VARIABLE):
        from_json(text)


@each_row("text", ["[]", "3", "null", '"x"'])
def test_what_is_no_object_is_refused(text: str) -> None:
    """JSON alone is not enough."""
    with pytest.raises(ValueError, match="must be an object"):
        from_json(text)


def test_infinity_is_no_number_of_seconds() -> None:
    """Python's JSON reads it, and a deadline would never come."""
    with pytest.raises(ValueError, match="Infinity"):
        from_json(to_json(a_boot()).replace("600.0", "Infinity", 1))
