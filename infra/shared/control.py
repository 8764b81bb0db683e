"""A probe of a runner: the watcher's question and the runner's answer, one line of JSON each, on a socket named by the
boot's id, so that no other or older process can answer for it."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from infra.shared.text import cut

TYPE_CHECKING = False  # typing's own would be imported for nothing
if TYPE_CHECKING:
    from infra.shared.boot import Limits

MAX_BYTES = 64 * 1024
"""Of an answer."""
DOOR_SECONDS = 4.0
"""For the operation through each door; both fit into the time limit of a probe."""
REFS = "refs/minifram/probe"
"""In the bare repository: a ref with an unguessable name, which the git door returns."""
KNOWN_GOOD = "refs/minifram/good"
"""In the bare repository: below it the versions of main that served well."""
REJECTED = "refs/minifram/rejected"
"""Below it the branches that the PM rejected (`minifram reject`)."""
RETRY_REF = "refs/minifram/retry"
"""With it the PM, who alone can push it, lets pinned versions be tried again (`minifram retry`)."""

SLACK_SECONDS = 60.0
"""Added to every promised heartbeat: a busy machine is slow."""
TENDING_SECONDS = 900.0
"""For some git calls in a row (a look at the page, a report), each of which has a limit of its own."""


class ProbeQuestion(NamedTuple):
    probe: str
    """Must come back in the answer, so that an older answer does not count."""
    doors: bool
    """Do one real operation through each door first."""


class Heartbeat(NamedTuple):
    doing: str
    age: float
    """Seconds since the heartbeat."""
    within: float
    """Within how many seconds the next heartbeat was promised."""


class ProbeAnswer(NamedTuple):
    probe: str
    boot_id: str
    branch: str
    commit: str
    pid: int
    heart: Heartbeat
    git: str = ""
    """Names that stand below `REFS`, parted by blanks: read through the git door."""
    model: str = ""
    """What the model door gave out."""
    trouble: str = ""
    """Why one of them gave no answer."""


def longest_promise(limits: Limits) -> float:
    """The longest time that a main loop may promise; a longer promise is invalid."""
    waits = (limits.work_seconds, limits.run_seconds, limits.bash_seconds, limits.validation_seconds)
    return max(*waits, TENDING_SECONDS) + SLACK_SECONDS


def question_line(question: ProbeQuestion) -> bytes:
    return json.dumps(question._asdict()).encode() + b"\n"


def answer_line(answer: ProbeAnswer) -> bytes:
    return json.dumps(answer._asdict() | {"heart": answer.heart._asdict()}).encode() + b"\n"


def read_question(line: bytes) -> ProbeQuestion:
    """Raises ValueError."""
    given = _object(line)
    return ProbeQuestion(_text(given, "probe"), given.get("doors") is True)


def read_answer(line: bytes) -> ProbeAnswer:
    """Raises ValueError that says what of it is missing or odd. Keys that are not known are passed over."""
    given = _object(line)
    pid, heart = given.get("pid"), given.get("heart")
    if not isinstance(pid, int) or isinstance(pid, bool):
        raise ValueError(f"pid is {brief(pid)}; expected a number")
    if not isinstance(heart, dict):
        raise ValueError(f"heart is {brief(heart)}; expected an object")
    return ProbeAnswer(
        probe=_text(given, "probe"),
        boot_id=_text(given, "boot_id"),
        branch=_text(given, "branch"),
        commit=_text(given, "commit"),
        pid=pid,
        heart=Heartbeat(_text(heart, "doing"), _seconds(heart, "age"), _seconds(heart, "within")),
        git=_text(given, "git"),
        model=_text(given, "model"),
        trouble=_text(given, "trouble") if "trouble" in given else "",
    )


def brief(value: object) -> str:
    """An untrusted value for a message: short and on one line."""
    return cut(ascii(value), 80)


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_BYTES:
        raise ValueError(f"it has over {MAX_BYTES} bytes")
    try:
        given = json.loads(line.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error}): {brief(line)}") from None
    if not isinstance(given, dict):
        raise ValueError(f"it is {brief(given)}; expected an object")
    return given


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _text(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is {brief(value)}; expected a text")
    return value


def _seconds(given: dict[str, Any], key: str) -> float:
    value = given.get(key)
    # An integer can be too large to be a float at all.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 or not isfinite(value):
        raise ValueError(f"heart.{key} is {brief(value)}; expected seconds")
    return float(value)
