"""The rule on processor time while the agent says that it sleeps. Pure.

Sleep explains nothing but the services that the agent declared, within what they may take together. What the agent says
of itself can only make its limits narrower: one that claims to work is held to the rule of `windows`."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.limits.values import Finding, Process, Remedy, Rule, Sample
from infra.keep.limits.windows import spent, used
from infra.shared.status_file import SERVICES_SHARE

SHARE = 0.2
"""Of one processor: what looking at main and answering probes may take."""
KILL_AT, END_AT = 2, 4
"""Looks in a row."""
NAMED = 5


class IdleHistory(NamedTuple):
    over: int = 0
    """Looks in a row that found more than is explained."""
    seconds: float = 0.0


def judge(history: IdleHistory, last: Sample | None, sample: Sample) -> tuple[IdleHistory, list[Finding]]:
    """What takes the time is ended first, and the runner when that did not help."""
    if last is None or sample.runner is None or not _is_sleep(last, sample):
        return IdleHistory(), []
    awake = sample.monotonic - last.monotonic
    explained = (SHARE + (SERVICES_SHARE * sample.cores if sample.has_services else 0.0)) * awake
    seconds = used(last, sample)
    if seconds <= explained:
        return IdleHistory(), []
    history = IdleHistory(history.over + 1, history.seconds + awake)
    if history.over < KILL_AT:
        return history, []
    busy = _beyond(last, sample, explained)
    named = ", ".join(f"{process.name} (pid {process.pid})" for process in busy[:NAMED]) or "none that can be seen"
    text = (
        f"The agent said that it slept, and used {seconds / awake:.2f} of {sample.cores:g} processors, for"
        f" {history.seconds:.0f} s so far ({explained / awake:.2f} are explained)."
    )
    if history.over >= END_AT:
        remedy, text = Remedy.END, f"{text} Most of it: {named}, of {len(busy)} processes."
    elif busy:
        remedy = Remedy.KILL
        text += f" Ended: {named}, of {len(busy)} processes. What is to run on is declared in services.yaml."
    else:
        remedy, text = Remedy.TELL, f"{text} The runner will be ended if this continues."
    measured = (seconds, explained, history.seconds, history.over)
    return history, [Finding(Rule.IDLE, remedy, *measured, text, sample.runner, processes=tuple(busy))]


def _is_sleep(last: Sample, sample: Sample) -> bool:
    """From one look to the other: a run in between has called a model."""
    slept = last.is_asleep and sample.is_asleep and not sample.is_excused
    known = last.progress is not None and sample.progress is not None
    return slept and known and last.progress.calls == sample.progress.calls  # type: ignore[union-attr]


def _beyond(last: Sample, sample: Sample, explained: float) -> list[Process]:
    """Those that took the most, until the rest is explained; never the runner."""
    pid = sample.runner.pid if sample.runner else 0
    taken = [(seconds, process) for process, seconds in spent(last, sample) if process.pid != pid and seconds > 0]
    taken.sort(key=lambda each: each[0], reverse=True)
    left, found = sum(seconds for seconds, _ in taken), []
    for seconds, process in taken:
        if left <= explained:
            break
        found.append(process)
        left -= seconds
    return found
