"""One way to call git: arguments as a list, no hooks, no prompts, no lazy fetch, no other transport than files
and git://, and a time limit. Agent text never becomes an option: callers put it behind `--end-of-options`.

What cannot be switched off from here is what a repository's own configuration names under a name of its choice:
`filter.<name>.*` (run when files enter or leave a work tree: add, checkout, reset, status), `merge.<name>.driver`,
`remote.<name>.uploadpack` and `receivepack` (run by fetch and push), and `core.worktree`. So a call that touches a
work tree or a remote of somebody else's clone is made with that owner's rights and no more. Calls on a bare
repository whose configuration is ours (`host` looks it over) meet none of them, whatever its commits hold. The other
end of a fetch or push by path runs under its own repository's configuration, hooks included: that is the git door."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import NamedTuple

from infra.contract.identity import OURS, Identity

SAFE_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.attributesFile", "/dev/null"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.quotePath", "false"),
    # Others hold a ref's lock for moments; git's own patience of 0.1 s is short on a busy machine.
    ("core.filesRefLockTimeout", "2000"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.external", ""),  # makes a call that forgot --no-ext-diff fail instead of running a program
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    ("advice.graftFileDeprecated", "false"),  # that we read none, by GIT_GRAFT_FILE, would be remarked upon each time
    ("safe.directory", "*"),
    ("init.defaultBranch", "main"),
)
"""Settings of ours that win over any repository's own configuration."""

_DRIVERS_OFF = {
    "diff": ("--no-ext-diff", "--no-textconv"),
    "log": ("--no-ext-diff", "--no-textconv"),
    "show": ("--no-ext-diff", "--no-textconv"),
    "blame": ("--no-textconv",),
}
"""Commands that would run a program to show a change, and how each is told not to."""

TIMEOUT_SECONDS = 60.0


class Person(NamedTuple):
    """Who commits."""

    name: str
    email: str


AGENT = Person("minifram agent", "agent@minifram.invalid")
WATCHER = Person("minifram watcher", "watcher@minifram.invalid")


class GitError(Exception):
    """A git call that failed; carries the command's words, its status (None: out of time) and what it wrote."""

    def __init__(self, words: tuple[str, ...], status: int | None, stderr: str, stdout: bytes = b"") -> None:
        how = "ran out of time" if status is None else f"ended with {status}"
        super().__init__(f"git {' '.join(words[:3])} {how}: {stderr.strip() or 'no message'}")
        self.words = words
        self.status = status
        self.stderr = stderr
        self.stdout = stdout


class Git:
    """Git calls on one directory (a clone or a bare repository). Instances hold no state and no process."""

    def __init__(
        self,
        directory: str,
        person: Person | None = None,
        env: dict[str, str] | None = None,
        identity: Identity = OURS,
    ) -> None:
        """`identity` is whose rights git has: a clone's own configuration may name programs."""
        self.directory = directory
        self._identity = identity
        # A directory that is no repository must not make git go on looking in those above it.
        ceiling = {"GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.abspath(directory))}
        self._env = safe_environment(person) | ceiling | (env or {})

    def __call__(self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS) -> str:
        """Run `git words…` and give its stdout without the last newline. Raises GitError."""
        return self.raw(*words, stdin=stdin, timeout=timeout).decode(errors="replace").removesuffix("\n")

    def raw(self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS) -> bytes:
        """The same, as the bytes that git wrote."""
        try:
            with self._identity.acting():  # it may be alone in being allowed into the directory
                process = subprocess.Popen(
                    ["git", *_without_drivers(words)],
                    cwd=self.directory,
                    env=self._env,
                    stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    **self._identity.for_child,
                )
        except OSError as error:  # there is no git, or no such directory
            raise GitError(words, 127, f"cannot be started in {self.directory}: {error.strerror}") from error
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise GitError(words, None, f"stopped after {timeout:g} s") from None
        finally:
            if process.returncode is None:
                _end(process)
        if process.returncode:
            raise GitError(words, process.returncode, stderr.decode(errors="replace"), stdout)
        return stdout

    def ok(self, *words: str) -> bool:
        """True when the call succeeds, False when it ends with 1. Raises GitError for anything else."""
        try:
            self.raw(*words)
        except GitError as error:
            if error.status == 1:
                return False
            raise
        return True

    def with_env(self, **env: str) -> Git:
        copy = Git(self.directory, identity=self._identity)
        copy._env = self._env | env
        return copy


def _without_drivers(words: tuple[str, ...]) -> tuple[str, ...]:
    return words[:1] + _DRIVERS_OFF.get(words[0] if words else "", ()) + words[1:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and all in its session; whoever left that session may keep our pipes open, so nobody waits for them."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def safe_environment(person: Person | None = None) -> dict[str, str]:
    """The whole environment of a git call: nothing of the caller's but PATH and LANG."""
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "file:git",  # as a setting, a repository's own protocol.ext.allow would win
        "GIT_PROXY_COMMAND": "",  # as a setting, a repository's own core.gitProxy would win
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(len(SAFE_SETTINGS)),
    }
    for index, (key, value) in enumerate(SAFE_SETTINGS):
        env[f"GIT_CONFIG_KEY_{index}"] = key
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    if person:
        env |= {"GIT_AUTHOR_NAME": person.name, "GIT_AUTHOR_EMAIL": person.email}
        env |= {"GIT_COMMITTER_NAME": person.name, "GIT_COMMITTER_EMAIL": person.email}
    return env


def resolve_commit(git: Git, ref: str) -> str | None:
    """The full sha that `ref` names, or None when it names no commit. `ref` was checked by its caller."""
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except GitError as error:
        if error.status == 1 or "bad object" in error.stderr or "fatal: Needed" in error.stderr:
            return None
        raise
