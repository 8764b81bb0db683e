"""One command in the container: its output bounded, its time limited, the container started again when it ended.

At the time limit only the processes of that command are ended: they are known by a variable in their environment, and
by their session. When that does not work, the container is started again."""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import IO, cast

import engine
from llm_driver import Result

MARK = "DISCOVERY_STEP"
TIMED_OUT, INTERRUPTED = 124, 130
LOOK_SECONDS = 0.1
END_SECONDS = 10.0
"""For the processes of a command to end, once they were told to."""

END_MARKED = r"""
sessions=' '
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    found=
    for pid in $(grep -lsxzF -e "$1" /proc/[0-9]*/environ); do
        pid=${pid#/proc/} pid=${pid%/environ}
        found="$found $pid"
        { read -r line </proc/$pid/stat; } 2>/dev/null || continue
        set -- "$1" ${line##*) }
        [ "$5" = 1 ] || sessions="$sessions$5 "
    done
    for file in /proc/[0-9]*/stat; do
        { read -r line <$file; } 2>/dev/null || continue
        set -- "$1" ${line##*) }
        [ "$2" = Z ] && continue
        case $sessions in *" $5 "*) file=${file#/proc/} found="$found ${file%/stat}" ;; esac
    done
    [ -n "$found" ] || exit 0
    kill -KILL $found 2>/dev/null
    sleep 0.05
done
exit 1
"""
"""For the bash in the container. $1 is the variable with its value; of a line of /proc/PID/stat, what follows the name
begins with state, parent, group and session."""

_NEVER_RAN = ("can only create exec sessions on running containers", "is not running")


@dataclass(frozen=True)
class Limits:
    seconds: float = 120.0
    output_bytes: int = 200_000
    """Of each of stdout and stderr."""


class Bounded:
    """What is kept of a stream: all of it, or its first and its last half of the bound."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head, self._tail = bytearray(), bytearray()
        self.size = 0

    def add(self, part: bytes) -> None:
        self.size += len(part)
        room = self._half - len(self._head)
        if room > 0:
            self._head += part[:room]
            part = part[room:]
        self._tail += part
        if len(self._tail) > 8 * self._half + (1 << 16):
            del self._tail[: -self._half]

    def text(self) -> str:
        """Bytes that are no UTF-8 are replaced by U+FFFD."""
        left_out = self.size - len(self._head) - min(len(self._tail), self._half)
        if not left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = _whole_characters(bytes(self._head), bytes(self._tail[-self._half :]))
        left_out = self.size - len(head) - len(tail)
        gap = f"\n[… {left_out} bytes left out …]\n"
        return head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace")


class Shell:
    """Runs commands in one container."""

    def __init__(self, container: str, program: engine.Engine, limits: Limits) -> None:
        self.container = container
        self.engine = program
        self.limits = limits
        self.lost: engine.EngineError | None = None
        self._token = secrets.token_hex(8)

    def run(self, step: int, command: str, interrupted: Callable[[], bool] = lambda: False) -> Result:
        """The command's end: by itself, at the time limit, or soon after `interrupted` says so. When the container
        could not be started again, `lost` says why. Raises NoEngine when the command could not be begun."""
        result, must_restart = self._once(step, command, interrupted)
        try:
            if must_restart:
                self.engine.restart(self.container)
            elif result.exit_code and not self.engine.look(self.container).running:
                self.engine.start(self.container)
                if not result.stdout and any(words in result.stderr for words in _NEVER_RAN):
                    result, must_restart = self._once(step, command, interrupted)
                    if must_restart:
                        self.engine.restart(self.container)
            else:
                return result
        except engine.EngineError as error:
            self.lost = error
            return result
        return replace(result, restarted=True)

    def _once(self, step: int, command: str, interrupted: Callable[[], bool]) -> tuple[Result, bool]:
        """The result, and whether the container must be started again for the command to end."""
        mark = f"{MARK}={self._token}.{step}"
        words = [self.engine.program, "exec", "-e", mark, self.container, "/bin/bash", "-lc", command]
        began = time.monotonic()
        try:
            client = _Client(words, self.limits.output_bytes)
        except OSError as error:
            raise engine.NoEngine(f"{self.engine.program} cannot be run: {error.strerror}") from None
        timed_out = was_interrupted = must_restart = False
        with client:
            if not client.read(began + self.limits.seconds, interrupted):
                was_interrupted = interrupted()
                timed_out = not was_interrupted
                must_restart = not self._end_marked(mark) or not client.read(time.monotonic() + END_SECONDS)
            latency = time.monotonic() - began
        exit_code = TIMED_OUT if timed_out else INTERRUPTED if was_interrupted else client.exit_code
        out, err = client.out, client.err
        result = Result(
            step, command, out.text(), err.text(), exit_code, latency, timed_out, out.size, err.size, restarted=False
        )
        return result, must_restart

    def _end_marked(self, mark: str) -> bool:
        """Whether no process of the command is left."""
        words = ("exec", self.container, "/bin/bash", "-c", END_MARKED, "end-marked", mark)
        try:
            return self.engine.call(*words, seconds=END_SECONDS).returncode == 0
        except engine.NoEngine:  # not within its time: restarting is what is left
            return False


class _Client:
    """The engine's own process of one `exec`, and what it writes."""

    def __init__(self, words: list[str], output_bytes: int) -> None:
        self.out, self.err = Bounded(output_bytes), Bounded(output_bytes)
        # Its own session: Ctrl-C at the terminal is not for it.
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._selector = selectors.DefaultSelector()
        self._streams = [cast(IO[bytes], stream) for stream in (self._process.stdout, self._process.stderr)]
        for stream, kept in zip(self._streams, (self.out, self.err), strict=True):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, kept)

    @property
    def exit_code(self) -> int:
        """Of the engine, which hands on the command's. As a shell tells it, when a signal ended the engine."""
        code = self._process.poll()
        return INTERRUPTED if code is None else code if code >= 0 else 128 - code

    def read(self, until: float, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Keep what is written until the process has ended; False when it still runs at the time `until`."""
        while self._selector.get_map():
            left = until - time.monotonic()
            if left <= 0 or interrupted():
                return False
            ready = self._selector.select(min(left, LOOK_SECONDS))
            for key, _ in ready:
                self._take(key)
            if not ready and self._process.poll() is not None:
                return True  # something that it started holds the pipe
        while self._process.poll() is None:
            if time.monotonic() >= until or interrupted():
                return False
            time.sleep(0.0005)
        return True

    def _take(self, key: selectors.SelectorKey) -> None:
        try:
            part = os.read(key.fd, 1 << 16)
        except BlockingIOError:
            return
        if part:
            key.data.add(part)
        else:
            self._selector.unregister(key.fileobj)

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._selector.close()
        for stream in self._streams:
            stream.close()


def _whole_characters(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Without the parts of the characters that the bound cut through."""
    for back in range(1, min(4, len(head)) + 1):
        if head[-back] & 0xC0 != 0x80:
            if head[-back] >= 0xC0 and back < _length(head[-back]):
                head = head[:-back]
            break
    start = next((place for place, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
    return head, tail[start:] if start < 4 else tail


def _length(first: int) -> int:
    """Bytes of the UTF-8 character that begins with this one."""
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4
