"""Observations: what the notes of runs state, and whose word each is, from the events alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from infra.cell.mind.claims import Evidence, Observation, Origin
from infra.cell.mind.notes import NOTE, SHOWN, STATEMENTS, details_of, origin_of
from infra.cell.mind.statements import key_of
from infra.cell.protocol.shapes import OK
from infra.shared.mind.event import MindEvent
from infra.shared.mind.layout import DAILY

_DAILY = re.compile(rf"{DAILY}/(\d{{4}}-\d\d-\d\d)\.md")
VALIDATING = frozenset((Origin.CHECK, Origin.DIRECTIVE))


class Noted(NamedTuple):
    """An observation with its place among the others."""

    observation: Observation
    key: str
    """Of its statement (`statements.key_of`)."""
    seq: int
    task: str
    """Id of what its run was about, if any."""

    @property
    def origin(self) -> Origin:
        return self.observation.evidence.origin

    @property
    def source(self) -> str:
        """Two notes of one source are no independent evidence: those of one run, and what one directive says to each
        run that works on it."""
        run = self.observation.evidence.run
        return f"task {self.task}" if self.origin is Origin.DIRECTIVE and self.task else f"run {run}"

    @property
    def validates(self) -> bool:
        return self.origin in VALIDATING


class _Run:
    """What is known of a run by then."""

    def __init__(self) -> None:
        self.has_read_the_web = False
        self.shown = set[str]()
        """Keys of statements."""
        self.noted = set[tuple[str, Origin]]()


def observed(events: Iterable[tuple[str, MindEvent]], statements: Mapping[str, str] | None = None) -> tuple[Noted, ...]:
    """`events` with their places (`logs/events/2026-01-31.jsonl:17`), in the order in which they were written;
    `statements` are keys of what ids stand for, to know what a run was shown."""
    runs = dict[str, _Run]()
    found, of_day = list[Noted](), dict[str, set[str]]()
    for place, event in events:
        run = runs.setdefault(event.run_id, _Run())
        run.has_read_the_web |= bool(event.metadata.origins)
        _take_shown(run, event, statements or {}, of_day)
        if event.event_type != "note" or event.metadata.tool != NOTE or event.metadata.status not in ("", OK):
            continue
        details = details_of(event.metadata.details)
        if details is None or details.failed:
            continue
        key = key_of(details.subject, details.statement)
        origin = origin_of(details, run.has_read_the_web, key in run.shown)
        if (key, origin) in run.noted:
            continue
        run.noted.add((key, origin))
        of_day.setdefault(event.timestamp[:10], set()).add(key)
        evidence = Evidence(event.run_id, event.step_id, place, origin)
        made = Observation(details.subject, details.statement, event.timestamp, evidence)
        found.append(Noted(made, key, event.seq, event.context.task_id or ""))
    return tuple(found)


def _take_shown(
    run: _Run, event: MindEvent, statements: Mapping[str, str], of_day: Mapping[str, Collection[str]]
) -> None:
    """What was placed before it or recalled: ids, also as `memory/beliefs.md#B-000001`; daily summaries, which hold
    what was noted on the day; keys of statements."""
    for each in _texts(event, SHOWN):
        if key := statements.get(each.rpartition("#")[2]):
            run.shown.add(key)
        if day := _DAILY.match(each):
            run.shown.update(of_day.get(day[1], ()))
    run.shown.update(_texts(event, STATEMENTS))


def _texts(event: MindEvent, name: str) -> list[str]:
    found = event.metadata.details.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list | tuple) else []
