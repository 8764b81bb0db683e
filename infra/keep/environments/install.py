"""Install what a version's requirements name into an environment of its own, by the keep's pip from wheels alone.

The watcher runs this as the cell. Its status says how it went: 0, `Exit.FAILURE` when the requirements are to blame,
anything else when the machine or the index is. The first line that it prints says why, those behind it are pip's last.
A half-made environment is never used: its marker comes last, and the next install removes what has none."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterable
from http.client import HTTPException

from infra.keep.environments import choose
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted

FREE_BYTES = 512 * 1024 * 1024
"""On the disk before anything is installed; pip is ended when half of it is left."""
KEPT = 4
"""So many environments stay, the new one among them, besides those that are named to stay."""
MOST_ENTRIES = 1000
LOOK_SECONDS = 0.25
ASK_SECONDS = 15
LINES, LOG_BYTES = 20, 64 * 1024
PYPI = "https://pypi.org/simple/"
_INDEX = re.compile(rb"^\s*(?:-i|--(?:extra-)?index-url)[ =]\s*(\S+)", re.MULTILINE)
_OPTIONS = (
    *("--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-color"),
    *("--retries=2", f"--timeout={ASK_SECONDS}"),
)
_INSTALL = (
    *("install", "--only-binary=:all:", "--compile", "--progress-bar=off", "--no-warn-script-location"),
    "--root-user-action=ignore",
)


class NotInstalled(Exception):
    """Says why; `lines` are pip's last."""

    def __init__(self, why: str, lines: Iterable[str] = (), is_outage: bool = True) -> None:
        super().__init__(why)
        self.lines = lines
        self.is_outage = is_outage


def main(argv: list[str]) -> int:
    """The words: the agent's root, its environments, seconds, the copy of the commit, then copies of versions whose
    environments stay."""
    signal.signal(signal.SIGTERM, _leave)
    root, environments, seconds, copy, *others = argv
    try:
        install(Below(root), environments, copy, time.monotonic() + float(seconds), others)
    except NotInstalled as error:
        print(error, *error.lines, sep="\n")
        return Exit.TRY_AGAIN if error.is_outage else Exit.FAILURE
    except OSError as error:
        print(f"the environment cannot be made: {error}")
        return Exit.TRY_AGAIN
    return Exit.OK


def install(
    bot: Below, environments: str, copy: str, until: float, others: Iterable[str] = (), free_bytes: int = FREE_BYTES
) -> None:
    """Whole, or nothing new; `until` is monotonic. Raises NotInstalled and OSError."""
    wanted = choose.requirements_in(Below(copy), copy)
    path = choose.place(environments, wanted)
    bot.make_directory(environments, 0o700)
    if choose.is_whole(bot, path):
        return
    _remove_old(bot, environments, set(_places(environments, others)))
    _refuse_when_full(environments, free_bytes)
    try:
        # No packages of the keep's, and no pip: only what is named.
        venv.EnvBuilder(symlinks=True, with_pip=False).create(path)
        _pip(path, wanted, until, free_bytes // 2)
        os.sync()  # the marker is on the disk after all else
        write_whole(f"{path}/{choose.MARKER}", b"")
    except BaseException:
        bot.remove(path)
        raise


def _places(environments: str, copies: Iterable[str]) -> Iterable[str]:
    for copy in copies:
        with contextlib.suppress(OSError):
            yield choose.place(environments, choose.requirements_in(Below(copy), copy))


def _remove_old(bot: Below, environments: str, staying: set[str]) -> None:
    """What is not whole, and all but the newest. Raises OSError."""
    made = {}
    for name in bot.names(environments, MOST_ENTRIES):
        path = f"{environments}/{name}"
        marker = bot.status(f"{path}/{choose.MARKER}")
        made[path] = marker.st_mtime if marker and choose.is_whole(bot, path) else 0.0
    newest = sorted(made, key=lambda path: made[path], reverse=True)[: KEPT - 1]
    for path, at in made.items():
        if not at or path not in staying.union(newest):
            choose.forget(bot, path)  # first, so that one which is removed in part is never used
            bot.remove(path)


def _pip(path: str, wanted: bytes, until: float, free_bytes: int) -> None:
    """Into the environment at `path`, from a copy of the requirements in it. Raises NotInstalled and OSError."""
    index, temporary, output = os.environ.get("PIP_INDEX_URL", ""), f"{path}/.temporary", f"{path}/pip.log"
    os.mkdir(temporary)
    write_whole(f"{path}/requirements.txt", wanted)
    words = [*_OPTIONS, f"--python={choose.python_in(path)}", *_INSTALL, f"--requirement={path}/requirements.txt"]
    words += [f"--index-url={index}"] if index else []
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with open(output, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "pip", *words],
            cwd=temporary,
            env=environ | {"TMPDIR": temporary},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = None
        while status is None:
            if time.monotonic() >= until:
                raise NotInstalled("pip took longer than it may")
            _refuse_when_full(path, free_bytes)
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(LOOK_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    shutil.rmtree(temporary)
    if status:
        lines = redacted(Below(path).tail("pip.log", LOG_BYTES).decode(errors="replace")).splitlines()
        error = next((line for line in lines if line.startswith("ERROR: ")), f"pip ended with status {status}")
        indexes = [each.decode(errors="replace") for each in _INDEX.findall(wanted)] or [index or PYPI]
        raise NotInstalled(error, lines[-LINES:], status < 0 or any(map(is_away, indexes)))


def is_away(index: str) -> bool:
    """Whether this index cannot be asked, by one question: what pip says of it does not tell that from a package that
    is not there."""
    try:
        with urllib.request.urlopen(f"{index.rstrip('/')}/pip/", timeout=ASK_SECONDS):  # noqa: S310 - as the cell
            return False
    except urllib.error.HTTPError as error:
        return error.code >= 500
    except (OSError, HTTPException):
        return True
    except ValueError:  # it is no address
        return False


def _refuse_when_full(path: str, free_bytes: int) -> None:
    """Raises NotInstalled and OSError."""
    if shutil.disk_usage(path).free < free_bytes:
        raise NotInstalled(f"fewer than {free_bytes:,} bytes are free in {path}; make room")


def _leave(number: int, _frame: object) -> None:
    """Once: unwinding then ends pip and removes what is half made."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
