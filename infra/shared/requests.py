"""Requests of a runner to the git door besides git: one line of JSON each way, one connection each.

The cell writes the requests, so every field is checked here and none is trusted; the keep decides about them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeGuard

from infra.shared.branches import problem_with_branch
from infra.shared.report_titles import version
from infra.shared.text import cut

MAX_BYTES = 256 << 10
"""Of one line, in either direction."""
MAX_TICKS = 1000
MAX_ORIGINS, MAX_ORIGIN_CHARS = 50, 300
MAX_DRIFT, MAX_DRIFT_CHARS = 30, 300
MAX_SEQ = 2**53 - 1
MAX_HEADS = 1500
"""In one reply."""
TITLE_CHARS, TEXT_CHARS = 500, 16_000
"""Of a report: whatever they hold, they fit into one line of JSON."""


class RequestError(ValueError):
    """A line that is not a request, or no reply; says which field is wrong and what was expected."""


class AgentReport(NamedTuple):
    """A report for the page, and the directives that are done with it."""

    id: str
    """32 hex digits. The same id is the same report, however often it is handed over."""
    at: str
    """When the runner wrote it, as `clock.timestamp` gives it."""
    branch: str
    commit: str
    title: str
    """Without the leading `branch@commit`, which the keep writes itself."""
    text: str
    ticks: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Of the inbox, that are done with it."""

    @property
    def whole_title(self) -> str:
        return f"{version(self.branch, self.commit)} {self.title}"


class Ask(NamedTuple):
    """May this call of a tool be made? Asked again, it gives the state of the same question."""

    tool: str
    input: Mapping[str, Any]
    why: str
    branch: str
    commit: str


class Examine(NamedTuple):
    """Examine this commit of a branch; asked again, it tells how far that is."""

    branch: str
    commit: str


class AskTaint(NamedTuple):
    """Is the agent tainted by the web, and what was it served lately?"""

    since: int = 0
    """When the run began that asks; seconds since the epoch."""


class NoteHead(NamedTuple):
    """The chain of the mind's events ends at this event after a run. It never goes back, and never changes."""

    run: str
    seq: int
    """Of the last event; 1 is the first of all."""
    hash: str
    """Of the last event, 64 hex digits."""
    since: int
    """The first event of those up to this one that the runner wrote itself."""


class AskHeads(NamedTuple):
    """Which heads does the keep hold?"""

    below: int = 0
    """Only those of events before this one; 0 for the newest."""


class AskMind(NamedTuple):
    """What has the keep seen of the mind's files that are the PM's alone?"""


Request = AgentReport | Ask | Examine | AskTaint | NoteHead | AskHeads | AskMind
_REQUESTS: dict[str, type[Request]] = {
    "report": AgentReport,
    "ask": Ask,
    "examine": Examine,
    "taint": AskTaint,
    "head": NoteHead,
    "heads": AskHeads,
    "mind": AskMind,
}


class Done(NamedTuple):
    """The report is on main, or the head is on record."""

    main: str
    """Where it is then; empty for what does not move it."""


class QuestionState(NamedTuple):
    """The state of a question."""

    id: str
    state: Literal["waiting", "approved", "denied"]
    why: str = ""


class Examination(NamedTuple):
    """The state of the examination; the fields of the verdict are the examiner's."""

    state: Literal["waiting", "examined"]
    verdict: Mapping[str, Any] = {}


class TaintedBy(NamedTuple):
    origins: tuple[str, ...] = ()
    """Whose text was served since then, the last one first."""
    is_tainted: bool = False
    """The agent has read the web since the PM last trusted it."""


class MindState(NamedTuple):
    """What the keep holds against the mind, a line each, in words for people."""

    drift: tuple[str, ...] = ()
    """Files that are the PM's alone and are not as the PM wrote them."""
    changes: tuple[str, ...] = ()
    """Of the PM's own changes to them, those that change much of the text."""


class HeldHead(NamedTuple):
    """The keep vouches for the events from `since` to `seq`."""

    since: int
    seq: int
    hash: str


class Heads(NamedTuple):
    """At most MAX_HEADS, in the order in which they were told: where there are so many, more may stand before them."""

    heads: tuple[HeldHead, ...] = ()


class Refused(NamedTuple):
    """Refused for good; sending it again unchanged is pointless."""

    why: str


class Later(NamedTuple):
    """Not possible now; the same request may succeed later."""

    why: str


Reply = Done | QuestionState | Examination | TaintedBy | MindState | Heads | Refused | Later


def encode_request(request: Request) -> bytes:
    """Raises RequestError when it is too long for one line."""
    do = next(word for word, kind in _REQUESTS.items() if isinstance(request, kind))
    return _line({"do": do, **request._asdict()})


def parse_request(line: bytes) -> Request:
    """Raises RequestError."""
    fields = _object(line)
    do = fields.get("do")
    if not isinstance(do, str) or do not in _REQUESTS:
        raise RequestError(f"the field 'do' is {_shown(do)}; expected one of {', '.join(_REQUESTS)}")
    kind = _REQUESTS[do]
    checked: list[Any] = [_checked(name, fields.get(name, kind._field_defaults.get(name))) for name in kind._fields]
    return kind(*checked)


def _checked(name: str, value: Any) -> Any:
    """The value of a request's field. Raises RequestError."""
    match name:
        case "branch":
            problem = problem_with_branch(value) if isinstance(value, str) else "the branch name is not text"
            if problem:
                raise RequestError(problem)
        case "input":
            if not isinstance(value, dict):
                raise RequestError(f"the field 'input' is {_shown(value)}; expected an object")
        case "seq" | "since" | "below":
            least = int(name == "seq")
            if not _is_number(value, least):
                words = f"expected a whole number from {least} to {MAX_SEQ}"
                raise RequestError(f"the field {name!r} is {_shown(value)}; {words}")
        case "ticks" | "tasks":
            found = list(value) if isinstance(value, list | tuple) else [None]
            of, words = (_TICK, "of 8 hex digits") if name == "ticks" else (_JOB, "like TASK-001")
            if len(found) > MAX_TICKS or not all(isinstance(each, str) and of.fullmatch(each) for each in found):
                raise RequestError(f"the field {name!r} is {_shown(value)}; expected at most {MAX_TICKS} ids {words}")
            return tuple(found)
        case _:
            text = _text({name: value}, name, _MOST_CHARS.get(name, MAX_BYTES))
            pattern = _PATTERNS.get(name)
            if pattern and not pattern.fullmatch(text):
                raise RequestError(f"the field {name!r} is {_shown(text)}; expected {pattern.pattern}")
    return value


def encode_reply(reply: Reply) -> bytes:
    """Raises RequestError when it is too long for one line."""
    match reply:
        case Done():
            return _line({"done": True, "main": reply.main})
        case Refused():
            return _line({"refused": reply.why})
        case Later():
            return _line({"later": reply.why})
        case TaintedBy():
            return _line({"tainted_by": reply.origins, "is_tainted": reply.is_tainted})
        case MindState():
            drift, changes = (
                [cut(each, MAX_DRIFT_CHARS) for each in lines[:MAX_DRIFT]] for lines in (reply.drift, reply.changes)
            )
            return _line({"drift": drift, "changes": changes})
        case _:
            return _line(reply._asdict())


def parse_reply(line: bytes) -> Reply:
    """Raises RequestError."""
    fields = _object(line)
    match fields:
        case {"done": True}:
            return Done(_text(fields, "main", 64))
        case {"refused": _}:
            return Refused(_text(fields, "refused"))
        case {"later": _}:
            return Later(_text(fields, "later"))
        case {"tainted_by": [*origins], "is_tainted": bool(is_tainted)}:
            return TaintedBy(tuple(cut(str(each), MAX_ORIGIN_CHARS) for each in origins[:MAX_ORIGINS]), is_tainted)
        case {"drift": [*drift], "changes": [*changes]}:
            kept = (tuple(cut(str(each), MAX_DRIFT_CHARS) for each in lines[:MAX_DRIFT]) for lines in (drift, changes))
            return MindState(*kept)
        case {"heads": [*heads]}:
            return Heads(tuple(map(_held_head, heads[:MAX_HEADS])))
        case {"id": _, "state": ("waiting" | "approved" | "denied") as state}:
            return QuestionState(_text(fields, "id", 64), state, _text(fields, "why"))
        case {"state": ("waiting" | "examined") as state}:
            verdict = fields.get("verdict")
            return Examination(state, verdict if _is_mapping(verdict) else {})
    raise RequestError(f"unknown reply: {_shown(fields)}")


_TICK = re.compile(r"[0-9a-f]{8}")
_JOB = re.compile(r"[A-Z]{1,12}-[0-9]{1,12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_PATTERNS = {
    "id": re.compile(r"[0-9a-f]{32}"),
    "at": _TIME,
    "commit": re.compile(r"[0-9a-f]{7,64}"),
    "run": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"),
    "hash": re.compile(r"[0-9a-f]{64}"),
}
_MOST_CHARS = {"id": 100, "at": 100, "commit": 100, "tool": 200, "title": TITLE_CHARS, "text": TEXT_CHARS}


def _line(fields: dict[str, Any]) -> bytes:
    line = json.dumps(fields).encode() + b"\n"
    if len(line) > MAX_BYTES:
        raise RequestError(f"it takes {len(line)} bytes; at most {MAX_BYTES} fit into one request or reply")
    return line


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the line is not JSON ({error}); expected one object on one line") from None
    if not _is_mapping(fields):
        raise RequestError(f"the line is {_shown(fields)}; expected a JSON object")
    return fields


def _held_head(value: object) -> HeldHead:
    match value:
        case [since, seq, str(hash)] if (
            _is_number(since, 0) and _is_number(seq, 1) and _PATTERNS["hash"].fullmatch(hash)
        ):
            return HeldHead(since, seq, hash)
    raise RequestError(f"a head is {_shown(value)}; expected since, seq and 64 hex digits")


def _is_number(value: object, least: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_SEQ


def _is_mapping(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _text(fields: Mapping[str, Any], name: str, most: int = MAX_BYTES) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise RequestError(f"the field {name!r} is {_shown(value)}; expected text of at most {most} characters")
    return value


def _shown(value: object) -> str:
    return cut(ascii(value), 100)
