"""Calls of podman, each a child process with a time limit; what it says on stderr comes back with its status.

Nothing of the PM's environment is handed on but what podman needs to find its own places: no key, no address of another
podman to talk to instead, and of all configuration of containers our own empty file alone (containers.conf(5))."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from host.errors import CommandError
from infra.shared.exit_codes import Exit
from infra.shared.paths import ROOT

HANDED_ON = frozenset(
    [
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR"),
        *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS"),
        *("CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE"),
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

CONFIGURATION = f"{ROOT}/podman/containers.conf"
CALL_SECONDS = 60.0
SAID_CHARS = 2000


class PodmanError(CommandError):
    """podman, or a program that works for it, did not do what it was asked; carries what it said."""

    def __init__(self, words: tuple[str, ...], status: int, said: str) -> None:
        self.said = said.strip()
        shown = self.said[-SAID_CHARS:] or "it gave no reason"
        text = f"'{' '.join(words[:3])} …' ended with {status}: {shown}; 'minifram doctor' checks podman"
        super().__init__(Exit.FAILURE, text)


class Podman(NamedTuple):
    """The podman of this machine, ready to be called."""

    program: str
    environ: dict[str, str]
    words: tuple[str, ...] = ()
    """Global options, before every verb."""

    def __call__(self, *words: str, seconds: float = CALL_SECONDS, merged: bool = False) -> str:
        """What it prints, without the last newline. Raises PodmanError."""
        return call((self.program, *self.words, *words), self.environ, seconds, merged=merged).removesuffix("\n")

    def json(self, *words: str) -> Any:
        """What it prints, parsed. Raises PodmanError."""
        return json.loads(self(*words))


def call(
    words: tuple[str, ...],
    environ: Mapping[str, str],
    seconds: float = CALL_SECONDS,
    merged: bool = False,
    ends_with_us: bool = False,
) -> str:
    """What the program prints, with `merged` also what it says on stderr. Raises PodmanError, also when it takes too
    long or is not there.

    It gets a session of its own: Ctrl-C ends the waiting, never a podman in the middle of a change, unless it
    `ends_with_us`."""
    try:
        process = subprocess.Popen(
            words,
            cwd="/",
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise PodmanError(words, 127, f"{words[0]} cannot be run: {error}") from None
    with process:
        try:
            out, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            raise PodmanError(words, 124, f"it has not ended within {seconds:g} s") from None
        except BaseException:
            if ends_with_us:
                _end(process)
            raise
    if process.returncode != 0:
        raise PodmanError(words, process.returncode, (said or out).decode(errors="replace"))
    return out.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started in its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.communicate(timeout=5)
            return


def environment(environ: Mapping[str, str], fetching: bool = False) -> dict[str, str]:
    """What of the PM's environment podman gets; with `fetching`, also what says how to reach the outside."""
    kept = {name: value for name, value in environ.items() if name in HANDED_ON}
    if fetching:
        kept |= {name: value for name, value in environ.items() if name in FETCHING or name.startswith("PIP_")}
    # iproute2, mount and the like lie in sbin, which an ordinary user's PATH may lack.
    kept["PATH"] = kept.get("PATH", "/usr/local/bin:/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
    # podman is a Go program that ends before its garbage is worth collecting: a tenth of a call's processor time.
    return {"LANG": "C.UTF-8", "GOGC": "800"} | kept | {"CONTAINERS_CONF": CONFIGURATION}
