"""JSON Schema of both messages, made from the types; `spec/protocol/` holds what these functions give."""

from __future__ import annotations

from typing import Any

import msgspec

from infra.cell.protocol.operations import EventsMessage, OperationList, OperationsMessage

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def operations_schema() -> dict[str, Any]:
    """Of what an agent says. A bare list means the same as the object; null means that a field is left out."""
    return _DRAFT | {"title": "Operations"} | msgspec.json.schema(OperationList | OperationsMessage)


def events_schema() -> dict[str, Any]:
    """Of what the runtime says."""
    return _DRAFT | {"title": "Events"} | msgspec.json.schema(EventsMessage)
