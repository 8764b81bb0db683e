"""What grows on the disk: the running branch's logs, the volumes, and, when room gets short, all of the agent's
directory. Each look has a bound; what lies beyond is said to be missing."""

from __future__ import annotations

import itertools
import os
import stat
import time

from infra.keep.limits.observed import Log, Volume, Weight
from infra.shared.below import Entry, takes, walk
from infra.shared.places import Places

LOGS_DEPTH = 3
LOGS_LOOKED_AT = 1000
WEIGHED = 200_000
WEIGHED_DEPTH = 64
WEIGH_SECONDS = 1.0


def logs_of(bot: str, branch: str, left_out: list[str]) -> tuple[Log, ...]:
    """The files in `logs/` of that branch's clone."""
    found = []
    every = walk(bot, f"{branch}/minifram/logs", LOGS_DEPTH)
    for entry in itertools.islice(every, LOGS_LOOKED_AT):
        if not isinstance(entry, Entry):
            left_out.append(f"logs: {entry}")
        elif stat.S_ISREG(entry.status.st_mode):
            found.append(Log(entry.name, (entry.status.st_dev, entry.status.st_ino), takes(entry.status)))
    if next(every, None) is not None:
        left_out.append(f"logs: there are over {LOGS_LOOKED_AT} files")
    return tuple(found)


def volumes(places: Places, left_out: list[str]) -> tuple[Volume, ...]:
    """The agent's and the keep's, once if they are the same."""
    found: dict[int, Volume] = {}
    for name, path in (("bot", places.bot), ("var", places.var)):
        try:
            device, now = os.stat(path).st_dev, os.statvfs(path)
        except OSError as error:
            left_out.append(f"volume: {error}")
            continue
        size = now.f_frsize
        volume = Volume(name, now.f_bavail * size, now.f_blocks * size, now.f_favail, now.f_files)
        found.setdefault(device, volume)
    return tuple(found.values())


def weight_of(bot: str, left_out: list[str]) -> Weight:
    """What the agent's directory takes. A file with several names counts once."""
    end = time.monotonic() + WEIGH_SECONDS
    size, files, whole = 0, 0, True
    seen: set[tuple[int, int]] = set()
    for number, entry in enumerate(walk(bot, ".", WEIGHED_DEPTH)):
        if number >= WEIGHED or (number % 256 == 0 and time.monotonic() > end):
            left_out.append(f"weight: {bot} holds more than is looked through at once ({number} files were)")
            return Weight(size, files, False)
        if not isinstance(entry, Entry):
            left_out.append(f"weight: {entry}")
            whole = False
            continue
        identity = entry.status.st_dev, entry.status.st_ino
        if entry.status.st_nlink > 1 and not stat.S_ISDIR(entry.status.st_mode):
            if identity in seen:
                continue
            seen.add(identity)
        files += 1
        size += entry.status.st_blocks * 512
    return Weight(size, files, whole)
