"""One way to call git: arguments as a list, no hooks, no prompts, no lazy fetch, no other transport than files
and git://, and limits of time and size. Agent text never becomes an option: callers put it behind `--end-of-options`.

What cannot be switched off from here is what a repository's own configuration names under a name of its choice:
`filter.<name>.*` (run when files enter or leave a work tree: add, checkout, reset, status), `merge.<name>.driver`,
`remote.<name>.uploadpack` and `receivepack` (run by fetch and push), and `core.worktree`. So a call that touches a
work tree or a remote of a clone that is not ours is made with that owner's rights and no more. Calls on a bare
repository whose configuration is ours (`host` looks it over) meet none of them, with any commits. The other
end of a fetch or push by path runs under its own repository's configuration, hooks included: that is the git door."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Generator, Iterator
from typing import NamedTuple

from infra.shared.identity import OURS, Identity
from infra.shared.people import Person
from infra.shared.repository.git_environment import DRIVERS_OFF, safe_environment

TIMEOUT_SECONDS = 60.0
_Process = subprocess.Popen[bytes]
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
CANNOT_START = 127
"""Status of a GitError when git or the directory does not exist."""


class GitLimits(NamedTuple):
    """How much one call may write, and how much memory it may take."""

    answer_bytes: int = 256 << 20
    memory_bytes: int | None = None
    """For git and each program that it starts; what it only maps from packs does not count."""


class GitError(Exception):
    """A git call that failed; carries the command's words, its status (None: we stopped it) and what it wrote."""

    def __init__(
        self, words: tuple[str, ...], status: int | None, stderr: str, stdout: bytes = b"", how: str = ""
    ) -> None:
        how = how or _how(status)
        super().__init__(f"git {' '.join(words[:3])} {how}: {stderr.strip() or 'no message'}")
        self.words = words
        self.status = status
        self.stderr = stderr
        self.stdout = stdout

    @property
    def is_refusal(self) -> bool:
        """A hook of the other end, such as the git door's, said no; it will say no again."""
        return "hook declined" in self.stderr or b"hook declined" in self.stdout

    @property
    def is_machines(self) -> bool:
        """The machine was short of something, or we stopped git: this says nothing about the objects it worked on."""
        return self.status in (None, CANNOT_START) or self.status < 0 or bool(re.search(MACHINE_WORDS, self.stderr))


MACHINE_WORDS = (
    "No space left|[Qq]uota exceeded|Disk quota|Input/output error|Read-only file system|Too many open files"
    "|Cannot allocate|[Oo]ut of memory|Resource temporarily unavailable"
)
"""Error texts of the kernel in git's output, as a pattern."""


class TooMuch(GitError):
    """Git wrote more than `GitLimits.answer_bytes`, and was stopped."""

    def __init__(self, words: tuple[str, ...], most: int) -> None:
        super().__init__(words, None, "stopped there", how=f"had over {most >> 20} MiB to say")


def _how(status: int | None) -> str:
    if status is None:
        return "ran out of time"
    return f"was ended by signal {-status}" if status < 0 else f"ended with {status}"


class Git:
    """Git calls on one directory (a clone or a bare repository). Instances never change and hold no process."""

    def __init__(
        self,
        directory: str,
        person: Person | None = None,
        env: dict[str, str] | None = None,
        identity: Identity = OURS,
        limits: GitLimits = GitLimits(),  # noqa: B008 - it never changes
    ) -> None:
        """`identity` is whose rights git has: a clone's own configuration may name programs."""
        self.directory = directory
        self._identity = identity
        self._limits = limits
        self._end = math.inf
        # A directory that is no repository must not make git look in those above it.
        ceiling = {"GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.abspath(directory))}
        self._env = safe_environment(person) | ceiling | (env or {})

    def __call__(self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS) -> str:
        """Run `git words…` and give its stdout without the last newline. Raises GitError."""
        return self.raw(*words, stdin=stdin, timeout=timeout).decode(errors="replace").removesuffix("\n")

    def raw(self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS) -> bytes:
        """The same, as the bytes that git wrote. Raises GitError, and TooMuch for an answer beyond the limit."""
        answer = bytearray()
        with contextlib.closing(self.pieces(*words, stdin=stdin, timeout=timeout)) as pieces:
            try:
                for part in pieces:
                    answer += part
                    if len(answer) > self._limits.answer_bytes:
                        raise TooMuch(words, self._limits.answer_bytes)
            except GitError as error:
                error.stdout = bytes(answer)
                raise
        return bytes(answer)

    def ok(self, *words: str) -> bool:
        """True when the call succeeds, False when it ends with 1. Raises GitError for anything else."""
        try:
            self.raw(*words)
        except GitError as error:
            if error.status == 1:
                return False
            raise
        return True

    def pieces(
        self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> Generator[bytes, None, None]:
        """The answer as it comes, however long it is. Close it. Raises GitError, also at its end."""
        began, complaints = time.monotonic(), bytearray()
        end = min(began + timeout, self._end)
        if end <= began:  # a quick call would otherwise answer before anyone looks at the clock
            raise GitError(words, None, "not started, the time for all calls is used up")
        process = self._start(words, stdin)
        try:
            for part, is_answer in _read(process, end):
                if is_answer:
                    yield part
                    continue
                complaints += part
                if len(complaints) > self._limits.answer_bytes:
                    raise TooMuch(words, self._limits.answer_bytes)
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise GitError(words, None, f"stopped after {end - began:g} s") from None
        finally:
            _end(process)
        if process.returncode:
            raise GitError(words, process.returncode, complaints.decode(errors="replace"))

    def _start(self, words: tuple[str, ...], stdin: bytes | None) -> _Process:
        most = self._limits.memory_bytes
        limited = ("prlimit", f"--data={most}:") if most is not None else ()
        # What git reads is a file in memory, so that writing never waits for reading.
        with open(os.memfd_create("stdin"), "w+b") as asked:
            asked.write(stdin or b"")
            asked.seek(0)
            try:
                with self._identity.acting():  # it may be alone in being allowed into the directory
                    return subprocess.Popen(
                        [*limited, "git", *words[:1], *DRIVERS_OFF.get(words[0] if words else "", ()), *words[1:]],
                        cwd=self.directory,
                        env=self._env,
                        stdin=asked,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        start_new_session=True,
                        **self._identity.for_child,
                    )
            except (OSError, ValueError) as error:  # no git, no such directory, or a word that no program can be given
                why = f"cannot be started in {self.directory}: {getattr(error, 'strerror', None) or error}"
                raise GitError(words, CANNOT_START, why) from error

    def within(self, seconds: float) -> Git:
        """The same git; all its calls together share this time limit, besides their own."""
        return self._with(_end=min(time.monotonic() + seconds, self._end))

    def afresh(self, seconds: float) -> Git:
        """The same git with its time limit started afresh, for callers that look repeatedly."""
        return self._with(_end=time.monotonic() + seconds)

    def saying_at_most(self, answer_bytes: int) -> Git:
        """The same git with this limit on the size of an answer."""
        return self._with(_limits=self._limits._replace(answer_bytes=answer_bytes))

    def with_env(self, **env: str) -> Git:
        return self._with(_env=self._env | env)

    def _with(self, **changed: object) -> Git:
        other = copy.copy(self)
        vars(other).update(changed)
        return other


def _end(process: _Process) -> None:
    if process.returncode is None:
        # The whole session; what left it may keep our pipes open, so nobody waits for that.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()


def _read(process: _Process, end: float) -> Iterator[tuple[bytes, bool]]:
    """What git writes until both pipes are closed, each part with whether it is from stdout. Raises TimeoutExpired."""
    with selectors.DefaultSelector() as ready:
        for pipe in filter(None, (process.stdout, process.stderr)):
            ready.register(pipe, selectors.EVENT_READ, pipe is process.stdout)
        while ready.get_map():
            found = ready.select(max(0.0, end - time.monotonic()))
            if not found:
                raise subprocess.TimeoutExpired("git", 0)
            for key, _ in found:
                part = os.read(key.fd, 1 << 16)
                if part:
                    yield part, key.data
                else:
                    ready.unregister(key.fileobj)


def resolve_commit(git: Git, ref: str) -> str | None:
    """The full sha that `ref` names, or None when it names no commit. `ref` was checked by its caller."""
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except GitError as error:
        if error.status == 1 or "bad object" in error.stderr or "fatal: Needed" in error.stderr:
            return None
        raise
