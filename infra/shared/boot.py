"""What the watcher tells a runner that it starts, one JSON value in the environment variable `MINIFRAM_BOOT`; and what
the runner says about its start, in the lines of `logs/bootstrap.log` (`SPEC_BOOT`).

The keep reads `minifram.yaml`; the cell gets only its part of it, already checked. Watcher and runner may be of
different ages: unknown keys are passed over, a key with a default may be missing."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from infra.shared.door import encoded
from infra.shared.paths import Paths
from infra.shared.policy import Policy

VARIABLE = "MINIFRAM_BOOT"
TOOLS, OPERATIONS = "tools", "operations"
"""How a model asks for acts: by calls of tools, or by lists of operations in plain text (`infra/cell/protocol`)."""


class Limits(msgspec.Struct, frozen=True):
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
    has_browser: bool = False
    """Pages can be rendered (`web.browser`)."""
    has_ghost: bool = False
    """They can be read from pictures (`web.ghost.enabled`)."""


class Boot(msgspec.Struct, frozen=True):
    """One start of one runner."""

    id: str
    """32 hex digits, new for each start; the boot log carries it."""
    branch: str
    commit: str
    """Full sha of what runs. The checkout may be at another."""
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
    code: str = ""
    """The directory that the runner's code was started from, with the SYSTEM.md and services.yaml of that commit: the
    keep's copy of it, or the image in safe mode."""
    is_safe_mode: bool = False
    policy: Policy = Policy()
    acts: str = TOOLS
    """TOOLS or OPERATIONS."""
    exploration_usd: float | None = None
    """US dollars for exploration in a UTC day; None: none."""


def to_json(boot: Boot) -> str:
    return encoded(boot).decode()


def from_json(text: str) -> Boot:
    """Read what `to_json` wrote. Raises ValueError that names the missing or ill-typed key."""
    try:
        return msgspec.json.decode(text, type=Boot)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{VARIABLE}: {error}; the watcher sets it when it starts a runner") from None


# The boot log: `<time> <word> <branch> <commit> <boot-id> [key=value …]`. The runner writes it, and the watcher adds
# how each attempt ended (`BY`). The watcher and the PM read it. A line that does not parse is nobody's evidence.

BOOTSTRAPPING = "BOOTSTRAPPING"
SUCCESS = "SUCCESS"
FAILED = "FAILED"
ENDED = "ENDED"
"""The watcher's word for a boot that had said SUCCESS."""
BY, WATCHER = "by", "watcher"
"""The detail of every line that the watcher wrote. None of them is evidence of what the runner said."""


class BootLine(NamedTuple):
    time: str
    word: str
    branch: str
    commit: str
    boot_id: str
    details: dict[str, str] = {}  # noqa: RUF012 - the type is immutable, and nobody changes its default
    """Keys of lower case letters and `_`."""


def format_line(line: BootLine) -> str:
    """One line with its newline. Detail values are percent-encoded where they hold spaces or control characters."""
    head = " ".join((line.time, line.word, line.branch, line.commit, line.boot_id))
    return head + "".join(f" {key}={_quoted(value)}" for key, value in line.details.items()) + "\n"


_LINE = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z) (BOOTSTRAPPING|SUCCESS|FAILED|ENDED) (\S+)"
    r" ([0-9a-f]{40}|-) ([0-9a-f]{32})((?: [a-z_]+=\S*)*)\n"
)


def parse_line(text: str) -> BootLine | None:
    """The line, or None when it is incomplete or malformed.

    A line without its newline may still be being written, or was cut by a full disk."""
    match = re.fullmatch(_LINE, text)  # compiled at first use: a start of the runner only writes
    if match is None:
        return None
    time, word, branch, commit, boot_id, rest = match.groups()
    pairs = (item.split("=", 1) for item in rest.split())
    return BootLine(time, word, branch, commit, boot_id, {key: _unquoted(value) for key, value in pairs})


# Percent-encoding as in URLs; `urllib.parse` costs the runner more than all of this module.
_PLAIN = frozenset(b"!#$&'()*+,-./:;<=>?@[]_{|}~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def _quoted(value: str) -> str:
    # Half of a surrogate pair becomes visible text: a failure must be told even if its words are strange.
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in value.encode(errors="backslashreplace"))


def _unquoted(value: str) -> str:
    plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), value.encode(errors="replace"))
    return plain.decode(errors="replace")
