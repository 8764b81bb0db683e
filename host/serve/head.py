"""What more than one screen shows of an agent."""

from __future__ import annotations

import time
from typing import Any

from host.serve.agents import Agent, Part
from host.status import Status, read_status


def status_of(agent: Agent) -> Status:
    parts: tuple[Part, ...] = ("repository", "watcher", "money", "questions", "runs", "web", "settings")
    return agent.known("status", parts, lambda: read_status(agent.home, time.time()))


def head_of(agent: Agent) -> dict[str, Any]:
    """What stands at the top of every screen."""
    status = status_of(agent)
    reviews = len(status.awaiting_review or ())
    waiting = len(status.awaiting_approval) + reviews
    return {"agent": agent.name, "status": status, "waiting": waiting, "reviews": reviews}
