"""One way to call git: arguments as a list, no hooks, no prompts, no lazy fetch, no other transport than files
and git://, and a time limit. Agent text never becomes an option: callers put it behind `--end-of-options`."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import NamedTuple

SAFE_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.attributesFile", "/dev/null"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.quotePath", "false"),
    ("commit.gpgSign", "false"),
    ("diff.external", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),
    ("protocol.git.allow", "always"),
    ("safe.directory", "*"),
    ("init.defaultBranch", "main"),
)
"""Settings of ours that win over any repository's own configuration."""

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

    def __init__(self, directory: str, person: Person | None = None, env: dict[str, str] | None = None) -> None:
        self.directory = directory
        self._env = safe_environment(person) | (env or {})

    def __call__(self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS) -> str:
        """Run `git words…` and give its stdout without the last newline. Raises GitError."""
        return self.raw(*words, stdin=stdin, timeout=timeout).decode(errors="replace").removesuffix("\n")

    def raw(self, *words: str, stdin: bytes | None = None, timeout: float = TIMEOUT_SECONDS) -> bytes:
        """The same, as the bytes that git wrote."""
        process = subprocess.Popen(
            ["git", *words],
            cwd=self.directory,
            env=self._env,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise GitError(words, None, f"stopped after {timeout:g} s") from None
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
        copy = Git(self.directory)
        copy._env = self._env | env
        return copy


def safe_environment(person: Person | None = None) -> dict[str, str]:
    """The whole environment of a git call: nothing of the caller's but PATH and LANG."""
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
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
