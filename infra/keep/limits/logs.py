"""The rule on logs: how fast they grow together, how large one is. Pure; an endless line is bytes like any other.

Records (`paths.RECORDS`) count with the rest and are never cut: a run is resumed from them. The whole outputs among
them, images of many MiB too, are a store in which the new replaces the old, so only its growth as a whole counts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from infra.keep.limits.values import Bounds, Finding, Log, Remedy, Rule, Sample
from infra.shared.paths import OUTPUTS
from infra.shared.safe_files import OLDER

LARGEST = 3
"""Times `limits.log_bytes`: a log of this size is cut, however slowly it got there."""


class LogHistory(NamedTuple):
    exploding: int = 0
    """Looks in a row that found them growing too fast."""
    seconds: float = 0.0


def judge(history: LogHistory, last: Sample | None, sample: Sample, limits: Bounds) -> tuple[LogHistory, list[Finding]]:
    """The first time the log that grew most is cut, so that its end can be read; the runner is ended when that did not
    help, or only records grow."""
    large = _large(sample, limits)
    if last is None or sample.runner is None:
        return LogHistory(), large
    elapsed = sample.monotonic - last.monotonic
    growths = growth(last.logs, sample.logs, limits.log_bytes)
    grown, most = sum(growths.values()), limits.log_bytes * elapsed / 60
    if grown <= most:
        return LogHistory(), large
    history = LogHistory(history.exploding + 1, history.seconds + elapsed)
    name, by = max(growths.items(), key=lambda item: item[1])
    again = history.exploding > 1
    text = (
        f"The agent's logs grew by {grown} bytes in {elapsed:.0f} s (limits.log_bytes, {limits.log_bytes}, are allowed"
        f" a minute); most of it is {name}, {by} bytes"
    )
    records = {log.name for log in sample.logs if log.is_record} | _outputs(sample.logs).keys()
    cut = max((other for other in growths.items() if other[0] not in records), key=lambda item: item[1], default=None)
    remedy, path = (Remedy.TRIM_LOG, cut[0]) if cut else (Remedy.TELL, name)
    if again:
        remedy, path = Remedy.END, name
        text += f", {history.seconds:.0f} s so far."
    else:
        text += f". {f'{path} is cut' if cut else 'It is a record and is not cut'};"
        text += " the runner will be ended if this continues."
    measured = (float(grown), most, history.seconds, history.exploding)
    finding = Finding(Rule.LOGS, remedy, *measured, text, sample.runner, path)
    return history, [finding, *(other for other in large if other.path != path)]


def _large(sample: Sample, limits: Bounds) -> list[Finding]:
    largest, found = LARGEST * limits.log_bytes, []
    excess = [log for log in sample.logs if log.size > largest and not log.is_record]
    for log in sorted(excess, key=lambda log: log.changed):  # the oldest first
        text = f"{log.name} has {log.size} bytes (at most {LARGEST} times limits.log_bytes, {largest}); it is cut."
        measured = (float(log.size), float(largest), 0.0, 1)
        found.append(Finding(Rule.LOGS, Remedy.TRIM_LOG, *measured, text, sample.runner, log.name))
    return found


def growth(before: tuple[Log, ...], after: tuple[Log, ...], stored: int) -> dict[str, int]:
    """Name -> bytes more than before. One that is smaller was cut, and has grown to what it is; what was moved aside
    under a new number grew under its old name. Whole outputs may take `stored` bytes together; beyond that they grow as
    one log."""
    sizes = {log.identity: log.size for log in before}
    grown = {}
    for log in after:
        was = sizes.get(log.identity)
        if _is_output(log) or (was is None and log.name.endswith(OLDER)):
            continue
        grown[log.name] = log.size - was if was is not None and log.size >= was else log.size
    for name, size in _outputs(after).items():
        grown[name] = max(0, size - max(stored, _outputs(before).get(name, 0)))
    return grown


def _outputs(logs: tuple[Log, ...]) -> dict[str, int]:
    """Directory -> bytes in it."""
    sizes = Counter[str]()
    for log in filter(_is_output, logs):
        sizes[log.name.rpartition("/")[0]] += log.size
    return sizes


def _is_output(log: Log) -> bool:
    return log.is_record and log.name.rpartition("/")[0].endswith(f"/{OUTPUTS}")
