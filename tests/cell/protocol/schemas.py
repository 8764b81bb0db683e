"""JSON Schema of both messages, made from the types; `spec/protocol/` holds what these functions give."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from infra.cell.protocol.operations import BLOCKS, MOST_OPERATIONS, OPERATIONS, EventsMessage

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


class Block(msgspec.Struct, forbid_unknown_fields=True):
    """The text of the fence with this name, behind the list."""

    block: Annotated[str, Meta(min_length=1)]


def _operation(kind: str) -> type[msgspec.Struct]:
    """The arguments of the tool, with `type` and `id`, and blocks where there may be some; null means left out."""
    fields: list[Any] = [("id", Annotated[str, Meta(min_length=1, max_length=200)] | None, None)]
    for each in msgspec.structs.fields(OPERATIONS[kind]):
        takes = Union[each.type, Block] if each.name in BLOCKS else each.type  # noqa: UP007 - of types at run time
        fields += [(each.name, takes) if each.required else (each.name, Union[takes, None], None)]  # noqa: UP007
    name = kind[0].upper() + kind[1:]
    return msgspec.defstruct(name, fields, tag=kind, tag_field="type", forbid_unknown_fields=True, kw_only=True)


def operations_schema() -> dict[str, Any]:
    """Of what an agent says. A bare list means the same as the object."""
    each: Any = Union[tuple(map(_operation, OPERATIONS))]  # noqa: UP007
    listed: Any = Annotated[list[each], Meta(max_length=MOST_OPERATIONS)]
    fields: list[Any] = [("operations", listed), ("protocol", Literal[1], 1)]
    whole: Any = msgspec.defstruct("OperationsMessage", fields, forbid_unknown_fields=True)
    return _DRAFT | {"title": "Operations"} | msgspec.json.schema(Union[listed, whole])  # noqa: UP007


def events_schema() -> dict[str, Any]:
    """Of what the runtime says."""
    return _DRAFT | {"title": "Events"} | msgspec.json.schema(EventsMessage)
