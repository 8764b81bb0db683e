"""What the agent did: one fold over the keep's log of events, made once per process and continued as it grows.

Beside acts and notes, an event may hold an entry: what code decided of memory, skills and duties (`LogEntry`), which
`record.tell` writes as `metadata.details`. A run tells with its first event what was `shown` to it (ids like
`memory/beliefs.md#B-000001`), and with its last one (which has `steps`) the tasks and directives that it `completed`,
and what of the mind was `loaded` (tokens by id) and `cited` (ids). A recall tells what it has `shown`, and
`statements`: keys of these."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from infra.cell.run_states import StopReason
from infra.shared.mind.event import Count, EventLine, Execution, MindEvent, event_files, logged_on
from infra.shared.safe_files import Below

FAILED: Final = frozenset(
    reason.value
    for reason in (
        *(StopReason.MAX_STEPS, StopReason.MAX_WALL_TIME, StopReason.MAX_FAILURES, StopReason.NO_OP_LOOP),
        *(StopReason.POLICY_DENIED, StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.INVALID_REPLIES),
    )
) | {"failed"}
"""Ends of a run that say something of its work; what any other end but `completed` says has nothing to do with it."""
What = Literal["item", "belief", "validated", "contested", "superseded", "compatible", "conditions"]


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="entry", tag=str.lower):
    """Tagged with its name in small letters."""


class Promoted(_Entry, frozen=True):
    """Learning changed memory: it made an item or a belief, validated, contested or settled one."""

    what: What
    key: str
    """Of the statement; two with a `+` between them for a pair."""
    id: str = ""
    seq: Count = 0
    """Of the last note that was considered: what the PM took out does not come back by older ones."""


class Trial(_Entry, frozen=True):
    """A skill was tried: by its self-test, by the regression (other skills' self-tests), or by a review."""

    kind: Literal["self_test", "regression", "review"]
    skill: str
    """`candidates/csv-sum@0.1.0`."""
    hash: str
    """Of the folder that was tried."""
    passed: bool
    words: str = ""


class Moved(_Entry, frozen=True):
    """A skill came into another state."""

    skill: str
    to: str
    why: str = ""


class Drafted(_Entry, frozen=True):
    """A candidate was written or changed, by code or by a run."""

    skill: str
    """The name alone: what a page had a hand in stays so in later versions."""
    hash: str
    origins: tuple[str, ...] = ()


class DutyStep(_Entry, frozen=True):
    """A standing duty was done, or failed, for one period."""

    name: str
    period: str
    """`2026-01-31` or `2026-W05`."""
    state: Literal["done", "failed"]
    words: str = ""


LogEntry = Promoted | Trial | Moved | Drafted | DutyStep
E = TypeVar("E", bound=LogEntry)


class EntryTold(NamedTuple, Generic[E]):
    """An entry, and the event that tells it."""

    fact: E
    place: str
    """`logs/events/2026-01-31.jsonl:17`."""
    at: str
    seq: int


@dataclass
class Run:
    name: str
    began: str
    end: str = ""
    """How it ended; empty while it goes on."""
    ended: str = ""
    origins: tuple[str, ...] = ()
    """Sites whose text it was served."""
    shown: set[str] = field(default_factory=set)
    """Ids of sections, and keys of statements."""
    loaded: dict[str, int] = field(default_factory=dict)
    cited: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    commands: list[Execution] = field(default_factory=list)
    skills: set[str] = field(default_factory=set)
    """That it used."""

    @property
    def succeeded(self) -> bool | None:
        """None while it goes on, or when its end has nothing to do with its work."""
        return True if self.end == StopReason.COMPLETED.value else False if self.end in FAILED else None


class SkillUse(NamedTuple):
    """The first act of a run that a skill led to. Exploration is no use."""

    run: Run
    place: str
    at: str
    seq: int


class NoteTold(NamedTuple):
    """A call of the tool `note`."""

    event: MindEvent
    place: str
    tainted: bool
    """Its run had read the web by then."""
    shown: frozenset[str]
    """What its run had been shown by then."""


class _OfRun(msgspec.Struct, frozen=True):
    """What the details of a run's event may hold, from its beginning to its end."""

    shown: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    steps: Count | None = None
    """Only its last event has them."""
    completed: tuple[str, ...] = ()
    loaded: dict[str, int] = {}
    cited: tuple[str, ...] = ()


class History:
    """Of one agent: all that its log holds, in memory."""

    def __init__(self, since: str = "") -> None:
        """From the day `since` on, if given."""
        self.runs = dict[str, Run]()
        """By name, the oldest first."""
        self.notes = list[NoteTold]()
        self.uses = defaultdict[str, list[SkillUse]](list)
        """By `learned/NAME@1.0.0`."""
        self.acts = self.context_tokens = 0
        """Calls, and the lengths of the conversation at each, added up."""
        self.last_seq, self.first_day = 0, ""
        self._entries = defaultdict[type, list[EntryTold[Any]]](list)
        self._day, self._line = since, 0

    def read(self, events: Below) -> None:
        """What was added since. Raises OSError."""
        for day in event_files(events, self._day):
            self._day, self._line = day, self._line if day == self._day else 0
            self.first_day = self.first_day or day
            for line in logged_on(events, day, self._line):
                self._line = line.line
                self.add(line)

    def add(self, line: EventLine) -> None:
        event, details = line.event, line.event.metadata.details
        self.last_seq = event.seq
        if event.event_type != "task_update" and event.metadata.context_tokens:
            self.acts, self.context_tokens = self.acts + 1, self.context_tokens + event.metadata.context_tokens
        if entry := converted(details, LogEntry) if "entry" in details else None:
            self._entries[type(entry)].append(EntryTold(entry, line.place, event.timestamp, event.seq))
        if event.run_id:
            self._add_act(line.place, event)

    def entries(self, kind: type[E]) -> list[EntryTold[E]]:
        """The oldest first."""
        return self._entries[kind]

    def origins_of(self, skill: str) -> tuple[str, ...]:
        """The sites that work had read which wrote this skill, in any of its versions."""
        found = [told.fact for told in self.entries(Drafted) if told.fact.skill == skill]
        return tuple(dict.fromkeys(site for each in found for site in each.origins))

    def _add_act(self, place: str, event: MindEvent) -> None:
        run = self.runs.setdefault(event.run_id, Run(event.run_id, event.timestamp))
        told = converted(event.metadata.details, _OfRun) or _OfRun()
        run.origins = event.metadata.origins or run.origins
        run.shown.update(told.shown, told.statements)
        if event.event_type == "task_update":  # it began or goes on, or it is over
            is_over = told.steps is not None
            run.end, run.ended = (event.metadata.status, event.timestamp) if is_over else ("", "")
            run.loaded, run.cited, run.completed = told.loaded, told.cited, told.completed
        elif event.metadata.tool == "note" and event.event_type == "note":
            self.notes.append(NoteTold(event, place, bool(run.origins), frozenset(run.shown)))
        if event.execution.commands:
            run.commands.append(event.execution)
        skill = event.context.triggering_skill or ""
        if "@" in skill and skill not in run.skills and not event.metadata.label.startswith("exploration"):
            run.skills.add(skill)
            self.uses[skill].append(SkillUse(run, place, event.timestamp, event.seq))


@functools.cache
def _of(root: str) -> History:
    return History()


def history_of(events: str) -> History:
    """Of the log in this directory, up to now. Raises OSError."""
    history = _of(events)
    history.read(Below(events))
    return history


def converted(raw: object, kind: Any) -> Any:
    """None for what is not of this type: an event that says too much stops nothing."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        return None
