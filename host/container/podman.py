"""Calls of podman, each a child process with a time limit; what it says on stderr comes back with its status.

Nothing of the PM's environment is handed on but what podman needs to find its own places: no key, and no address
of another podman to talk to instead."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from host.display import Say
from host.errors import CommandError
from infra.shared.exit_codes import Exit

HANDED_ON = frozenset(
    [
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR"),
        *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS"),
        *("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE"),
        *("STORAGE_DRIVER", "STORAGE_OPTS"),
    ]
)
FETCHING = frozenset(
    [
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "APT_CONFIG"),
    ]
)
"""Beside these, what a program needs that fetches something."""

PAUSE_LOST = "could not find any running process"
"""podman's words when every container whose user namespace it could join was killed. `podman system migrate` makes a
new one; newer releases of podman do so by themselves (its pull request 27604)."""
CALL_SECONDS = 60.0
SAID_CHARS = 2000
TELL_SECONDS = 10.0
"""How often a long piece of work shows that it goes on."""


class PodmanError(CommandError):
    """podman, or a program that works for it, did not do what it was asked; carries what it said."""

    def __init__(self, words: tuple[str, ...], status: int, said: str) -> None:
        self.words, self.status, self.said = words, status, said.strip()
        shown = self.said[-SAID_CHARS:] or "it gave no reason"
        text = f"'{' '.join(words[:3])} …' ended with {status}: {shown}; 'minifram doctor' checks podman"
        super().__init__(Exit.FAILURE, text)


class Podman(NamedTuple):
    """The podman of this machine, ready to be called."""

    program: str
    environ: dict[str, str]
    words: tuple[str, ...] = ()
    """Global options, before every verb."""

    def __call__(self, *words: str, stdin: bytes = b"", seconds: float = CALL_SECONDS) -> str:
        """What it prints, without the last newline. Raises PodmanError."""
        return self._call(words, stdin, seconds).removesuffix("\n")

    def everything(self, *words: str) -> str:
        """What it prints on both streams, in order. Raises PodmanError."""
        return self._call(words, merged=True)

    def json(self, *words: str) -> Any:
        """What it prints, parsed. Raises PodmanError, also for what is not JSON."""
        said = self(*words)
        try:
            return json.loads(said)
        except ValueError as error:
            raise PodmanError(("podman", *words), 0, f"not JSON ({error}): {said[:200]!r}") from None

    def _call(
        self, words: tuple[str, ...], stdin: bytes = b"", seconds: float = CALL_SECONDS, merged: bool = False
    ) -> str:
        command = (self.program, *self.words, *words)
        try:
            return call(command, self.environ, stdin, seconds, merged=merged)
        except PodmanError as error:
            if merged or PAUSE_LOST not in error.said:  # merged: a container's own words may be among them
                raise
        # All of this user's containers were killed, and podman's runtime directory was kept: it is not on a tmpfs.
        # `system migrate` stops containers, so nobody may be between its failure and a start that succeeded.
        with _locked(self.environ):
            try:
                return call(command, self.environ, stdin, seconds, merged=merged)
            except PodmanError as error:
                if PAUSE_LOST not in error.said:
                    raise
            call((self.program, *self.words, "system", "migrate"), self.environ)
            return call(command, self.environ, stdin, seconds, merged=merged)


@contextlib.contextmanager
def _locked(environ: Mapping[str, str]) -> Iterator[None]:
    directory = os.open(environ.get("HOME", "/"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def call(
    words: tuple[str, ...],
    environ: Mapping[str, str],
    stdin: bytes = b"",
    seconds: float = CALL_SECONDS,
    meanwhile: Callable[[float], None] | None = None,
    merged: bool = False,
    tell_seconds: float = TELL_SECONDS,
) -> str:
    """What the program prints, with `merged` also what it says on stderr.

    Raises PodmanError, also when it takes too long or is not there.
    It gets a session of its own: Ctrl-C ends the waiting, never a podman in the middle of a change. A long piece of
    work, one with `meanwhile` (called with the seconds so far), ends with us instead."""
    try:
        process = subprocess.Popen(
            words,
            cwd="/",
            env=dict(environ),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise PodmanError(words, 127, f"{words[0]} cannot be run: {error}") from None
    began, given = time.monotonic(), stdin or None
    with process:
        try:
            while True:
                left = began + seconds - time.monotonic()
                try:
                    out, said = process.communicate(given, min(left, tell_seconds) if meanwhile else left)
                    break
                except subprocess.TimeoutExpired:
                    given, spent = None, time.monotonic() - began
                    if meanwhile is None or spent >= seconds:
                        raise
                    meanwhile(spent)
        except subprocess.TimeoutExpired:
            _end(process)
            raise PodmanError(words, 124, f"it has not ended within {seconds:g} s") from None
        except BaseException:
            if meanwhile:
                _end(process)
            raise
    if process.returncode != 0:
        raise PodmanError(words, process.returncode, (said or out).decode(errors="replace"))
    return out.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started in its session, politely, then firmly."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.communicate(timeout=5)
            return
        except subprocess.TimeoutExpired:
            continue


def telling(say: Say, what: str) -> Callable[[float], None]:
    """For `meanwhile`: the PM sees that it goes on."""
    return lambda seconds: say(f"still {what}, {seconds:.0f} s so far")


def environment(environ: Mapping[str, str], fetching: bool = False) -> dict[str, str]:
    """What of the PM's environment podman gets; with `fetching`, also what says how to reach the outside."""
    kept = {name: value for name, value in environ.items() if name in HANDED_ON}
    if fetching:
        kept |= {name: value for name, value in environ.items() if name in FETCHING or name.startswith("PIP_")}
    # iproute2, mount and the like lie in sbin, which an ordinary user's PATH may lack.
    kept["PATH"] = kept.get("PATH", "/usr/local/bin:/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
    # podman is a Go program that ends before its garbage is worth collecting: a tenth of a call's processor time.
    return {"LANG": "C.UTF-8", "GOGC": "800"} | kept
