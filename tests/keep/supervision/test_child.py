"""A program that works for the watcher: what it says is kept, too much of it ends it, and nothing of it stays."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator

import pytest

from infra.keep.services.children import Child

WRITES_FOR_EVER = "while True: print('x' * 4096)"
LEAVES_A_CHILD = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.forget()


def started(children: list[Child], program: str, output_bytes: int = 1 << 16) -> Child:
    child = Child([sys.executable, "-c", program], dict(os.environ), output_bytes)
    children.append(child)
    return child


def wait(child: Child) -> None:
    poll = select.poll()
    poll.register(child.pidfd, select.POLLIN)
    while not child.is_over():
        poll.poll(50)


def test_what_it_said_and_how_it_ended_are_known(children: list[Child]) -> None:
    """Also after its end, until it is forgotten."""
    child = started(children, "print('done'); raise SystemExit(3)")
    wait(child)
    assert (child.end(), child.said()) == (3, b"done\n")


@pytest.mark.fault("F59")
def test_one_that_says_too_much_is_killed(children: list[Child]) -> None:
    """The memory that its output takes has a bound."""
    child = started(children, WRITES_FOR_EVER, 1 << 12)
    wait(child)
    assert child.end() == -signal.SIGKILL
    assert len(child.said()) == 1 << 12


def test_what_it_started_ends_with_it(children: list[Child]) -> None:
    """All of its session's group."""
    child = started(children, LEAVES_A_CHILD)
    wait(child)
    left = os.pidfd_open(int(child.said()))
    child.end()
    poll = select.poll()
    poll.register(left, select.POLLIN)
    assert poll.poll(10_000)
    os.close(left)
