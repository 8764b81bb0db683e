"""For all tests: hypothesis judges what is found, not how long a busy machine took to find it; and Ctrl-C works as on
a terminal, also where the tests were started in the background of a shell, which has its children ignore it."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

# The one place that says how many examples are tried; `make test-long` asks for the second by --hypothesis-profile.
settings.register_profile("minifram", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.register_profile("long", parent=settings.get_profile("minifram"), max_examples=500)
settings.load_profile("minifram")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is too long for `make test` is too long for an examination of a version as well."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("heavy")
