"""For all tests: hypothesis judges what is found, not how long a busy machine took to find it; and Ctrl-C works as on
a terminal, also where the tests were started in the background of a shell, which has its children ignore it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

# The one place that says how many examples are tried; `make test-long` asks for the second by --hypothesis-profile.
settings.register_profile(
    "minifram",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    max_examples=50,
    print_blob=True,
)
settings.register_profile("long", parent=settings.get_profile("minifram"), max_examples=500)
settings.load_profile("minifram")


LIGHT = ("tests/cell/", "tests/shared/")
LIGHT_SECONDS = 0.6
"""Of the processor, on a busy machine; alone it is half of that."""
_pythons: list[object] = []


def _note(event: str, given: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and "python" in str(given[:2]):
        _pythons.append(given[1])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", action="store_true", help="fail what every examination runs and is not light")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("budget"):
        sys.addaudithook(_note)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What the agent waits for at each change of itself starts no Python, and takes no third of a second."""
    _pythons.clear()
    before = os.times()
    found = yield
    took = sum(os.times()[:4]) - sum(before[:4])
    is_light = item.nodeid.startswith(LIGHT) and not item.get_closest_marker("heavy")
    if item.config.getoption("budget") and is_light and (_pythons or took > LIGHT_SECONDS):
        pytest.fail(f"mark it heavy: {took:.2f} s of processor, started {_pythons[:1]}")
    return found


LONGEST = ("tests/whole/test_demo.py::", "tests/sealed/test_seal.py::test_the_demo_runs_whole_in_the_container")
"""A minute or two, as each examines a version. They begin the share of a worker: at the end the others would wait."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end. To look for garbage in it, again and again, takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """What is too long for `make test` is too long for an examination of a version as well."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("heavy")
        if "user" in getattr(item, "fixturenames", ()):
            item.add_marker("contained")
    yield
    longest = [item for item in items if item.nodeid.startswith(LONGEST)]
    items[:] = [*longest, *(item for item in items if item not in longest)]
