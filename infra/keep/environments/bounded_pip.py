"""pip, the keep's own copy, as a process with bounds: on its time, on the disk it may fill, on what is kept of its
words. It also tells from these whether the requirements or the machine are to blame."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LOG = "pip.log"
OUTPUT_BYTES = 256 * 1024
LOOK_SECONDS = 0.25
"""The free space is looked at so often."""
GRACE_SECONDS = 5.0
"""Between the end of its words and its own."""

_ALWAYS = ("--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-color")
"""pip's own cache is not used: it keeps no list of what an index has, so nothing is found in it without a network."""
_BOTH = ("--progress-bar=off", "--only-binary=:all:")


class PipFailed(Exception):
    """The text is its first error, or says how it ended."""

    def __init__(self, error: str, output: str, outage: bool) -> None:
        super().__init__(error)
        self.output = output
        self.outage = outage


class Bounds(NamedTuple):
    until: float
    """Monotonic."""
    disk: str
    free_bytes: int
    """pip is ended when the disk that `disk` lies on has less."""


def download_words(requirements: str, hashed: bool, into: str) -> list[str]:
    """Fetch the wheels from wherever the requirements say; those that are in `into` by their hash are not fetched."""
    asked = [*_BOTH, "--retries=2", "--timeout=15", f"--dest={into}", f"--requirement={requirements}"]
    return [*_ALWAYS, "download", *asked, *(["--require-hashes"] if hashed else [])]


def install_words(requirements: str, hashed: bool, wheels: str, interpreter: str) -> list[str]:
    """Install from the directory `wheels` alone, into the environment of `interpreter`."""
    asked = [*_BOTH, "--no-index", f"--find-links={wheels}", "--no-warn-script-location", "--root-user-action=ignore"]
    asked += ["--compile", f"--requirement={requirements}", *(["--require-hashes"] if hashed else [])]
    return [*_ALWAYS, f"--python={interpreter}", "install", *asked]


def run(words: Sequence[str], environ: Mapping[str, str], directory: str, bounds: Bounds) -> None:
    """Raises PipFailed, and OSError when it cannot be started; no process of it is left then.

    Its log in `directory` is begun anew: that alone says why an index was passed over."""
    log = f"{directory}/{LOG}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(log)
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "pip", f"--log={log}", *words],
        cwd=directory,
        env={name: value for name, value in environ.items() if not name.startswith("PYTHON")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    grace = 0.0
    try:
        said, problem = _follow(process, bounds)
        grace = 0.0 if problem else GRACE_SECONDS
    finally:
        _end(process, grace)
    output = said.decode(errors="replace")
    if problem:
        raise PipFailed(problem, output, outage=True)
    if process.returncode:
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        told = next((line for line in output.splitlines() if line.startswith("ERROR: ")), f"pip ended with {how}")
        raise PipFailed(
            told.removeprefix("ERROR: "), output, process.returncode < 0 or is_outage(output, _passed_over(log))
        )


_OUT_OF_SPACE = re.compile(r"No space left on device|Disk quota exceeded|Errno (?:28|122)\b")
_TO_BLAME = re.compile(
    r"DO NOT MATCH THE HASHES|must have their versions pinned|Hashes are required in|ResolutionImpossible"
    r"|Invalid requirement|conflicting dependencies|not a supported wheel"
)
_AWAY = re.compile(
    r"Retrying \(Retry\(|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|NameResolutionError|Max retries"
    r"|ConnectionResetError|Connection aborted|ProtocolError|IncompleteRead|Name or service not known"
    r"|Temporary failure in name resolution|Network is unreachable|No route to host|Connection refused|timed out"
    r"|\b(?:429|50[0-4]) (?:Client|Server) Error|There was a problem confirming the ssl certificate|MemoryError"
    r"|Cannot allocate memory|can't start new thread"
)


def is_outage(output: str, passed_over: str = "") -> bool:
    """From pip's words, as well as they tell: whether the same requirements may be installable at another time.

    `passed_over` is what its log alone says of pages that it could not get."""
    if _OUT_OF_SPACE.search(output):
        return True
    return not _TO_BLAME.search(output) and bool(_AWAY.search(output) or _AWAY.search(passed_over))


def _passed_over(log: str) -> str:
    """Just these lines: the rest of the log has names of its own for what is the requirements' fault."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - OUTPUT_BYTES))
            lines = file.read(OUTPUT_BYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:  # it did not come so far
        return ""
    return "\n".join(line for line in lines if "Could not fetch URL" in line)


def is_short_of_space(directory: str, free_bytes: int) -> bool:
    """Raises OSError."""
    return shutil.disk_usage(directory).free < free_bytes


def _follow(process: subprocess.Popen[bytes], bounds: Bounds) -> tuple[bytes, str]:
    """The end of what it says until it closes its output, and why it must not go on, if so."""
    if process.stdout is None:
        raise AssertionError("unreachable: it was started with a pipe")
    said = b""
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while True:
        left = bounds.until - time.monotonic()
        if left <= 0:
            return said, "it took longer than it may (limits.install_seconds)"
        if is_short_of_space(bounds.disk, bounds.free_bytes):
            return said, f"less than {bounds.free_bytes} bytes are free in {bounds.disk}; make room"
        if poll.poll(min(left, LOOK_SECONDS) * 1000):
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                return said, ""
            said = (said + part)[-OUTPUT_BYTES:]


def _end(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """End it and all that it started. It is reaped last: until then no other process can have its number."""
    if process.stdout:
        process.stdout.close()
    ended = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.poll(grace_seconds * 1000)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ended)
