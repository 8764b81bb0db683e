"""Commands in the container, by `docker exec` or `podman exec`: bounded in time and in what is kept of their output."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from typing import IO, NamedTuple

ENGINES = ("docker", "podman")
"""The first of them that is installed, when DISCOVERY_ENGINE names none."""
TIMED_OUT, INTERRUPTED = 124, 130
"""Exit codes, as timeout(1) and a shell give them."""
CALL_SECONDS = 60.0
LATE_SECONDS = 15.0
"""For the engine, beyond the command's own limit."""


class EngineError(Exception):
    """The engine or its container is not as needed: what is wrong and what to do about it."""


class Limits(NamedTuple):
    seconds: int = 120
    output_bytes: int = 200_000
    """Of each of stdout and stderr: the first and the last half are kept."""


class Result(NamedTuple):
    """A command and how it ended: what the document's event holds."""

    command: str
    stdout: str
    stderr: str
    exit_code: int
    latency_s: float


class Kept:
    """The two ends of a stream. Bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._half, self._head, self._tail, self._size = limit // 2, b"", b"", 0
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        while part := os.read(stream.fileno(), 1 << 16):
            self._size += len(part)
            room = self._half - len(self._head)
            self._head += part[:room]
            self._tail = (self._tail + part[room:])[-self._half :]

    def text(self) -> str:
        self._thread.join(1.0)  # what the command left in the background may hold the pipe open
        missing = self._size - len(self._head) - len(self._tail)
        gap = f"\n[… {missing} of {self._size} bytes left out …]\n".encode() if missing else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")


class Shell:
    """The container, spoken to by the engine's command line."""

    def __init__(self, container: str, limits: Limits) -> None:
        """Raises EngineError."""
        named = os.environ.get("DISCOVERY_ENGINE")
        found = next((name for name in ([named] if named else ENGINES) if shutil.which(name)), None)
        if not found:
            raise EngineError(
                f"there is no program {named or ' or '.join(ENGINES)}; DISCOVERY_ENGINE names docker or podman"
            )
        self.engine, self.container, self.limits = found, container, limits
        self.image = self._call("inspect", "--type", "container", "--format", "{{.Config.Image}}", container)
        self._hung = False
        self._start()

    def run(self, command: str) -> Result:
        """At the time limit `timeout` in the container ends the command with its children. `settle` comes after."""
        words = [self.engine, "exec", self.container]
        words += ["timeout", "-k", "5", str(self.limits.seconds), "/bin/bash", "-lc", command]
        began = time.monotonic()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the terminal is for this program, not for the engine's
        )
        streams = (process.stdout, process.stderr)
        out, err = (Kept(stream, self.limits.output_bytes) for stream in streams if stream)
        try:
            code = process.wait(self.limits.seconds + LATE_SECONDS)
        except (KeyboardInterrupt, subprocess.TimeoutExpired) as error:
            process.kill()
            process.wait()
            self._hung = True
            code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else TIMED_OUT
        return Result(command, out.text(), err.text(), code, time.monotonic() - began)

    def settle(self, result: Result) -> bool:
        """Make the container ready for the next command; whether it was started again. Raises EngineError."""
        if self._hung:  # the client was killed, but not what the command had begun in the container
            self._call("restart", "-t", "0", self.container)
            self._hung = False
            return True
        return result.exit_code != 0 and self._start()

    def read(self, path: str, most: int = 1 << 20) -> str:
        """The beginning of a file of the container; empty when there is none."""
        try:
            return self._call("exec", self.container, "head", "-c", str(most), path)
        except EngineError:
            return ""

    def _start(self) -> bool:
        """Whether it had ended."""
        if self._call("inspect", "--type", "container", "--format", "{{.State.Running}}", self.container) == "true":
            return False
        self._call("start", self.container)
        return True

    def _call(self, *words: str) -> str:
        """The engine's own output. Raises EngineError."""
        why = f"no answer within {CALL_SECONDS:g} s"
        try:
            ended = subprocess.run(
                [self.engine, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=CALL_SECONDS,
                start_new_session=True,
            )
            if not ended.returncode:
                return ended.stdout.strip()
            why = ended.stderr.strip()[-500:]
        except subprocess.TimeoutExpired:
            pass
        compose = "podman-compose" if "podman" in self.engine else "docker compose"
        raise EngineError(
            f"'{self.engine} {words[0]} … {self.container}' failed: {why}\nTo make the container: {compose} up -d "
            "--build. AGENT_CONTAINER names another container, DISCOVERY_ENGINE another engine."
        )
