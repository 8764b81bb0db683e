"""The state of taint as a file of the keep's. One that cannot be read counts as taint of an unknown origin, with all
that is guarded held."""

from __future__ import annotations

import json
import os
from typing import Any

from infra.shared.safe_files import whole_file
from infra.shared.taint import trace
from infra.shared.taint.machine import EVERYTHING, UNKNOWN, Hold, Mark, Past, Taint, TaintedPush, TaintState, served

SCHEMA = "minifram.taint/1"
MOST_BYTES = 64 << 20
NAME, LOCK, TRACE = "taint.json", "taint.lock", "web.jsonl"
"""In the keep's var; the trace as `Paths.web_trace` has it."""


def is_there(var: str) -> bool:
    """Whether the agent ever asked for anything of the web: cheap enough for every push."""
    return os.path.lexists(f"{var}/{NAME}") or trace.is_there(f"{var}/{TRACE}")


def read(var: str) -> TaintState:
    """As it was written last. Never raises."""
    try:
        return decode(whole_file(f"{var}/{NAME}", MOST_BYTES))
    except FileNotFoundError:
        return TaintState()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return TaintState(now=Taint(0.0, (UNKNOWN,)), held={path: Hold(None, (UNKNOWN,)) for path in EVERYTHING})


def present(var: str, at: float) -> TaintState:
    """With what was served since, to be looked at and not to be written. Never raises."""
    if not is_there(var):
        return TaintState()
    state = read(var)
    new = trace.read_since(f"{var}/{TRACE}", state.mark)
    return served(state, new.origins, None, min(new.since, at))


def encode(state: TaintState) -> bytes:
    said = state._asdict() | {
        "schema": SCHEMA,
        "mark": state.mark._asdict(),
        "now": state.now and state.now._asdict(),
        "held": {path: hold._asdict() for path, hold in state.held.items()},
        "pushes": [push._asdict() for push in state.pushes],
        "past": [past._asdict() for past in state.past],
    }
    return json.dumps(said).encode() + b"\n"


def decode(content: bytes) -> TaintState:
    """Raises ValueError and other errors for what `encode` did not write."""
    said = json.loads(content)
    if said["schema"] != SCHEMA:
        raise ValueError(f"the schema is {said['schema']!r}; expected {SCHEMA}")
    return TaintState(
        mark=Mark(**said["mark"]),
        now=Taint(**_tuples(said["now"])) if said["now"] else None,
        held={path: Hold(**_tuples(hold)) for path, hold in said["held"].items()},
        pushes=tuple(TaintedPush(**_tuples(push)) for push in said["pushes"]),
        past=tuple(Past(**_tuples(past)) for past in said["past"]),
    )


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
