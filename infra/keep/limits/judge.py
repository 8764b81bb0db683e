"""Does the agent take too much? Pure: from what was remembered and what is seen now, to findings.

Nothing is ended for what was seen once. Two looks belong together only when they are of the same boot, the machine did
not sleep between them, and neither the time between them nor a look itself took much longer than it should; after
anything else every count begins again. So a suspended machine, a stopped watcher or a stalling disk ends nothing."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.limits import disk, idle, logs
from infra.keep.limits.values import Bounds, Finding, Progress, Rule, Sample
from infra.keep.limits.windows import Window, judge_cpu, judge_spending

GAP_SAMPLES = 4.0
"""So many times the usual time between two looks, and more, is a gap."""
SLEPT_SECONDS = 1.0


class Memory(NamedTuple):
    """What the judge knows of this boot. `Memory()` is the beginning."""

    last: Sample | None = None
    cpu: Window = Window()
    tokens: Window = Window()
    steps: Window = Window()
    idle: idle.IdleHistory = idle.IdleHistory()
    logs: logs.LogHistory = logs.LogHistory()
    disk: disk.DiskHistory = disk.DiskHistory()

    @property
    def weigh(self) -> bool:
        """The next look has to weigh the agent's directory: room gets short."""
        return self.last is not None and self.last.runner is not None and self.disk.near


def next_due(memory: Memory, limits: Bounds) -> float:
    """Monotonic: when the next look counts. One before that is passed over."""
    return memory.last.monotonic + limits.sample_seconds if memory.last else 0.0


def judge(memory: Memory, sample: Sample, limits: Bounds) -> tuple[Memory, list[Finding]]:
    """The next memory, and what has to be done."""
    last = memory.last
    is_same_boot = last is not None and last.runner == sample.runner
    if last and is_same_boot and 0 <= sample.monotonic - last.monotonic < limits.sample_seconds:
        return memory, []
    if last is None or not is_same_boot or not belong_together(last, sample, limits):
        memory, last = Memory(), None
    log_history, log_findings = logs.judge(memory.logs, last, sample, limits)
    disk_history, disk_findings = disk.judge(memory.disk, last, sample, limits)
    idle_history, idle_findings = idle.judge(memory.idle, last, sample)
    others = [*idle_findings, *log_findings, *disk_findings]
    now = sample.progress
    # What cannot be seen may be progress.
    if last is None or last.progress is None or now is None or sample.runner is None:
        window = Window(now or Progress())
        return Memory(sample, window, window, window, idle_history, log_history, disk_history), others
    cpu, cpu_finding = judge_cpu(memory.cpu, last, sample, now, limits)
    tokens, tokens_finding = judge_spending(Rule.TOKENS, memory.tokens, last, sample, now, limits)
    steps, steps_finding = judge_spending(Rule.STEPS, memory.steps, last, sample, now, limits)
    windowed = [finding for finding in (cpu_finding, tokens_finding, steps_finding) if finding]
    following = Memory(sample, cpu, tokens, steps, idle_history, log_history, disk_history)
    return following, [*windowed, *others]


def belong_together(last: Sample, sample: Sample, limits: Bounds) -> bool:
    """What happened between these two looks of one boot can be told from them."""
    awake, passed = sample.monotonic - last.monotonic, sample.boottime - last.boottime
    return (
        0 < awake <= GAP_SAMPLES * limits.sample_seconds
        and abs(passed - awake) <= SLEPT_SECONDS
        and max(last.took, sample.took) <= limits.sample_seconds
    )
