"""What the watcher tells a runner that it starts: one JSON value in the environment variable `MINIFRAM_BOOT`.

The keep reads `minifram.yaml`; the cell gets only its part of it, already checked, because parsing YAML would
cost the runner more than the rest of its start.

Watcher and runner may be of different ages. Unknown keys are passed over, a key with a default may be missing."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn

from infra.shared.paths import Paths

VARIABLE = "MINIFRAM_BOOT"
TOOLS, OPERATIONS = "tools", "operations"
"""How a model asks for acts: by calls of tools, or by lists of operations in plain text (`shared.protocol`)."""


class Limits(NamedTuple):
    """Bounds on one runner, from the PM's settings. Seconds, characters, counts."""

    bash_seconds: float
    """The longest a single command may run unless the model asks for less."""
    run_steps: int
    """Model calls in one run."""
    run_seconds: float
    output_chars: int = 10_000
    """The longest tool result the model is shown; the middle is cut and the cut is said."""
    validation_seconds: float = 900.0
    """The longest that the tests of a branch may run when it is examined."""
    work_seconds: float = 600.0
    """The clock's grid on which COMMS.md is read at the latest."""
    door_seconds: float = 10.0
    """How long a boot waits for the doors to answer."""
    context_tokens: int = 150_000
    """The longest conversation that is sent to the model: more of it is shortened, then summed up, then begun anew.
    With 16,000 tokens of an answer it fits the 200,000 that the providers' models have."""


class Boot(NamedTuple):
    """One start of one runner."""

    id: str
    """32 hex digits, new for each start; the boot log and the probes carry it."""
    branch: str
    commit: str
    """Full sha that the checkout was at when it was launched."""
    reason: str
    """Why this start happened, for people: `start`, `bootstrap`, `restart: …`, `fallback: …`."""
    remote_url: str
    """What the agent's clones call origin."""
    autonomy: str
    """`merge`, `propose` or `frozen`."""
    places: Paths
    limits: Limits
    instead_of: str = ""
    """The commit of main that this start replaces because it could not run; empty for main itself."""
    prompt: str = ""
    """Path of the base prompt when it is not the checkout's own SYSTEM.md: the image's, in safe mode."""
    policy: str = ""
    """The PM's policy (`shared.policy.to_text`), read when the first run begins; empty for the default."""
    acts: str = TOOLS
    """TOOLS or OPERATIONS."""
    exploration_usd: float | None = None
    """US dollars for exploration in a UTC day; None: none."""

    @property
    def is_safe_mode(self) -> bool:
        return bool(self.prompt)


def to_json(boot: Boot) -> str:
    plain = boot._asdict() | {"places": boot.places._asdict(), "limits": boot.limits._asdict()}
    return json.dumps(plain)


def from_json(text: str) -> Boot:
    """Read what `to_json` wrote. Raises ValueError that names the missing, unknown or ill-typed key."""
    try:
        raw = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{VARIABLE} is not JSON ({error}); the watcher sets it when it starts a runner") from None
    fields = _checked(raw, Boot, "")
    places = Paths(**_checked(fields.pop("places"), Paths, "places."))
    limits = Limits(**_checked(fields.pop("limits"), Limits, "limits."))
    return Boot(**fields, places=places, limits=limits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _checked(raw: object, shape: type[Boot] | type[Paths] | type[Limits], where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"{VARIABLE}: {where.rstrip('.') or 'the value'} must be an object")
    given = {key: raw[key] for key in shape._fields if key in raw}
    for key in shape._fields:
        if key not in given:
            if key in shape._field_defaults:
                continue
            raise ValueError(f"{VARIABLE}: missing key {where}{key}; watcher and runner disagree about the contract")
        # NamedTuple keeps an annotation as a ForwardRef, whose text is this attribute.
        name = shape.__annotations__[key].__forward_arg__
        expected = _EXPECTED.get(name)
        if expected and (not isinstance(raw[key], expected) or isinstance(raw[key], bool)):
            raise ValueError(f"{VARIABLE}: {where}{key} is {raw[key]!r}; expected {name}")
    return given


_EXPECTED: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}
