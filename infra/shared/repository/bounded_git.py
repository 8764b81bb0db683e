"""Git calls that share one deadline and whose answers have a greatest size: for asking about what a stranger
chose. A call that passes either bound is ended, with everything that it started."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Generator, Iterator
from typing import IO

from infra.shared.repository.git import TIMEOUT_SECONDS, Git, GitError

ANSWER_BYTES = 32 * 1024 * 1024


class TooMuch(Exception):
    """Git had more to say than `ANSWER_BYTES`."""


TIME_IS_UP = "the time for one push is used up"


class BoundedGit(Git):
    def __init__(self, directory: str, deadline: float, env: dict[str, str]) -> None:
        """`deadline` is monotonic."""
        super().__init__(directory, env=env)
        self._deadline = deadline

    def raw(self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS) -> bytes:
        """As `Git.raw`; raises TooMuch as well."""
        parts, size = list[bytes](), 0
        with contextlib.closing(self.pieces(*words, stdin=stdin, timeout=timeout)) as pieces:
            for part in pieces:
                parts.append(part)
                size += len(part)
                if size > ANSWER_BYTES:
                    raise TooMuch(f"what it brings takes git over {ANSWER_BYTES >> 20} MiB to describe")
        return b"".join(parts)

    def pieces(
        self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> Generator[bytes, None, None]:
        """The answer as it comes, however long it is. Raises GitError, also at its end; to be closed."""
        end = min(time.monotonic() + timeout, self._deadline)
        if end <= time.monotonic():  # A quick call would otherwise answer before anyone looks at the clock.
            raise GitError(words, None, TIME_IS_UP)
        # Input and complaints are files in memory, so that one pipe is all there is to attend to.
        with open(os.memfd_create("stdin"), "w+b") as asked, open(os.memfd_create("stderr"), "w+b") as complaints:
            asked.write(stdin or b"")
            asked.seek(0)
            try:
                process = subprocess.Popen(
                    ["git", *words],
                    cwd=self.directory,
                    env=self._env,
                    stdin=asked,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    start_new_session=True,
                )
            except OSError as error:
                raise GitError(words, 127, f"cannot be started in {self.directory}: {error.strerror}") from error
            try:
                yield from _read_all(process.stdout, end)
                status = process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise GitError(words, None, TIME_IS_UP) from None
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if status:
                complaints.seek(0)
                raise GitError(words, status, complaints.read().decode(errors="replace"))


def _read_all(stdout: IO[bytes] | None, end: float) -> Iterator[bytes]:
    if stdout is None:
        raise AssertionError("unreachable: stdout is a pipe")
    with stdout:
        while (left := end - time.monotonic()) > 0 and select.select([stdout], [], [], left)[0]:
            part = os.read(stdout.fileno(), 1 << 20)
            if not part:
                return
            yield part
    raise subprocess.TimeoutExpired("git", 0)
