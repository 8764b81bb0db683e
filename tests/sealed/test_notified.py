"""Notifications of an agent in its container: sent from the host, and nothing that sends them is within its reach."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.sealed.agent import SealedAgent, born, until
from bench.sealed.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]


DIRECTIVE = "Write src/hello.py that prints hello, with a test."
"""The demo's script knows it."""


@pytest.fixture
def agent(project: Project) -> Iterator[SealedAgent]:
    with born(project) as agent:
        yield agent


def test_the_pm_is_told_of_a_sealed_agent(agent: SealedAgent) -> None:
    """A directive that is done, then the container killed; the agent reads neither the webhook nor what was sent."""
    out = agent.user.directory(f"told-{agent.name}") / "out"
    notify = {"command": f"cat >>{out}", "webhook": "http://127.0.0.1:1/sesame"}
    agent.settings(f"model: {{provider: scripted}}\nnotify: {json.dumps(notify)}\n")
    Path(agent.home.settings).chmod(0o644)
    agent.minifram("up")
    agent.minifram("tell", DIRECTIVE)
    until(lambda: _told(out), "a notification")
    everything = agent.as_agent("grep -rlsF sesame /bot /tmp /var /run /etc /mnt /proc/[0-9]*/environ")
    seen = agent.as_agent("cat /etc/minifram/minifram.yaml")
    Path(agent.home.settings).chmod(0o644)
    assert "sesame" in agent.as_agent("cat /etc/minifram/minifram.yaml"), "the control: it is there"
    agent.podman("kill", agent.container)
    until(lambda: len(_told(out)) == 2, "a notification that it is gone")
    found = json.loads(agent.minifram("doctor", "--json", check=False).stdout)["results"]
    agent.minifram("down", check=False)

    assert [each["kind"] for each in _told(out)] == ["done", "stopped"]
    assert _told(out)[0]["text"] == f"{agent.name}: done: {DIRECTIVE}"
    assert (everything, "Permission denied" in seen) == ("", True)
    assert [each["level"] for each in found if each["check"] == "notify"] == ["ok", "warn"]


def _told(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
