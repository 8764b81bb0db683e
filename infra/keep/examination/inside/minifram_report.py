"""A pytest plugin of the examination's: writes what pytest collects, and how each test ends, to a descriptor as lines
of JSON. It lies in a folder of its own, because `infra` is the candidate's where it runs."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

VARIABLE, PACKAGES, ONLY = "MINIFRAM_REPORT", "MINIFRAM_PACKAGES", "MINIFRAM_ONLY"
TEXT_CHARS = 3000


if os.environ.get(PACKAGES):
    # What the version has installed of its own comes after all that the image has.
    sys.path.append(os.environ[PACKAGES])


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the controller of pytest-xdist hears of everything
        config.pluginmanager.register(_Reporter(int(os.environ.pop(VARIABLE))))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if ONLY in os.environ:
        with open(os.environ[ONLY], encoding="utf-8") as file:
            wanted = set(json.load(file))
        items[:] = [item for item in items if item.nodeid in wanted]


def _text(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What was raised, and where, before the end of the traceback: whoever cuts it keeps what matters."""
    crash = getattr(report.longrepr, "reprcrash", None)
    raised = f"{crash.path}:{crash.lineno}: {crash.message}\n\n"[: TEXT_CHARS // 3] if crash else ""
    return raised + str(report.longrepr)[len(raised) - TEXT_CHARS :]


class _Reporter:
    def __init__(self, descriptor: int) -> None:
        self._out = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")
        self._collected = False

    def _say(self, **fact: Any) -> None:
        self._out.write(json.dumps(fact) + "\n")
        self._out.flush()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        marks = (("heavy " if item.get_closest_marker("heavy") else "") for item in session.items)
        self._tell_collected([f"{mark}{item.nodeid}" for mark, item in zip(marks, session.items, strict=True)])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._tell_collected(list(ids))

    def _tell_collected(self, ids: list[str]) -> None:
        if ids and not self._collected:
            self._collected = True
            self._say(collected=ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(broken=report.nodeid, text=_text(report))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        expected = hasattr(report, "wasxfail") and report.skipped
        outcome = "passed" if expected else report.outcome
        self._say(test=report.nodeid, outcome=outcome, text=_text(report) if report.failed else "")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._say(ended=int(exitstatus))
