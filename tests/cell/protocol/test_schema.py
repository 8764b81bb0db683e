"""The published schemas are those that the tables give, and the examples are what happens."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import fastjsonschema
import msgspec
import pytest
from msgspec import Meta

from infra.cell.protocol.operations import BLOCKS, EVENTS, MOST_OPERATIONS, OPERATIONS, form, guide
from tests.cell.loop.examples import play, read_examples

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


class Block(msgspec.Struct, forbid_unknown_fields=True):
    """The text of the fence with this name, behind the list."""

    block: Annotated[str, Meta(min_length=1)]


def _arguments(kind: str) -> type[msgspec.Struct]:
    """The arguments of the tool, with `type` and `id`, and blocks where there may be some; null means left out."""
    fields: list[Any] = [("id", Annotated[str, Meta(min_length=1, max_length=200)] | None, None)]
    for each in msgspec.structs.fields(OPERATIONS[kind]):
        takes = Union[each.type, Block] if each.name in BLOCKS else each.type  # noqa: UP007 - of types at run time
        fields += [(each.name, takes) if each.required else (each.name, Union[takes, None], None)]  # noqa: UP007
    name = kind[0].upper() + kind[1:]
    return msgspec.defstruct(name, fields, tag=kind, tag_field="type", forbid_unknown_fields=True, kw_only=True)


def operations_schema() -> dict[str, Any]:
    """Of what an agent says. A bare list means the same as the object."""
    each: Any = Union[tuple(map(_arguments, OPERATIONS))]  # noqa: UP007
    listed: Any = Annotated[list[each], Meta(max_length=MOST_OPERATIONS)]
    fields: list[Any] = [("operations", listed), ("protocol", Literal[1], 1)]
    whole: Any = msgspec.defstruct("OperationsMessage", fields, forbid_unknown_fields=True)
    return _DRAFT | {"title": "Operations"} | msgspec.json.schema(Union[listed, whole])  # noqa: UP007


SPEC = Path(__file__).parents[3] / "spec/protocol"
EVENTS_SCHEMA = json.loads((SPEC / "events.schema.json").read_text())


def test_the_published_schemas_are_the_codes() -> None:
    assert json.loads((SPEC / "operations.schema.json").read_text()) == operations_schema()
    shapes = [
        each["properties"] for each in EVENTS_SCHEMA["$defs"].values() if "operation" in each.get("properties", {})
    ]
    said = {each["type"]["enum"][0]: each.keys() - {"type", "operation", "status", "error"} for each in shapes}
    assert said == {kind: set(fields) for kind, fields in EVENTS.items()}


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


EVENTS_FIT = _validator(EVENTS_SCHEMA)


def test_the_events_of_the_examples_fit_their_schema() -> None:
    """And one with something more, or without its status, does not."""
    for example, answers in EXAMPLES:
        for events in answers:
            assert EVENTS_FIT({"protocol": 1, "events": events}), example.title
            for event in events:
                assert not EVENTS_FIT({"protocol": 1, "events": [event | {"more": 1}]})
                less = {key: value for key, value in event.items() if key != "status"}
                assert not EVENTS_FIT({"protocol": 1, "events": [less]})


@pytest.mark.heavy
def test_each_example_is_what_happens(tmp_path: Path) -> None:
    """All of version 1, by the operations that are said and the events that answer them."""
    assert len({example.title for example, _ in EXAMPLES}) == 8
    for number, (example, answers) in enumerate(EXAMPLES):
        assert len(example.replies) + bool(example.opens_with) == len(answers) > 0, example.title
        assert play(example, tmp_path / str(number)) == answers, example.title
