"""A pytest plugin of the examination's: writes what pytest collects, and how each test ends, to a descriptor as lines
of JSON, and shares the tests among processes. It lies in a folder of its own, because `infra` is the candidate's where
it runs."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

VARIABLE, PACKAGES, ONLY = "MINIFRAM_REPORT", "MINIFRAM_PACKAGES", "MINIFRAM_ONLY"
WORKERS = "MINIFRAM_WORKERS"
TEXT_CHARS = 3000


if os.environ.get(PACKAGES):
    # What the version has installed of its own comes after all that the image has.
    sys.path.append(os.environ[PACKAGES])


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Reporter(int(os.environ.pop(VARIABLE))))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if ONLY in os.environ:
        with open(os.environ[ONLY], encoding="utf-8") as file:
            wanted = set(json.load(file))
        items[:] = [item for item in items if item.nodeid in wanted]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run them file by file in forks of this process, which has imported and collected all of them once. A test in
    which a fork ends is one that was collected and did not end."""
    if WORKERS not in os.environ or session.config.option.collectonly:
        return None
    files = [list(items) for _, items in itertools.groupby(session.items, key=lambda item: item.path)]
    # Whoever asks first has the directory of all temporary ones made anew.
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    numbers, feed = os.pipe()
    forks = []
    for _ in files[: int(os.environ[WORKERS])]:
        if not (pid := os.fork()):
            os.close(feed)
            _work(session, files, numbers)
        forks.append(pid)
    os.close(numbers)
    with contextlib.suppress(BrokenPipeError), open(feed, "wb", buffering=0) as file:  # no fork may be left
        for number in range(len(files)):
            file.write(number.to_bytes(4, "big"))
    session.testsfailed += sum(os.waitpid(pid, 0)[1] != 0 for pid in forks)
    return True


def _work(session: pytest.Session, files: Sequence[Sequence[pytest.Item]], numbers: int) -> NoReturn:
    """Run the files whose numbers are read, as long as there are any. A fixture lives on while another test follows."""
    taken = (file for number in iter(lambda: os.read(numbers, 4), b"") for file in files[int.from_bytes(number, "big")])
    try:
        test = next(taken, None)
        while test:
            following = next(taken, None)
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            test = following
        os._exit(session.testsfailed > 0)
    finally:
        os._exit(2)


def _text(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What was raised, and where, before the end of the traceback: whoever cuts it keeps what matters."""
    crash = getattr(report.longrepr, "reprcrash", None)
    raised = f"{crash.path}:{crash.lineno}: {crash.message}\n\n"[: TEXT_CHARS // 3] if crash else ""
    return raised + str(report.longrepr)[len(raised) - TEXT_CHARS :]


class _Reporter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def _say(self, **fact: Any) -> None:
        os.write(self._descriptor, json.dumps(fact).encode() + b"\n")  # at once: forks share where the next line goes

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        marks = (("heavy " if item.get_closest_marker("heavy") else "") for item in session.items)
        self._say(collected=[f"{mark}{item.nodeid}" for mark, item in zip(marks, session.items, strict=True)])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(broken=report.nodeid, text=_text(report))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        expected = hasattr(report, "wasxfail") and report.skipped
        outcome = "passed" if expected else report.outcome
        if outcome != "passed" or report.when == "teardown":  # a test in whose teardown its process ends has not passed
            self._say(test=report.nodeid, outcome=outcome, text=_text(report) if report.failed else "")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._say(ended=int(exitstatus))
