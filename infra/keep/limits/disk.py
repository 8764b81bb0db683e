"""The rule on disks: when room is short, it is made; an agent that goes on filling the disk is ended. Pure.

The disk may be full through somebody else, and an agent is not ended for that, nor for what it wrote before: only when
its own directory, weighed at two looks, is the greater part of what the disk has more."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.limits.values import Bounds, Finding, Remedy, Rule, Sample, Volume

INODES = 0.05
NEAR = 4
"""Times the least: from there on the agent's directory is weighed, so that its growth is known when room is short."""
LEAST_GROWTH = 1 << 20
LEAST_FILES = 1000
BOT = "bot"


class DiskHistory(NamedTuple):
    short: tuple[tuple[str, int], ...] = ()
    """Volume -> looks in a row at which it was short of room."""
    near: bool = False
    seconds: float = 0.0


def judge(
    history: DiskHistory, last: Sample | None, sample: Sample, limits: Bounds
) -> tuple[DiskHistory, list[Finding]]:
    """First room is made, then the PM is told, once each; the agent is ended as soon as it is what grows."""
    before, findings = dict(history.short), []
    short = {volume.name: volume for volume in sample.volumes if is_short(volume, limits)}
    counts = {name: before.get(name, 0) + 1 for name in short}
    elapsed = sample.monotonic - last.monotonic if last else 0.0
    seconds = history.seconds + elapsed if short and before else 0.0
    for name, volume in short.items():
        remedy = Remedy.TIDY if counts[name] == 1 else Remedy.TELL if counts[name] == 2 else None
        if counts[name] > 1 and name == BOT and last and sample.runner and agent_grows(last, sample):
            remedy = Remedy.END
        if remedy:
            text = _text(remedy, volume, seconds, limits)
            measured, limit = float(volume.free), float(limits.free_bytes)
            findings.append(Finding(Rule.DISK, remedy, measured, limit, seconds, counts[name], text, sample.runner))
    near = any(volume.name == BOT and is_short(volume, limits, NEAR) for volume in sample.volumes)
    return DiskHistory(tuple(counts.items()), near, seconds), findings


def is_short(volume: Volume, limits: Bounds, times: int = 1) -> bool:
    few_files = volume.inodes > 0 and volume.inodes_free < times * INODES * volume.inodes
    return volume.free < times * limits.free_bytes or few_files


def agent_grows(last: Sample, sample: Sample) -> bool:
    """Of what is more on the disk than at the look before, most is the agent's; in bytes, or in files."""
    before, after = last.weight, sample.weight
    then, now = (next((volume for volume in each.volumes if volume.name == BOT), None) for each in (last, sample))
    if not (before and after and then and now and before.whole and after.whole):
        return False
    size, files = after.size - before.size, after.files - before.files
    by_size = size >= LEAST_GROWTH and size * 2 >= then.free - now.free
    return by_size or (files >= LEAST_FILES and files * 2 >= then.inodes_free - now.inodes_free)


def _text(remedy: Remedy, volume: Volume, seconds: float, limits: Bounds) -> str:
    owner = "agent's" if volume.name == BOT else "keep's"
    text = f"The disk of the {owner} directory has {volume.free} bytes free, and {limits.free_bytes} are needed"
    if volume.inodes:
        text += f" and room for {volume.inodes_free} of {volume.inodes} files (the minimum is 5 %)"
    if remedy is Remedy.TIDY:
        return f"{text}. Files that can be recreated are removed."
    if remedy is Remedy.TELL:
        return f"{text}, for {seconds:.0f} s, although removable files were removed. Please free space."
    return f"{text}, for {seconds:.0f} s, and the agent continues to fill it."
