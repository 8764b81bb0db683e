"""The published schemas are those that the tables give, and fit what the parser takes, in both directions."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.protocol.guide import form, guide
from infra.cell.protocol.operations import OPERATIONS
from infra.cell.protocol.read import Requested, read
from infra.cell.tools.tool import REFUSED
from tests.cell.loop.examples import read_examples
from tests.cell.protocol.schemas import events_schema, operations_schema
from tests.cell.protocol.test_read import _operation

SPEC = Path(__file__).parents[3] / "spec/protocol"


def test_the_published_schemas_are_the_codes() -> None:
    assert json.loads((SPEC / "operations.schema.json").read_text()) == operations_schema()
    assert json.loads((SPEC / "events.schema.json").read_text()) == events_schema()


def test_the_guide_shows_each_operation() -> None:
    assert all(form(kind) in guide() for kind in OPERATIONS)
    assert len(guide()) < 4000, "it is part of every request"


EXAMPLES = read_examples((SPEC / "EXAMPLES.md").read_text())


def _validator(schema: dict[str, Any]) -> Callable[[Any], bool]:
    # It knows draft 7, in which everything that is used here means the same.
    compiled = fastjsonschema.compile(schema | {"$schema": "http://json-schema.org/draft-07/schema"})

    def fits(value: Any) -> bool:
        try:
            compiled(copy.deepcopy(value))
        except fastjsonschema.JsonSchemaException:
            return False
        return True

    return fits


OPERATIONS_FIT = _validator(operations_schema())
EVENTS_FIT = _validator(events_schema())


def is_taken(value: list[dict[str, Any]]) -> bool:
    """The parser takes every operation of it."""
    found = read(json.dumps(value))
    return isinstance(found, Requested) and all(item.name != REFUSED for item in found.items)


def changed(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each with one thing wrong."""
    yield operation | {"extra": 1}
    yield operation | {"type": "run"}
    yield operation | {"id": 7}
    yield operation | {"id": ""}
    for name in operation:
        yield {key: value for key, value in operation.items() if key != name}
        wrongs: tuple[Any, ...] = (None, 5.5, [], {}, -1, True, {"block": 1}, {"block": "A", "more": 1}, 0)
        yield from (operation | {name: wrong} for wrong in wrongs)


@given(st.lists(_operation(), min_size=1, max_size=2))
@pytest.mark.heavy
def test_what_the_parser_takes_fits_the_schema(made: list[dict[str, Any]]) -> None:
    """And a list that is wrong in one place fits neither, or both."""
    assert is_taken(made)
    assert OPERATIONS_FIT(made)
    assert OPERATIONS_FIT({"protocol": 1, "operations": made})
    for wrong in changed(made[0]):
        if not any(isinstance(value, dict) for value in wrong.values()):  # a block stands beside the list
            assert OPERATIONS_FIT([wrong]) == is_taken([wrong]), wrong


def test_a_block_fits_where_text_does() -> None:
    whole = {"type": "createFile", "path": "a", "content": {"block": "A"}}
    assert OPERATIONS_FIT([whole])
    assert not OPERATIONS_FIT([whole | {"path": {"block": "A"}}])
    assert not OPERATIONS_FIT([whole | {"content": {"block": "A", "more": 1}}])


def test_the_events_of_the_examples_fit_their_schema() -> None:
    """And one with something more, or without its status, does not."""
    for example, answers in EXAMPLES:
        for events in answers:
            assert EVENTS_FIT({"protocol": 1, "events": events}), example.title
            for event in events:
                assert not EVENTS_FIT({"protocol": 1, "events": [event | {"more": 1}]})
                less = {key: value for key, value in event.items() if key != "status"}
                assert not EVENTS_FIT({"protocol": 1, "events": [less]})
