"""Where main and the mind of the bare repository are, told to whoever waits for them to move. The files that say so are
looked at each second, and read when they have changed: no event that could get lost, and no git."""

from __future__ import annotations

import asyncio
import os
import re
import time

from infra.shared.branches import MAIN, MIND
from infra.shared.requests import TIPS_SECONDS, Tips, Where
from infra.shared.safe_files import whole_file

POLL_SECONDS = 1.0
_REF_FILE_BYTES = 4 << 20
_COMMIT = re.compile(rb"([0-9a-f]{40})\n?")


class Unreadable(Exception):
    """The repository does not say where a branch is."""


class Watch:
    """`news` of one bare repository."""

    def __init__(self, remote: str, poll_seconds: float = POLL_SECONDS) -> None:
        self._remote, self._poll_seconds = remote, poll_seconds
        self._seen: tuple[object, ...] = ()
        self._where = Where("")

    async def news(self, known: Tips, seconds: float = TIPS_SECONDS) -> Where:
        """As soon as either branch is not where `known` has it, else after so many seconds. Raises Unreadable."""
        until = time.monotonic() + seconds
        while (where := self._look()) == Where(known.main, known.mind) and time.monotonic() < until:
            await asyncio.sleep(self._poll_seconds)
        return where

    def _look(self) -> Where:
        seen = tuple(_signature(f"{self._remote}/{name}") for name in (*map(_ref, (MAIN, MIND)), "packed-refs"))
        if seen != self._seen:  # taken before the reading: a move in between is seen at the next look
            self._where, self._seen = Where(read_tip(self._remote, MAIN), read_tip(self._remote, MIND)), seen
        return self._where


def read_tip(remote: str, branch: str) -> str:
    """The branch's commit, by files alone; empty when there is no such branch. Raises Unreadable."""
    packed = re.compile(rb"(?:.*\n)?([0-9a-f]{40}) %b\n.*" % re.escape(_ref(branch)).encode(), re.DOTALL)
    try:
        try:
            content = whole_file(f"{remote}/{_ref(branch)}", _REF_FILE_BYTES)
        except FileNotFoundError:  # packed, or there is none
            found = packed.fullmatch(whole_file(f"{remote}/packed-refs", _REF_FILE_BYTES))
            return found[1].decode() if found else ""
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Unreadable(f"{branch} cannot be read: {error}") from None
    if match := _COMMIT.fullmatch(content):
        return match[1].decode()
    raise Unreadable(f"{branch} is at {content[:60]!r}; expected a commit's sha1")


def _ref(branch: str) -> str:
    return f"refs/heads/{branch}"


def _signature(path: str) -> tuple[int, int, int] | None:
    """Something that differs when the file may have another content."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
