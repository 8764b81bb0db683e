"""A run as spans for tools that read OpenTelemetry: OTLP in JSON, one span a line, attributes by the conventions for
generative AI (semantic-conventions v1.41, docs/gen-ai; all of them still in development there). Pure.

Words, arguments and results stay out: the conventions leave them to those who ask for them, and they are in the
transcript."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from host.agent.runs import Step
from host.display import seconds_of

INTERNAL, CLIENT = 1, 3
"""Kinds of spans, opentelemetry.proto.trace.v1."""
FAILED = 2
TEXT_CHARS = 200
PROVIDER = "minifram"
"""What is asked: the model door. Which provider it asks is its own business."""

_Attributes = dict[str, str | int | list[str]]


def spans(run: str, steps: Iterable[Step]) -> Iterator[str]:
    """A line for each answer of the model and each call, and at the end one for the run, which is their parent.

    `run` names it when its transcript does not."""
    began = ended = 0
    model, why = "", ""
    for step in steps:
        at, facts = _nanoseconds(step.at), step.facts
        run = _text(facts.get("run_id")) or run
        began, ended = began or at, max(ended, at)
        match step.kind:
            case "answered":
                model = _text(facts.get("model"))
                yield _line(run, f"chat {model}", CLIENT, at, facts, _of_answer(facts, model))
            case "acted":
                name = f"execute_tool {_text(facts.get('tool_name'))}"
                yield _line(run, name, INTERNAL, at, facts, _of_call(facts))
            case "ended":
                why = _text(facts.get("end"))
    attributes: _Attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "minifram"}
    attributes |= {"gen_ai.request.model": model} if model else {}
    attributes |= {"minifram.run.end": why} if why else {}
    whole = {"duration_ms": (ended - began) // 1_000_000}
    yield _line(run, "invoke_agent minifram", INTERNAL, ended, whole, attributes)


def _of_answer(facts: dict[str, Any], model: str) -> _Attributes:
    counts = facts.get("usage")
    usage = counts if isinstance(counts, dict) else {}
    new, read, written = (_count(usage, f"{name}_tokens") for name in ("input", "cache_read", "cache_write"))
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.response.finish_reasons": [_text(facts.get("stop_reason"))],
        "gen_ai.usage.input_tokens": new + read + written,
        "gen_ai.usage.output_tokens": _count(usage, "output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
    }


def _of_call(facts: dict[str, Any]) -> _Attributes:
    call = facts.get("call")
    found: _Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": _text(facts.get("tool_name")),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": _text(call.get("id") if isinstance(call, dict) else None),
    }
    return found | ({"error.type": _text(facts.get("error_code"))} if facts.get("error_code") else {})


def _line(run: str, name: str, kind: int, ended: int, facts: dict[str, Any], attributes: _Attributes) -> str:
    step = _text(facts.get("step_id"))
    attributes = {"gen_ai.provider.name": PROVIDER, "gen_ai.conversation.id": run[:TEXT_CHARS], **attributes}
    span: dict[str, Any] = {
        "traceId": _id(run, 32),
        "spanId": _id(f"{run} {step}", 16),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(max(0, ended - _count(facts, "duration_ms") * 1_000_000)),
        "endTimeUnixNano": str(ended),
        "attributes": [{"key": key, "value": _value(value)} for key, value in attributes.items()],
        "status": {"code": FAILED} if facts.get("status", "ok") != "ok" else {},
    }
    if step:
        span["parentSpanId"] = _id(f"{run} ", 16)
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "minifram"}}]}
    scope = {"scope": {"name": "minifram.transcript"}, "spans": [span]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


def _value(value: str | int | list[str]) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
    return {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}


def _id(of: str, digits: int) -> str:
    return hashlib.sha256(of.encode(errors="replace")).hexdigest()[:digits]


def _text(value: object) -> str:
    return value[:TEXT_CHARS].encode(errors="replace").decode() if isinstance(value, str) else ""


def _count(facts: dict[str, Any], key: str) -> int:
    value = facts.get(key)
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def _nanoseconds(at: str) -> int:
    """Of `clock.timestamp`; 0 for anything else."""
    return max(0, round((seconds_of(at) or 0.0) * 1000)) * 1_000_000
