"""For all tests: hypothesis judges what is found, not how long a busy machine took to find it; and Ctrl-C works as on
a terminal, also where the tests were started in the background of a shell, which has its children ignore it."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("minifram", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.load_profile("minifram")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests run one after another when the heavy ones are shared out (`--dist loadgroup`): those of a file, which
    share what they made, and all that have containers, which share a user."""
    for item in items:
        file = item.nodeid.partition("::")[0]
        contained = file.startswith(("tests/sealed/", "tests/host/test_container"))
        item.add_marker(pytest.mark.xdist_group("containers" if contained else file))
