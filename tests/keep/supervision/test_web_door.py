"""The web door in the hands of a real watcher: on demand, and across a watcher that is killed; and the end of work that
has read the web."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil
import pytest

from infra.shared.door import connect
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
ASKED = b'{"do":"fetch","url":"http://10.0.0.1/"}\n'


def refused(agent: Agent) -> bool:
    """An address that the door refuses without asking anybody."""
    with contextlib.suppress(OSError), connect(agent.places.web_socket, 20.0) as wire:
        wire.sendall(ASKED)
        return b"policy_denied" in b"".join(iter(lambda: wire.recv(4096), b""))
    return False


def door(agent: Agent) -> list[int]:
    assert agent.watcher
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(agent.watcher.pid).children()
        return [child.pid for child in children if "infra.web_door" in child.cmdline()]
    return []


@pytest.mark.attack("S60")
def test_a_watcher_has_it_on_demand(make_agent: Callable[..., Agent]) -> None:
    """None while nobody asks; with the watcher killed it ends, and the next watcher's socket leads to another."""
    agent = make_agent()
    agent.start()
    agent.serving()
    assert door(agent) == []
    within(30.0, lambda: refused(agent), "an answer")
    (before,) = door(agent)
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    agent.start()
    (after,) = within(30.0, lambda: door(agent) if refused(agent) else None, "an answer of the next watcher's door")
    assert before != after
    assert not psutil.pid_exists(before) or psutil.Process(before).status() == psutil.STATUS_ZOMBIE
    assert "web_door" not in agent.comms()
