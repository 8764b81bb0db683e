"""The rule on disks: when room is short, it is made; and who goes on filling it is ended. Pure.

The disk may be full through somebody else, and an agent is not ended for that, nor for what it wrote before: only when
its own directory, weighed at two looks, is the greater part of what the disk has more."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.limits.findings import Finding, Remedy, Rule
from infra.keep.limits.observed import Sample, Volume
from infra.shared.settings import LimitSettings

INODES = 0.05
NEAR = 4
"""Times the least: from there on the agent's directory is weighed, so that its growth is known when room is short."""
LEAST_GROWTH = 1 << 20
LEAST_FILES = 1000
BOT = "bot"


class Seen(NamedTuple):
    short: tuple[tuple[str, int], ...] = ()
    """Volume -> looks in a row at which it was short of room."""
    near: bool = False
    seconds: float = 0.0


def is_near(last: Sample, seen: Seen) -> bool:
    return seen.near and last.runner is not None


def judge(seen: Seen, last: Sample | None, sample: Sample, limits: LimitSettings) -> tuple[Seen, list[Finding]]:
    """First room is made, then the PM is told, once each; the agent is ended as soon as it is what grows."""
    counts, findings = dict(seen.short), []
    elapsed = sample.monotonic - last.monotonic if last else 0.0
    short = {volume.name: volume for volume in sample.volumes if is_short(volume, limits)}
    seconds = seen.seconds + elapsed if short and seen.short else 0.0
    counts = {name: counts.get(name, 0) + 1 for name in short}
    for name, volume in short.items():
        remedy = _remedy(counts[name], name, last, sample)
        if remedy:
            findings.append(_finding(remedy, volume, counts[name], seconds, sample, limits))
    near = any(volume.name == BOT and is_short(volume, limits, NEAR) for volume in sample.volumes)
    return Seen(tuple(counts.items()), near, seconds), findings


def is_short(volume: Volume, limits: LimitSettings, times: int = 1) -> bool:
    few_files = volume.inodes > 0 and volume.inodes_free < times * INODES * volume.inodes
    return volume.free < times * limits.free_bytes or few_files


def _remedy(count: int, name: str, last: Sample | None, sample: Sample) -> Remedy | None:
    if count == 1:
        return Remedy.TIDY
    if name == BOT and last and sample.runner and agent_grows(last, sample):
        return Remedy.END
    return Remedy.TELL if count == 2 else None


def agent_grows(last: Sample, sample: Sample) -> bool:
    """Of what is more on the disk than at the look before, most is the agent's; in bytes, or in files."""
    before, after = last.weight, sample.weight
    volumes = [next((volume for volume in each.volumes if volume.name == BOT), None) for each in (last, sample)]
    then, now = volumes
    if not (before and after and then and now and before.whole and after.whole):
        return False
    size, files = after.size - before.size, after.files - before.files
    by_size = size >= LEAST_GROWTH and size * 2 >= then.free - now.free
    return by_size or (files >= LEAST_FILES and files * 2 >= then.inodes_free - now.inodes_free)


def _finding(
    remedy: Remedy, volume: Volume, count: int, seconds: float, sample: Sample, limits: LimitSettings
) -> Finding:
    whose = "agent's" if volume.name == BOT else "keep's"
    text = f"The disk of the {whose} directory has {volume.free} bytes free (limits.free_bytes is {limits.free_bytes})"
    if volume.inodes:
        text += f" and room for {volume.inodes_free} of {volume.inodes} files (5 % is the least)"
    text += {
        Remedy.TIDY: ". What can be had again is removed.",
        Remedy.TELL: f", for {seconds:.0f} s, though what could be removed was. Please make room.",
        Remedy.END: f", for {seconds:.0f} s, and the agent goes on filling it.",
        Remedy.TRIM_LOG: "",
    }[remedy]
    return Finding(Rule.DISK, remedy, float(volume.free), float(limits.free_bytes), seconds, count, text, sample.runner)
