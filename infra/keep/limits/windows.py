"""The rules on processor time, tokens and steps: over a window of awake time, with or without progress. Pure.

A window that is over its limit without progress is reported; the runner is ended when the next one is so too."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.limits.values import TICKS, Bounds, Finding, Process, Progress, Remedy, Rule, Sample

HOUR = 3600.0
BUSY_WINDOWS = 8
"""After so many windows in a row with all processors taken, the PM is told though there is progress."""


class Window(NamedTuple):
    """A stretch of awake time that is judged as a whole, and how many like it came before."""

    start: Progress = Progress()
    awake: float = 0.0
    used: float = 0.0
    stuck: int = 0
    """Whole windows in a row that were over the limit with no progress."""
    over: int = 0
    """With or without."""
    seconds: float = 0.0
    """How long those windows lasted together."""


Judged = tuple[Window, Finding | None]


def cpu_seconds(limits: Bounds) -> float:
    """The window of the processor rule. A command or the tests of a branch may take all processors for as long as they
    may run, without a model call."""
    return max(limits.cpu_seconds, limits.bash_seconds, limits.validation_seconds)


def judge_cpu(window: Window, last: Sample, sample: Sample, now: Progress, limits: Bounds) -> Judged:
    awake = window.awake + sample.monotonic - last.monotonic
    seconds = window.used + used(last, sample)
    if awake < cpu_seconds(limits):
        return window._replace(awake=awake, used=seconds), None
    cores = sample.cores
    most = limits.cpu_fraction * cores * awake
    is_over = seconds >= most
    is_stuck = is_over and (now.calls, now.moves) == (window.start.calls, window.start.moves)
    following = Window(
        start=now,
        stuck=window.stuck + 1 if is_stuck else 0,
        over=window.over + 1 if is_over else 0,
        seconds=window.seconds + awake if is_over else 0.0,
    )
    observations, remedy = following.stuck, Remedy.TELL
    if following.stuck == 1:
        ending = ", with no model call and no push. It will be ended if this continues for as long again."
    elif following.stuck > 1:
        remedy = Remedy.END
        ending = f", with no model call and no push. Most of it: {_busiest(last, sample)}."
    elif following.over == BUSY_WINDOWS:
        observations = following.over
        ending = f". It makes progress and continues; most of it: {_busiest(last, sample)}."
    else:
        return following, None
    text = f"The agent used {seconds / awake:.2f} of {cores:g} processors, for {following.seconds:.0f} s so far{ending}"
    return following, Finding(Rule.CPU, remedy, seconds, most, following.seconds, observations, text, sample.runner)


def judge_spending(rule: Rule, window: Window, last: Sample, sample: Sample, now: Progress, limits: Bounds) -> Judged:
    """Tokens or steps within an hour, as long as nothing is pushed."""
    if now.moves != window.start.moves:
        return Window(now), None
    awake = window.awake + sample.monotonic - last.monotonic
    if rule is Rule.TOKENS:
        spent, most = now.tokens - window.start.tokens, limits.tokens_per_hour
        what = f"spent {spent} tokens in {awake:.0f} s, not counting cached ones,"
    else:
        spent, most = now.calls - window.start.calls, limits.steps_per_hour
        what = f"made {spent} steps in {awake:.0f} s"
    if spent <= most:
        return (window._replace(awake=awake) if awake < HOUR else Window(now)), None
    # A window ends as soon as it is over the limit: fast spending is found out fast.
    following = Window(now, stuck=window.stuck + 1, seconds=window.seconds + awake)
    is_repeated = following.stuck > 1
    text = f"The agent {what} and pushed nothing; at most {most} {rule.value} an hour are expected."
    text += "" if is_repeated else " It will be ended if it does so again."
    remedy = Remedy.END if is_repeated else Remedy.TELL
    return following, Finding(
        rule, remedy, float(spent), float(most), following.seconds, following.stuck, text, sample.runner
    )


def used(before: Sample, after: Sample) -> float:
    """Processor seconds of the cell between two looks; never more than the processors there are could have given.

    Time does not get lost when a process ends: the kernel gives it to the parent that waits for it, and an orphan's to
    the watcher. So what children used counts as far as it is more than what those that are gone had used when they were
    last seen. Not seen is only a process that nobody waited for (its parent ignores SIGCHLD) and that lived and ended
    between two looks; where the kernel counts for the container as a whole, that is used instead and misses nothing."""
    if before.group_seconds is not None and after.group_seconds is not None:
        seconds = after.group_seconds - before.group_seconds
    else:
        seconds = _by_processes(before, after)
    most = after.cores * (after.monotonic - before.monotonic)
    return min(max(0.0, seconds), max(0.0, most))


def _by_processes(before: Sample, after: Sample) -> float:
    known = {(process.pid, process.started): process for process in before.processes}
    own, gained = 0.0, after.reaped - before.reaped
    for process in after.processes:
        earlier = known.pop((process.pid, process.started), None)
        if earlier:
            own += max(0.0, process.own - earlier.own)
            gained += max(0.0, process.children - earlier.children)
        elif process.started >= before.boottime * TICKS - 1:  # when an older one used its time is not known
            own += process.own
            gained += process.children
    gone = sum(process.own + process.children for process in known.values())
    return own + max(0.0, gained - gone)


def spent(last: Sample, sample: Sample) -> list[tuple[Process, float]]:
    """Each process that is there now, with what it used itself since the look before."""
    before = {(process.pid, process.started): process.own for process in last.processes}
    return [(process, process.own - before.get((process.pid, process.started), 0.0)) for process in sample.processes]


def _busiest(last: Sample, sample: Sample) -> str:
    recent = [(seconds, process.pid, process.name) for process, seconds in spent(last, sample)]
    named = ", ".join(f"{name} (pid {pid})" for _, pid, name in sorted(recent, reverse=True)[:3])
    return f"{named}, of {len(recent)} processes" if named else "processes that have ended"
