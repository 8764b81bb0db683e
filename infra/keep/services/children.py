"""Starting processes: the runner as the cell, and the keep's own programs, which end with the watcher."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import IO

from infra.keep.boot_files import make_home
from infra.shared import boot as boot_contract
from infra.shared.boot import Boot
from infra.shared.identity import OURS, Identity
from infra.shared.paths import CHECKOUT_VARIABLE
from infra.shared.people import AGENT
from infra.shared.safe_files import Below

KEEPS = "MINIFRAM_KEEPS"
"""In the environment of what the watcher starts for itself: its state's directory. So what outlives a killed watcher
all the same, such as a git of its own, is known, and ended before the next one works on the same files."""


def begin_aside(
    command: list[str],
    env: Mapping[str, str],
    who: Identity = OURS,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
    pass_fds: tuple[int, ...] = (),
    cwd: str = "/",
) -> subprocess.Popen[bytes]:
    """A program in a session of its own. It is killed when the thread that starts it ends, so with this process at the
    latest: a door that outlives its watcher keeps the socket from the next one's. Raises OSError."""
    setpriv = shutil.which("setpriv") or "setpriv"  # a service's own environment need not lead to it
    return subprocess.Popen(
        [setpriv, "--pdeathsig", "KILL", *command],
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        pass_fds=pass_fds,
        **who.for_child,
    )


def pidfd_of(process: subprocess.Popen[bytes]) -> int:
    """To poll for its end. Raises OSError, and then it and its group were killed, as nobody could follow them."""
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def in_memory(content: bytes) -> IO[bytes]:
    """A file in memory, to be read from its beginning. Raises OSError."""
    given = os.fdopen(os.memfd_create("input", os.MFD_CLOEXEC), "w+b", buffering=0)
    given.write(content)
    given.seek(0)
    return given


class Child:
    """A program that works for the watcher off its loop. `output` is its stdout, a file in memory, so that neither
    waits for the other; `pidfd` can be polled for its end."""

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
                self._process = begin_aside(command, env, who, stdin, self.output, stderr, pass_fds)
            self.pidfd = pidfd_of(self._process)
        except OSError:
            os.close(self.output)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_over(self) -> bool:
        if os.fstat(self.output).st_size > self._output_bytes:
            self.kill()
        return is_over(self.pidfd)

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


def is_over(pidfd: int) -> bool:
    """True once the process has ended, reaped or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def runner_command(code: str, python: str = sys.executable, boot: Boot | None = None) -> list[str]:
    """`-E -s -P`: no PYTHON* variable, no user site directory and not the working directory; modules come from `code`
    first, which the cell may read and nobody there can change. The words at the end are those of its first line in the
    boot log."""
    launch = [boot.branch, boot.commit, boot.id] if boot else []
    return [python, "-E", "-s", "-P", "-c", _RUN, code, "infra.runner", *launch]


_RUN = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__')"


def cell_environment(boot: Boot, python: str = sys.executable) -> dict[str, str]:
    """The whole environment of a runner and of all that it starts."""
    tools = os.path.dirname(python)
    return {
        boot_contract.VARIABLE: boot_contract.to_json(boot),
        "PATH": f"{tools}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": boot.places.home(boot.id),
        CHECKOUT_VARIABLE: boot.places.checkout(boot.branch),
        "PIP_CONFIG_FILE": os.devnull,
        "GIT_CONFIG_GLOBAL": boot.places.cell_git_config,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        # The git door takes no other committer, and a clone's own user.name would be one.
        "GIT_COMMITTER_NAME": AGENT.name,
        "GIT_COMMITTER_EMAIL": AGENT.email,
    } | ({"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {})


def spawn(
    boot: Boot,
    command: list[str],
    error_log: int,
    cell: Identity = OURS,
    under: Sequence[str] = (),
    also: Mapping[str, str] = MappingProxyType({}),
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start the runner of `boot` as the cell, in its checkout and a session of its own, by the words `under` (such as
    prlimit's), with what else its environment has. It ends with us. Raises OSError."""
    make_home(Below(boot.places.bot, cell), boot.places.home(boot.id))
    with cell.acting():  # it may be alone in being allowed into its directory
        env, checkout = cell_environment(boot, command[0]) | dict(also), boot.places.checkout(boot.branch)
        process = begin_aside(
            [*under, *command], env, cell, stdout=error_log, stderr=error_log, pass_fds=pass_fds, cwd=checkout
        )
        _let_it_go_first(process.pid)
    return process


_FIRST_TO_GO = "1000"


def _let_it_go_first(pid: int) -> None:
    """When memory is short, the kernel is to end the runner and what it started, and not the keep (proc(5),
    oom_score_adj). Written from here, before the interpreter has read a line of the agent's; all children inherit it.
    Who runs there may set it back to ours, never below."""
    # It may have ended already, or this kernel not have it: that is no reason not to run.
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
        file.write(_FIRST_TO_GO)
