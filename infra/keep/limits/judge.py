"""Does the agent take too much of the machine? Pure: from what was remembered and one sample to what is to be done.

Nothing is ended for what was seen once. All times are the watcher's own clock, which stands still while the watcher
does (`supervision.clock`)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from infra.keep.cut_logs import MOST_KEPT

LARGEST = 3
"""Times `limits.log_bytes`: a log of this size is cut, however slowly it grew."""
LEAST_INODES = 0.05


class Bounds(NamedTuple):
    """What the judge goes by: the PM's `limits.log_bytes` and `limits.bash_seconds`, and constants."""

    log_bytes: int = 20 * 1024 * 1024
    bash_seconds: float = 600.0
    validation_seconds: float = 900.0
    sample_seconds: float = 30.0
    """A sample costs milliseconds."""
    cpu_seconds: float = 1800.0
    """All processors busy for so long, twice in a row, without a model call: the runner is ended."""
    cpu_fraction: float = 0.95
    """The share of processor time that counts as all of it."""
    free_bytes: int = 256 * 1024 * 1024
    """With less free on a disk, the PM is told: a clone with its environment fits."""

    @property
    def window_seconds(self) -> float:
        """Of the processor rule: a command, or the tests of a branch, may take all processors for as long as they may
        run, without a model call."""
        return max(self.cpu_seconds, self.bash_seconds, self.validation_seconds)


class Log(NamedTuple):
    path: str
    """Below the agent's directory: `main/minifram/logs/errors.log`."""
    size: int
    """Bytes that it takes on the disk."""
    is_record: bool = False
    """One of `paths.RECORDS`, from which a run is resumed: it counts, and is never cut."""


class Volume(NamedTuple):
    """The disk below a directory. `inodes` is 0 where there is no fixed number."""

    path: str
    free: int
    inodes_free: int
    inodes: int


class Sample(NamedTuple):
    boot_id: str
    cores: float
    """Processors that the agent may use."""
    cpu_seconds: float
    """That it has used; only its growth means something."""
    ledger_bytes: int
    """Each model call makes the ledger longer."""
    logs: tuple[Log, ...] = ()
    volumes: tuple[Volume, ...] = ()


class Remedy(Enum):
    TELL = "tell"
    CUT = "cut"
    """`Below.cut` of `log`; it is told as well."""
    END = "end"
    """The runner, with all that it started."""


class Finding(NamedTuple):
    rule: str
    remedy: Remedy
    text: str
    """For the PM."""
    log: Log | None = None


class Window(NamedTuple):
    """Of the processor rule: it begins anew with each model call."""

    began: float = 0.0
    cpu_seconds: float = 0.0
    ledger_bytes: int = 0
    stuck: int = 0
    """Windows in a row before it that were over the limit."""


class Memory(NamedTuple):
    """What the judge knows of one boot. `Memory()` is the beginning."""

    boot_id: str = ""
    at: float = 0.0
    log_bytes: int = 0
    is_exploding: bool = False
    window: Window = Window()


def judge(memory: Memory, sample: Sample, at: float, limits: Bounds) -> tuple[Memory, list[Finding]]:
    """The next memory, and what has to be done."""
    log_bytes = sum(log.size for log in sample.logs)
    if memory.boot_id != sample.boot_id:
        memory = Memory(sample.boot_id, at, log_bytes, window=Window(at, sample.cpu_seconds, sample.ledger_bytes))
    window, findings = _judge_cpu(memory.window, sample, at, limits)
    grown, seconds = log_bytes - memory.log_bytes, at - memory.at
    is_exploding = grown > limits.log_bytes * seconds / 60
    text = f"The agent's logs grew by {grown} bytes in {seconds:.0f} s (a minute's limit: {limits.log_bytes})"
    if is_exploding and memory.is_exploding:
        findings.append(Finding("logs", Remedy.END, f"{text}."))
    elif log := _to_cut(sample.logs, is_exploding, limits):
        why = text if is_exploding else "A log is too large"
        findings.append(Finding("logs", Remedy.CUT, f"{why}; {log.path}, with {log.size} bytes, is cut.", log))
    elif is_exploding:
        findings.append(Finding("logs", Remedy.TELL, f"{text}, and there are only records, which are not cut."))
    findings += [_short(volume, limits) for volume in sample.volumes if _is_short(volume, limits)]
    return Memory(sample.boot_id, at, log_bytes, is_exploding, window), findings


def after_cut(memory: Memory, log: Log) -> Memory:
    """What was cut is no growth to be missed."""
    return memory._replace(log_bytes=memory.log_bytes - max(0, log.size - MOST_KEPT))


def _judge_cpu(window: Window, sample: Sample, at: float, limits: Bounds) -> tuple[Window, list[Finding]]:
    """A window that is over its limit is told, and the next one that is so too ends the runner."""
    following = Window(at, sample.cpu_seconds, sample.ledger_bytes)
    if sample.ledger_bytes != window.ledger_bytes:
        return following, []
    seconds, used = at - window.began, sample.cpu_seconds - window.cpu_seconds
    if seconds < limits.window_seconds:
        return window, []
    if used < limits.cpu_fraction * sample.cores * seconds:
        return following, []
    text = f"The agent used {used / seconds:.2f} of {sample.cores:g} processors for {seconds:.0f} s, with no model call"
    if window.stuck:
        finding = Finding("cpu", Remedy.END, f"{text}, and as much in the time before.")
    else:
        finding = Finding("cpu", Remedy.TELL, f"{text}. It will be ended if this continues for as long again.")
    return following._replace(stuck=window.stuck + 1), [finding]


def _to_cut(logs: tuple[Log, ...], is_exploding: bool, limits: Bounds) -> Log | None:
    """The largest that is no record, when they explode, so that its end can be read, or when it is too large."""
    largest = max((log for log in logs if not log.is_record), key=lambda log: log.size, default=None)
    return largest if largest and (is_exploding or largest.size > LARGEST * limits.log_bytes) else None


def _is_short(volume: Volume, limits: Bounds) -> bool:
    return volume.free < limits.free_bytes or volume.inodes_free < LEAST_INODES * volume.inodes


def _short(volume: Volume, limits: Bounds) -> Finding:
    text = f"The disk of {volume.path} has {volume.free} bytes free ({limits.free_bytes} are needed)"
    text += f" and room for {volume.inodes_free} of {volume.inodes} files" if volume.inodes else ""
    return Finding("disk", Remedy.TELL, f"{text}. Please free space.")
