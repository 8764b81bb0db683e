"""Runs of pytest on a checkout, as the examiner's user: with the image's Python, in a session of its own, with limits.

What pytest does is written to a file by a plugin of ours (`inside/`)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from infra.keep.services.children import KEEPS
from infra.keep.services.processes import how_it_ended
from infra.keep.verdicts.findings import ANSWER_BYTES, FAILED, PASSED, SKIPPED, Run, run_of
from infra.shared.text import plain

INSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside")
_SHARED = {"MINIFRAM_WORKERS": str((os.cpu_count() or 1) + 1)}
"""One more than there are processors: tests wait for processes."""
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


def collect(checkout: str, files: Sequence[str], scratch: str, seconds: float) -> tuple[str, ...]:
    """What pytest collects from these files, with what does not run here, as it says itself. Raises OSError."""
    return _pytest(checkout, ["--collect-only", "-m", "", *files], scratch, seconds).collected if files else ()


def run(checkout: str, files: Sequence[str], scratch: str, seconds: float) -> Run:
    """The tests in these files; a few that failed are run once more, alone. Raises OSError."""
    if not files:
        return Run()
    end = time.monotonic() + seconds
    # What fails is told by the run after it, so here no assert is rewritten.
    first = _pytest(checkout, ["--assert=plain", *files], scratch, seconds, _SHARED)
    failed = first.failed()
    if first.trouble or not failed:
        return first
    second = _pytest(checkout, failed[:MOST_RETRIED], scratch, max(1.0, end - time.monotonic()))
    passed = () if second.trouble or len(failed) > MOST_RETRIED else failed
    again = tuple(id for id in passed if second.outcomes.get(id) == PASSED)
    failures = {id: text for id, text in (first.failures | second.failures).items() if id not in again}
    return Run(first.collected, first.outcomes, first.broken, failures, "", again)


def ended_there(checkout: str, runs: Sequence[Run], scratch: str, seconds: float) -> Run:
    """How what did not pass in these runs ends in this checkout, if its tests are there. Raises OSError."""
    ids = [id for run in runs for id, outcome in run.outcomes.items() if outcome in (FAILED, SKIPPED)]
    files = [*(id.partition("::")[0] for id in ids), *(path for run in runs for path in run.broken)]
    files = [path for path in dict.fromkeys(files) if os.path.isfile(f"{checkout}/{path}")]
    if not files:
        return Run()
    with open(f"{scratch}/only.json", "w", encoding="utf-8") as only:
        json.dump(ids, only)
    return _pytest(checkout, files, scratch, seconds, {"MINIFRAM_ONLY": only.name})


def _pytest(
    checkout: str, words: Sequence[str], scratch: str, seconds: float, more: Mapping[str, str] = MappingProxyType({})
) -> Run:
    options = ["-q", "--color=no", "--rootdir=.", "-p", "no:cacheprovider", "-p", "minifram_report", "-m", MARKS]
    options += ["--continue-on-collection-errors"]  # one file that needs what the image lacks costs no other
    options += ["-o", "tmp_path_retention_policy=failed"]  # what tests leave takes memory
    options += ["--capture=sys"]  # by descriptors, forks would write into one another's
    options += [f"--basetemp={scratch}/b"]  # tests make sockets below it, and a socket's path is short
    command = [*_ENDS_WITH_US, sys.executable, "-s", "-P", "-m", "pytest", *options, *words]
    with tempfile.TemporaryFile(dir=scratch) as said, tempfile.TemporaryFile(dir=scratch) as log:
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env=_environment(scratch, said.fileno()) | dict(more),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(said.fileno(),),
        )
        late = ""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = f"they were ended after {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        lines = _lines(os.pread(said.fileno(), ANSWER_BYTES, 0))
        last_words = os.pread(log.fileno(), 600, max(0, os.fstat(log.fileno()).st_size - 600)).decode(errors="replace")
    return run_of(lines, late or _trouble(lines, process.returncode, plain(last_words.strip())))


def _trouble(lines: list[Any], status: int, last_words: str) -> str:
    ended = [line["ended"] for line in lines if isinstance(line, dict) and isinstance(line.get("ended"), int)]
    if status in (_ENDED, _FAILURES, _NOTHING) and ended[-1:] == [status]:
        return ""
    if any(isinstance(line, dict) and "broken" in line for line in lines):
        return ""  # the file's own line says so
    return f"pytest: {how_it_ended(status)}. Its last output: {last_words}"


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
    marked = {name: os.environ[name] for name in (KEEPS, "MINIFRAM_PACKAGES") if name in os.environ}
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
