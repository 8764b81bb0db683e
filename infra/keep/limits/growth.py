"""What grows on the disk: the running branch's logs, the volumes, and, when room gets short, all of the agent's
directory. Each look has a bound; what lies beyond is said to be missing."""

from __future__ import annotations

import os
import stat

import msgspec

from infra.keep.limits.values import Log, Volume, Weight
from infra.shared.paths import LIFE_FILE, RECORDS, Paths
from infra.shared.safe_files import Below, Unseen, takes

LOGS_DEPTH = 3
LOGS_LOOKED_AT = 1000
WEIGHED = 200_000
WEIGHED_DEPTH = 64
WEIGH_SECONDS = 1.0
STATUS_BYTES = 1 << 16


def logs_of(bot: Below, branch: str, left_out: list[str]) -> tuple[Log, ...]:
    """The files in `logs/` of that branch's clone."""
    found = []
    for entry in bot.walk(f"{branch}/minifram/logs", depth=LOGS_DEPTH, most=LOGS_LOOKED_AT):
        if isinstance(entry, Unseen):
            left_out.append(f"logs: {entry.path}: {entry.why}")
        elif stat.S_ISREG(entry.status.st_mode):
            status, is_record = entry.status, entry.path.removeprefix(f"{branch}/minifram/").startswith(RECORDS)
            identity = status.st_dev, status.st_ino
            found.append(Log(entry.path, identity, takes(status), status.st_mtime, is_record))
    return tuple(found)


class LifeStatus(msgspec.Struct, frozen=True):
    """What is of interest of `life.json`, whoever wrote it."""

    doing: str = ""
    services: str = ""


def status_of(bot: Below, branch: str) -> LifeStatus | None:
    """What the agent says it is doing; None when that is not known."""
    try:
        return msgspec.json.decode(bot.tail(f"{branch}/minifram/{LIFE_FILE}", STATUS_BYTES), type=LifeStatus)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def volumes(places: Paths, left_out: list[str]) -> tuple[Volume, ...]:
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


def weight_of(bot: Below, left_out: list[str]) -> Weight:
    """What the agent's directory takes. A file with several names counts once."""
    size, files, whole = 0, 0, True
    seen: set[tuple[int, int]] = set()
    for entry in bot.walk(depth=WEIGHED_DEPTH, most=WEIGHED, seconds=WEIGH_SECONDS):
        if isinstance(entry, Unseen):
            left_out.append(f"weight: {entry.path or bot.root}: {entry.why}")
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
