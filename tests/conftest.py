"""For all tests: hypothesis judges what is found, not how long a busy machine took to find it; and Ctrl-C works as on
a terminal, also where the tests were started in the background of a shell, which has its children ignore it."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("minifram", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.load_profile("minifram")

LONG = (
    "tests/sealed/test_upgrade.py",
    "tests/host/test_container_upgrade.py",
    "tests/sealed/test_life.py",
    "tests/sealed/test_seal.py",
    "tests/whole/",
    "tests/host/test_container_up.py",
    "tests/faults/",
    "tests/sealed/",
    "tests/keep/supervision/",
    "tests/keep/rehearsal/",
)
"""Where a file, or one test of it, takes half a minute or more; the longest first. The heavy tests are shared out by
file, and others a few at a time: what is long begins early, so that the last worker is not alone with it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the order of `LONG`, then all others as they come."""
    items.sort(key=lambda item: next((at for at, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG)))
