"""Does the agent take too much? Pure: from what was remembered and what is seen now, to findings.

Nothing is ended for what was seen once. Two looks belong together only when they are of the same boot, the machine did
not sleep between them, and neither the time between them nor a look itself took much longer than it should; after
anything else every count begins anew. So a suspended machine, a stopped watcher or a disk that stalls ends nobody."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.limits import disk, logs
from infra.keep.limits.findings import Finding, Remedy, Rule
from infra.keep.limits.observed import Progress, Sample
from infra.keep.limits.spent import used
from infra.shared.settings import LimitSettings

GAP_SAMPLES = 4.0
"""So many times the usual time between two looks, and more, is a gap."""
SLEPT_SECONDS = 1.0
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


class Memory(NamedTuple):
    """What the judge knows of this boot. `Memory()` is the beginning."""

    last: Sample | None = None
    cpu: Window = Window()
    tokens: Window = Window()
    steps: Window = Window()
    logs: logs.Seen = logs.Seen()
    disk: disk.Seen = disk.Seen()

    @property
    def weigh(self) -> bool:
        """The next look is to weigh the agent's directory: room gets short."""
        return self.last is not None and disk.is_near(self.last, self.disk)


def next_due(memory: Memory, limits: LimitSettings) -> float:
    """Monotonic: when the next look counts. One before that is passed over."""
    return memory.last.monotonic + limits.sample_seconds if memory.last else 0.0


def judge(memory: Memory, sample: Sample, limits: LimitSettings) -> tuple[Memory, list[Finding]]:
    """The next memory, and what is to be done."""
    last = memory.last
    if last and 0 <= sample.monotonic - last.monotonic < limits.sample_seconds and same_boot(last, sample):
        return memory, []
    if last is None or not belong_together(last, sample, limits):
        memory, last = Memory(), None
    cpu, cpu_finding = _cpu(memory.cpu, last, sample, limits)
    tokens, tokens_finding = _hourly(memory.tokens, last, sample, Rule.TOKENS, limits)
    steps, steps_finding = _hourly(memory.steps, last, sample, Rule.STEPS, limits)
    seen_logs, log_findings = logs.judge(memory.logs, last, sample, limits)
    seen_disk, disk_findings = disk.judge(memory.disk, last, sample, limits)
    windowed = [finding for finding in (cpu_finding, tokens_finding, steps_finding) if finding]
    return Memory(sample, cpu, tokens, steps, seen_logs, seen_disk), [*windowed, *log_findings, *disk_findings]


def same_boot(last: Sample, sample: Sample) -> bool:
    return last.runner == sample.runner


def belong_together(last: Sample, sample: Sample, limits: LimitSettings) -> bool:
    """What happened between these two looks can be told from them."""
    awake, passed = sample.monotonic - last.monotonic, sample.boottime - last.boottime
    return (
        same_boot(last, sample)
        and 0 < awake <= GAP_SAMPLES * limits.sample_seconds
        and abs(passed - awake) <= SLEPT_SECONDS
        and max(last.took, sample.took) <= limits.sample_seconds
    )


def cpu_window(limits: LimitSettings) -> float:
    """A command or the tests of a branch may take all processors for as long as they may run, and no call is made."""
    return max(limits.cpu_seconds, limits.bash_seconds, limits.validation_seconds)


def _cpu(window: Window, last: Sample | None, sample: Sample, limits: LimitSettings) -> tuple[Window, Finding | None]:
    # What cannot be seen may be progress.
    if last is None or last.progress is None or sample.progress is None or sample.runner is None:
        return Window(sample.progress or Progress()), None
    awake = window.awake + sample.monotonic - last.monotonic
    seconds = window.used + used(last, sample)
    if awake < cpu_window(limits):
        return window._replace(awake=awake, used=seconds), None
    cores = min(limits.cpu_cores or sample.cores, sample.cores)
    most = limits.cpu_fraction * cores * awake
    is_over = seconds >= most
    start = window.start
    is_stuck = is_over and (sample.progress.calls, sample.progress.moves) == (start.calls, start.moves)
    following = Window(
        start=sample.progress,
        stuck=window.stuck + 1 if is_stuck else 0,
        over=window.over + 1 if is_over else 0,
        seconds=window.seconds + awake if is_over else 0.0,
    )
    taken = (
        f"The agent took {seconds / awake:.2f} of {cores:g} processors, for {following.seconds:.0f} s by now"
        f" (limits.cpu_fraction is {limits.cpu_fraction:g})"
    )
    finding = Finding(Rule.CPU, Remedy.TELL, seconds, most, following.seconds, following.stuck, "", sample.runner)
    if following.stuck == 1:
        text = f"{taken}, with no model call and no push. It is ended if it goes on so for as long again."
        return following, finding._replace(text=text)
    if following.stuck > 1:
        text = f"{taken}, with no model call and no push. Most of it: {_busiest(last, sample)}."
        return following, finding._replace(remedy=Remedy.END, text=text)
    if following.over == BUSY_WINDOWS:
        text = f"{taken}. It makes progress and goes on; most of it: {_busiest(last, sample)}."
        return following, finding._replace(observations=following.over, text=text)
    return following, None


def _busiest(last: Sample, sample: Sample) -> str:
    before = {(process.pid, process.started): process.own for process in last.processes}
    recent = [
        (process.own - before.get((process.pid, process.started), 0.0), process.pid, process.name)
        for process in sample.processes
    ]
    first = sorted(recent, reverse=True)[:3]
    named = ", ".join(f"{name} (pid {pid})" for _, pid, name in first)
    return f"{named}, of {len(recent)} processes" if named else "processes that have ended"


def _hourly(
    window: Window, last: Sample | None, sample: Sample, rule: Rule, limits: LimitSettings
) -> tuple[Window, Finding | None]:
    """Tokens or steps within an hour, as long as nothing is pushed."""
    if last is None or last.progress is None or sample.progress is None or sample.runner is None:
        return Window(sample.progress or Progress()), None
    if sample.progress.moves != window.start.moves:
        return Window(sample.progress), None
    awake = window.awake + sample.monotonic - last.monotonic
    if rule is Rule.TOKENS:
        spent, most = sample.progress.tokens - window.start.tokens, limits.tokens_per_hour
        what = f"spent {spent} tokens in {awake:.0f} s, not counting cached ones,"
    else:
        spent, most = sample.progress.calls - window.start.calls, limits.steps_per_hour
        what = f"made {spent} steps in {awake:.0f} s"
    if spent <= most:
        return (window._replace(awake=awake) if awake < HOUR else Window(sample.progress)), None
    # A window ends as soon as it is over the limit: who is fast is found out fast.
    following = Window(sample.progress, stuck=window.stuck + 1, seconds=window.seconds + awake)
    text = f"The agent {what} and pushed nothing (limits.{rule.value}_per_hour is {most})."
    remedy = Remedy.END if following.stuck > 1 else Remedy.TELL
    if remedy is Remedy.TELL:
        text += " It is ended if it does so again."
    measured = (float(spent), float(most), following.seconds, following.stuck)
    return following, Finding(rule, remedy, *measured, text, sample.runner)
