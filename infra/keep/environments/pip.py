"""pip, the keep's own copy, as a process with limits: on its time, the disk it may fill, and what is kept of its
output, from which it also tells whether the requirements or the machine are to blame."""

from __future__ import annotations

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

from infra.shared.safe_files import Below

LOG, OUTPUT = "pip.log", "pip.out"
OUTPUT_BYTES = 256 * 1024
LOOK_SECONDS = 0.25
"""The free space is looked at so often."""

_OPTIONS = ("--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-color")
"""pip's own cache is not used: it keeps no list of what an index has, so nothing is found in it without a network."""
_BOTH = ("--progress-bar=off", "--only-binary=:all:")


class PipFailed(Exception):
    """The text is pip's first error, or how it ended."""

    def __init__(self, error: str, output: str, outage: bool) -> None:
        super().__init__(error)
        self.output = output
        self.outage = outage


class PipLimits(NamedTuple):
    until: float
    """Monotonic."""
    disk: str
    free_bytes: int
    """pip is ended when the disk that `disk` lies on has less."""


def download_words(requirements: str, hashed: bool, into: str, index: str = "") -> list[str]:
    """Fetch the wheels from wherever the requirements say, else from `index`, else from pip's own; those that are in
    `into` by their hash are not fetched."""
    asked = [*_BOTH, "--retries=2", "--timeout=15", f"--dest={into}", f"--requirement={requirements}"]
    asked += [f"--index-url={index}"] if index else []
    return [*_OPTIONS, "download", *asked, *(["--require-hashes"] if hashed else [])]


def install_words(requirements: str, hashed: bool, wheels: str, interpreter: str) -> list[str]:
    """Install from the directory `wheels` alone, into the environment of `interpreter`."""
    asked = [*_BOTH, "--no-index", f"--find-links={wheels}", "--no-warn-script-location", "--root-user-action=ignore"]
    asked += ["--compile", f"--requirement={requirements}", *(["--require-hashes"] if hashed else [])]
    return [*_OPTIONS, f"--python={interpreter}", "install", *asked]


def run(words: Sequence[str], environ: Mapping[str, str], directory: str, limits: PipLimits) -> None:
    """Raises PipFailed, and OSError when it cannot be started; no process of it is left then."""
    files = Below(directory)
    files.unlink(LOG)  # a new one for each run: only the log says why an index was passed over
    with open(f"{directory}/{OUTPUT}", "wb") as output_file:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "pip", f"--log={directory}/{LOG}", *words],
            cwd=directory,
            env={name: value for name, value in environ.items() if not name.startswith("PYTHON")},
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        problem = _until_over(process.pid, limits)
    finally:
        # Reaped last: until then no other process can have its pid.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    output = files.tail(OUTPUT, OUTPUT_BYTES).decode(errors="replace")
    if problem:
        raise PipFailed(problem, output, outage=True)
    if process.returncode:
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        error = next((line for line in output.splitlines() if line.startswith("ERROR: ")), f"pip ended with {how}")
        outage = process.returncode < 0 or is_outage(output, _passed_over(files))
        raise PipFailed(error.removeprefix("ERROR: "), output, outage)


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
    """Whether the same requirements may be installable at another time, as far as pip's output shows.

    `passed_over` holds the lines of its log about pages that it could not get."""
    if _OUT_OF_SPACE.search(output):
        return True
    return not _TO_BLAME.search(output) and bool(_AWAY.search(output) or _AWAY.search(passed_over))


def _passed_over(files: Below) -> str:
    """Only these lines: the rest of the log names faults of the requirements in other words."""
    lines = files.tail(LOG, OUTPUT_BYTES).decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if "Could not fetch URL" in line)


def is_short_of_space(directory: str, free_bytes: int) -> bool:
    """Raises OSError."""
    return shutil.disk_usage(directory).free < free_bytes


def _until_over(pid: int, limits: PipLimits) -> str:
    """Wait until it ends; why it must not go on, or nothing."""
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        while True:
            if time.monotonic() >= limits.until:
                return "it took longer than it may (ten minutes)"
            if is_short_of_space(limits.disk, limits.free_bytes):
                return f"fewer than {limits.free_bytes} bytes are free in {limits.disk}; make room"
            if poll.poll(LOOK_SECONDS * 1000):
                return ""
    finally:
        os.close(pidfd)
