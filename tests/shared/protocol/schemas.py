"""JSON Schema of both messages, made from the tables; `spec/protocol/` holds what these functions give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.cell.protocol.shapes import (
    ERROR_TYPES,
    EVENTS,
    MOST_ID_CHARS,
    MOST_OPERATIONS,
    OK,
    OPERATIONS,
    PROTOCOL,
    STATUSES,
    Field,
)

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_STRING: Mapping[str, Any] = {"type": "string"}
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "text": _STRING,
    "path": {"type": "string", "minLength": 1},
    "seconds": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1_000_000_000},
    "lines": {"type": "integer", "minimum": 0},
    "count": {"type": "integer", "minimum": 1},
    "flag": {"type": "boolean"},
    "status": {"type": "integer"},
}
_BLOCK = {
    "type": "object",
    "properties": {"block": {"type": "string", "minLength": 1}},
    "required": ["block"],
    "additionalProperties": False,
}


def operations_schema() -> dict[str, Any]:
    """Of what an agent says. A bare list means the same as the object; null means that a field is left out."""
    each = [_operation(kind, fields) for kind, fields in OPERATIONS.items()]
    several: dict[str, Any] = {"type": "array", "maxItems": MOST_OPERATIONS, "items": {"oneOf": each}}
    message = _object({"protocol": {"const": PROTOCOL}, "operations": several}, ["operations"])
    shapes: list[dict[str, Any]] = [several, message]
    return {"$schema": _DRAFT, "title": "Operations", "oneOf": shapes}


def events_schema() -> dict[str, Any]:
    """Of what the runtime says."""
    each = [shape for kind, fields in EVENTS.items() for shape in _event(kind, fields)]
    message = _object({"protocol": {"const": PROTOCOL}, "events": {"type": "array", "items": {"anyOf": each}}})
    return {"$schema": _DRAFT, "title": "Events", **message}


def _operation(kind: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    shapes: dict[str, Any] = {"type": {"const": kind}, "id": _or_null({"type": "string", **_ID})}
    for field in fields:
        shape: dict[str, Any] = {"anyOf": [_STRING, _BLOCK]} if field.kind == "text" else dict(_KINDS[field.kind])
        if field.about:
            shape["description"] = field.about
        shapes[field.name] = shape if field.required else _or_null(shape)
    return _object(shapes, ["type", *(field.name for field in fields if field.required)])


_ID = {"minLength": 1, "maxLength": MOST_ID_CHARS}


def _event(kind: str, fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    """An event that is ok has the fields of its kind; any other has an error, and those that are known."""
    shapes: dict[str, Any] = {"type": {"const": kind}, "operation": _STRING}
    for field in fields:
        shapes[field.name] = dict(_KINDS[field.kind]) | ({"description": field.about} if field.about else {})
    operation = [] if kind == "userMessage" else ["operation"]
    required = [field.name for field in fields if field.required]
    is_ok = _object({**shapes, "status": {"const": OK}}, ["type", *operation, "status", *required])
    error = _object(
        {
            "type": {"enum": list(ERROR_TYPES)},
            "message": _STRING,
            "retriable": {"type": "boolean"},
            "hint": _STRING,
        }
    )
    others = {"enum": [status for status in STATUSES if status != OK]}
    return [is_ok, _object({**shapes, "status": others, "error": error}, ["type", "operation", "status", "error"])]


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def _or_null(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(shape), {"type": "null"}]}
