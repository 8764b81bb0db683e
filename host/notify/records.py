"""Facts from what the keep's records hold; pure. Which record says what: SPEC_NOTIFY."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from host.display import one_line
from host.notify.events import Fact
from host.notify.spending import Spending
from host.repository.approvals import Asking
from infra.keep.ledger.budget import Budget
from infra.keep.ledger.ledger import Opened, opening_cost
from infra.shared import approvals, comms, watcher_file
from infra.shared.clock import timestamp
from infra.shared.run_states import StopReason, stop_reason_of
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.watcher_file import GOOD_LEVEL, SAFE_LEVEL, WatcherFile

LINE_CHARS, DETAIL_CHARS = 300, 4000
GONE_SECONDS = 10.0
"""A watcher that comes back sooner was started again by somebody."""
SWITCHING_SECONDS = 1800.0
"""Longer than any switch from one container to the next takes."""
FAILED_STARTS = 3
LAST_PART = 0.9
_STOPPED = re.compile(r"### \S+ \S+@[0-9a-f]{7,64} stopped \((?P<why>[^)]{1,100})\): (?P<subject>.*)")
_TOLD_OTHERWISE = StopReason.AWAITING_APPROVAL
"""The question itself is told of."""
_SEAL_EVENTS = {
    "seal.broken": "the seal is broken, the agent is stopped",
    "seal.unproved": "the seal could not be verified, the runner was stopped",
}

Known = tuple[bytes, ...]


def line(text: str, known: Known) -> str:
    """One line for people, without secrets."""
    return one_line(redacted(text, known), LINE_CHARS)


def details(text: str, known: Known) -> str:
    return redacted_and_cut(text, DETAIL_CHARS, known)


def of_watcher(state: WatcherFile, runs: bool, switching: bool, known: Known) -> Iterator[Fact]:
    """`runs`: a watcher holds the lock. While an upgrade switches containers, none need hold it; one that was cut short
    leaves everything as if it were still under way."""
    for pin in state.pins:
        text = line(f"{pin.branch}@{pin.commit[:12]} is blocked (pinned)", known)
        yield Fact("pinned", f"watcher/pin/{pin.version}/{pin.at}", pin.at, text, details(pin.why, known))
    if state.level in (GOOD_LEVEL, SAFE_LEVEL) and state.branch:
        yield Fact("pinned", f"watcher/level/{state.level}", state.since, f"{state.level} runs in place of main")
    if switching and not runs:
        text = "an upgrade was begun, and nothing runs since; 'minifram upgrade' ends one that was cut short"
        yield Fact("stopped", f"watcher/switching/{state.since}", state.since, text, after_seconds=SWITCHING_SECONDS)
    if state.phase == watcher_file.STOPPED:
        return
    if not runs and not switching:
        text = f"the watcher died in phase {line(state.phase, known)!r}; 'minifram up' starts it again"
        yield Fact("stopped", f"watcher/dead/{state.since}", state.since, text, after_seconds=GONE_SECONDS)
    elif state.failures >= FAILED_STARTS and state.phase != watcher_file.RUNNING:
        text = f"the agent failed to start {FAILED_STARTS} times in a row or more"
        why = details(state.boots[-1].detail, known) if state.boots else ""
        yield Fact("stopped", "watcher/failing", state.since, text, why)


def of_questions(asked: Sequence[Asking], page: str, known: Known) -> Iterator[Fact]:
    """What is called is told as the keep shows it to the PM."""
    shown = {report.partition("\n")[0]: report for report in comms.reports(page)} if asked else {}
    for each in asked:
        wanted = f" approval wanted [{each.id}]: "
        report = next((text for heading, text in shown.items() if wanted in heading), "")
        text = line(f"a call of {each.tool} waits for your answer: 'minifram approve {each.id}'", known)
        yield Fact("approval", f"questions/{each.id}", each.at, text, details(report, known))


def of_ledger(spending: Spending, day: str) -> Iterator[Fact]:
    """The day, and the unit of work of the last call, as the model door counts them."""
    last, at = spending.last, spending.at
    if last is None:
        return
    if word := _used(spending.today, last):
        yield Fact("budget", f"ledger/day/{day}/{word}", at, f"the budget of the day ({day}) is {word}")
    if word := _used(spending.of_work, last):
        yield Fact("budget", f"ledger/unit/{last.unit}/{word}", at, f"the budget of this unit of work is {word}")


def _used(budget: Budget, last: Opened) -> str:
    """How near its end it is: the door refuses a call whose worst case does not fit, and the next may be as large as
    the last one."""
    others = [worst for id, worst in budget.open.items() if id != last.id]
    taken = budget.spent
    for worst in others:
        taken = taken.plus(worst)
    if budget.calls and not taken.plus(opening_cost(last)).within(budget.limit):
        return "used up: a call like the last one is refused"
    return "in its last tenth" if budget.share >= LAST_PART else ""


def of_refusal(why: str, told_at: float, known: Known) -> Iterator[Fact]:
    key = hashlib.sha256(why.encode(errors="replace")).hexdigest()[:16]
    text = "the container could not be sealed, the agent was not started"
    yield Fact("seal", f"refusal/{key}", timestamp(told_at), text, details(why, known))


def of_watcher_log(tail: bytes, known: Known) -> Iterator[Fact]:
    for raw in tail.split(b"\n"):
        if b'"seal.' not in raw:
            continue
        entry = _object(raw)
        event, at = entry.get("event"), entry.get("timestamp")
        if isinstance(event, str) and event in _SEAL_EVENTS and isinstance(at, str):
            why = details(str(entry.get("reason", "")), known)
            yield Fact("seal", f"log/{at}", at, _SEAL_EVENTS[event], why, is_logged=True)


def of_page(commit: str, at: str, before: str, after: str, known: Known) -> Iterator[Fact]:
    """What one commit of the keep's did to COMMS.md. Raises CommsError."""
    was_open = {item.id for item in comms.open_directives(before)}
    old = {*comms.reports(before)}
    new = [report for report in comms.reports(after) if report not in old]
    words = details("\n\n".join(new), known)
    for item in {item.id: item for item in comms.directives(after) if item.done and item.id in was_open}.values():
        if not approvals.answers_in(item):
            yield Fact("done", f"page/{commit}/{item.id}", at, line(f"done: {item.text}", known), words, is_past=True)
    for report in new:
        match = _STOPPED.match(report)
        if match and stop_reason_of(match["why"]) is not _TOLD_OTHERWISE:
            text = line(f"a run stopped ({match['why']}): {match['subject']}", known)
            yield Fact("stopped", f"page/{commit}/stopped", at, text, details(report, known), is_past=True)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
