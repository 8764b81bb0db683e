"""A program that works for the watcher for a while, off its loop: in a session of its own, its output in a file in
memory, so that neither waits for the other."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from infra.shared import processes
from infra.shared.identity import OURS, Identity


class Child:
    """One such program. `output` is its stdout; `pidfd` can be polled for its end."""

    def __init__(
        self,
        command: list[str],
        env: dict[str, str],
        output_bytes: int,
        who: Identity = OURS,
        *,
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        """Start it; one that says more than `output_bytes` is killed. Raises OSError."""
        self._output_bytes = output_bytes
        self.output = os.memfd_create("output", os.MFD_CLOEXEC)
        try:
            with who.acting():
                self._process = subprocess.Popen(
                    command,
                    cwd="/",
                    env=env,
                    stdin=stdin,
                    stdout=self.output,
                    stderr=stderr,
                    start_new_session=True,
                    pass_fds=pass_fds,
                    **who.for_child,
                )
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:
            os.close(self.output)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_over(self) -> bool:
        if os.fstat(self.output).st_size > self._output_bytes:
            self.kill()
        return processes.is_over(self.pidfd)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def said(self) -> bytes:
        return os.pread(self.output, self._output_bytes, 0)

    def end(self) -> int:
        """Kill what is left of it; gives its exit status. Its output can still be read."""
        self.kill()
        os.close(self.pidfd)
        return self._process.wait()

    def forget(self) -> None:
        """After `end`."""
        os.close(self.output)
