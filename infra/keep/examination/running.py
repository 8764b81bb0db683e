"""Runs of pytest on a checkout, as the examiner's user: with the image's Python, in a session of its own, with limits.

What pytest does comes over a pipe from a plugin of ours (`inside/`). Pytest's own words are for the log."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from infra.keep.services.children import KEEPS_GIT
from infra.keep.services.processes import how_it_ended
from infra.keep.verdicts.findings import ANSWER_BYTES, FAILED, SKIPPED, Run, run_of
from infra.shared.text import plain

INSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside")
MANY_FILES = 20
"""Starting workers takes seconds, which only many tests win back."""
MOST_RETRIED = 3
"""Failed tests that are run once more. A busy machine or a dice in a test must not cost a version."""
MARKS = "not heavy"
"""Which tests run."""
_ENDS_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]
_ENDED, _FAILURES, _NOTHING = 0, 1, 5
"""pytest's exit statuses: all passed, some failed, nothing was collected."""


def packages_of(python: str) -> str:
    """Where the environment of this interpreter has what was installed into it; empty for the image's own, and where we
    may not look."""
    found = f"{os.path.dirname(os.path.dirname(python))}/lib/python{_VERSION}/site-packages"
    return found if python != sys.executable and os.access(found, os.R_OK | os.X_OK) else ""


_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def collect(checkout: str, files: Sequence[str], scratch: str, seconds: float, marks: str = MARKS) -> Run:
    """What pytest collects from these files; tests that do not run here too, if `marks` says so. Raises OSError."""
    there = [path for path in files if os.path.isfile(f"{checkout}/{path}")]
    return _pytest(checkout, ["--collect-only", "-m", marks, *there], scratch, seconds) if there else Run()


def run(checkout: str, files: Sequence[str], scratch: str, seconds: float) -> Run:
    """The tests in these files; a few that failed are run once more, alone. Raises OSError."""
    if not files:
        return Run()
    end = time.monotonic() + seconds
    cores = os.cpu_count() or 1
    shares = len(files) >= MANY_FILES and cores > 1 and importlib.util.find_spec("xdist") is not None
    first = _pytest(checkout, [*(["-n", str(cores)] if shares else []), *files], scratch, seconds)
    failed = first.failed()
    if first.trouble or not 0 < len(failed) <= MOST_RETRIED:
        return first
    second = _pytest(checkout, failed, scratch, max(1.0, end - time.monotonic()))
    again = tuple(id for id in failed if second.outcomes.get(id) == "passed") if not second.trouble else ()
    failures = {id: text for id, text in first.failures.items() if id not in again}
    return Run(first.collected, first.outcomes, first.broken, failures, "", again)


def ended_there(checkout: str, runs: Sequence[Run], known: Run, scratch: str, seconds: float) -> dict[str, str]:
    """How tests that did not pass end in this checkout, as far as they are there. Raises OSError."""
    asked = {id for run in runs for id, outcome in run.outcomes.items() if outcome in (FAILED, SKIPPED)}
    ids = sorted(asked & set(known.collected))
    files = list(dict.fromkeys(id.partition("::")[0] for id in ids))
    return _pytest(checkout, ids if len(ids) < MANY_FILES else files, scratch, seconds).outcomes if ids else {}


def _pytest(checkout: str, words: Sequence[str], scratch: str, seconds: float) -> Run:
    options = ["-q", "--color=no", "--rootdir=.", "-p", "no:cacheprovider", "-p", "minifram_report", "-m", MARKS]
    options += ["-o", "tmp_path_retention_policy=failed"]  # what tests leave takes memory
    said, late = bytearray(), False
    # A pipe, because what is written to it cannot be taken back by what runs later.
    read_end, write_end = os.pipe()
    reader = threading.Thread(target=_read, args=(read_end, said), daemon=True)
    reader.start()
    try:
        with open(f"{scratch}/pytest.log", "ab") as log:
            process = subprocess.Popen(
                [*_ENDS_WITH_US, sys.executable, "-s", "-P", "-m", "pytest", *options, *words],
                cwd=checkout,
                env=_environment(scratch, write_end),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(write_end,),
            )
    finally:
        os.close(write_end)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    reader.join(_DRAIN_SECONDS)
    lines = _lines(bytes(said))
    return run_of(lines, _trouble(lines, process.returncode, late, seconds, scratch))


_DRAIN_SECONDS = 1.0
"""A process that keeps the pipe open is not waited for; it is ended with the examination."""


def _read(pipe: int, said: bytearray) -> None:
    with open(pipe, "rb", 0) as file:
        while len(said) <= ANSWER_BYTES and (part := file.read(1 << 16)):
            said += part


def _trouble(lines: list[Any], status: int, late: bool, seconds: float, scratch: str) -> str:
    if late:
        return f"they were ended after {seconds:.0f} s"
    ended = [line["ended"] for line in lines if isinstance(line, dict) and isinstance(line.get("ended"), int)]
    if status in (_ENDED, _FAILURES, _NOTHING) and ended[-1:] == [status]:
        return ""
    if any(isinstance(line, dict) and "broken" in line for line in lines):
        return ""  # the file's own line says so
    return f"pytest: {how_it_ended(status)}. Its last output: {_last_words(scratch)}"


def _last_words(scratch: str) -> str:
    try:
        with open(f"{scratch}/pytest.log", "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 600))
            text = log.read().decode(errors="replace").strip()
    except OSError:
        return "none"
    return plain(text)


def _lines(said: bytes) -> list[Any]:
    lines = []
    for line in said.split(b"\n"):
        try:
            lines.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return lines


def _environment(scratch: str, report: int) -> dict[str, str]:
    """The whole of it: what is judged depends on nothing of the watcher's, nor of the cell's."""
    tools = os.path.dirname(sys.executable)
    marked = {name: os.environ[name] for name in (KEEPS_GIT, "MINIFRAM_PACKAGES") if name in os.environ}
    return marked | {
        "PATH": f"{tools}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": scratch,
        "TMPDIR": scratch,
        "PYTHONPATH": INSIDE,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "PIP_CONFIG_FILE": "/dev/null",
        "MINIFRAM_REPORT": str(report),
    }
