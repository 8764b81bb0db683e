"""A run as spans for tools that read OpenTelemetry: OTLP in JSON, one span a line, attributes by the conventions for
generative AI (semantic-conventions v1.41, docs/gen-ai; all of them still in development there). Pure.

Words, arguments and results stay out: the conventions leave them to whoever asks for them, and they are in the
transcript."""

from __future__ import annotations

import calendar
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from host.agent.runs import Step

INTERNAL, CLIENT = 1, 3
"""Kinds of spans, opentelemetry.proto.trace.v1."""
FAILED = 2
TEXT_CHARS = 200
PROVIDER = "minifram"
"""Who is asked: the model door. Which provider it asks is its own business."""

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
                yield _line(
                    run, _text(facts.get("step_id")), f"chat {model}", CLIENT, at, facts, _of_answer(run, facts)
                )
            case "acted":
                name = f"execute_tool {_text(facts.get('tool_name'))}"
                yield _line(run, _text(facts.get("step_id")), name, INTERNAL, at, facts, _of_call(run, facts))
            case "ended":
                why = _text(facts.get("end"))
    whole = {"duration_ms": (ended - began) // 1_000_000}
    attributes: _Attributes = {**_common(run, "invoke_agent"), "gen_ai.agent.name": "minifram"}
    attributes |= {"gen_ai.request.model": model} if model else {}
    attributes |= {"minifram.run.end": why} if why else {}
    yield _line(run, "", "invoke_agent minifram", INTERNAL, ended, whole, attributes)


def _of_answer(run: str, facts: dict[str, Any]) -> _Attributes:
    counts = facts.get("usage")
    usage = counts if isinstance(counts, dict) else {}
    new, read, written = (_count(usage, f"{name}_tokens") for name in ("input", "cache_read", "cache_write"))
    return {
        **_common(run, "chat"),
        "gen_ai.request.model": _text(facts.get("model")),
        "gen_ai.response.model": _text(facts.get("model")),
        "gen_ai.response.finish_reasons": [_text(facts.get("stop_reason"))],
        "gen_ai.usage.input_tokens": new + read + written,
        "gen_ai.usage.output_tokens": _count(usage, "output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
    }


def _of_call(run: str, facts: dict[str, Any]) -> _Attributes:
    call = facts.get("call")
    found: _Attributes = {
        **_common(run, "execute_tool"),
        "gen_ai.tool.name": _text(facts.get("tool_name")),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": _text(call.get("id") if isinstance(call, dict) else None),
    }
    return found | ({"error.type": _text(facts.get("error_code"))} if facts.get("error_code") else {})


def _common(run: str, operation: str) -> _Attributes:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.conversation.id": run[:TEXT_CHARS],
    }


def _line(run: str, step: str, name: str, kind: int, ended: int, facts: dict[str, Any], attributes: _Attributes) -> str:
    span: dict[str, Any] = {
        "traceId": _id(run, 32),
        "spanId": _id(f"{run} {step}", 16),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(max(0, ended - _count(facts, "duration_ms") * 1_000_000)),
        "endTimeUnixNano": str(ended),
        "attributes": [{"key": key, "value": _value(value)} for key, value in attributes.items()],
        "status": {"code": FAILED} if facts.get("status") == "error" else {},
    }
    if step:
        span["parentSpanId"] = _id(f"{run} ", 16)
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "minifram"}}]}
    scope = {"scope": {"name": "minifram.transcript"}, "spans": [span]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


def _value(value: str | int | list[str]) -> dict[str, Any]:
    match value:
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}


def _id(of: str, digits: int) -> str:
    return hashlib.sha256(of.encode(errors="replace")).hexdigest()[:digits]


def _text(value: object) -> str:
    return value[:TEXT_CHARS].encode(errors="replace").decode() if isinstance(value, str) else ""


def _count(facts: dict[str, Any], key: str) -> int:
    value = facts.get(key)
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def _nanoseconds(at: str) -> int:
    """Of `contract.clock.timestamp`; 0 for anything else."""
    try:
        seconds = calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))
        return max(0, seconds * 1000 + int(at[20:23])) * 1_000_000
    except ValueError:
        return 0
