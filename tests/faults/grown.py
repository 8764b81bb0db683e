"""Agents whose main has shown that it can live, what becomes of a bad one, and what the PM is shown of it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from host.home import AgentPaths
from host.status import Status, read_status
from infra.keep.repository.bare_config import config_text
from infra.keep.watcher_file import State
from infra.shared.signals import SignalName
from tests.keep.supervision.agents import Agent, within

MakeAgent = Callable[..., Agent]
ROOT = Path(__file__).parents[2]
SHORT = "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 4, probation_seconds: 0.5}\n"
REAL = "timing: {rehearse: false, grace_seconds: 2, boot_seconds: 20, probation_seconds: 0.5}\n"
"""For this project's own runner, which takes longer to come up."""
NOT_OURS = shutil.ignore_patterns("__pycache__")


def grown(make_agent: MakeAgent, settings: str = SHORT, body: bool = False) -> tuple[Agent, str]:
    """An agent whose first main serves and is known as good, and that main's commit.

    `body`: of this project's own runner, else of a stand-in."""
    agent = make_agent(settings=settings)
    Path(agent.places.remote, "config").write_text(config_text("agent"))
    if body:
        shutil.rmtree(agent.clone / "infra")
        shutil.copytree(ROOT / "infra", agent.clone / "infra", ignore=NOT_OURS)
        (agent.clone / "SYSTEM.md").write_text("You are an agent.\n")
        agent.commit("the real runner")
        agent.git("push", "-q", "origin", "main")
    agent.start()
    agent.serving()
    return agent, within(30.0, lambda: agent.state().goods, "a good version")[0].commit


def change(agent: Agent, behaviour: str) -> str:
    """Push a main that behaves so; a version of its own, since its runner's file differs. Gives its commit."""
    with (agent.clone / "infra/runner.py").open("a") as runner:
        runner.write(f"# {time.time_ns()}\n")
    agent.commit(behaviour)
    return agent.push_main()


def behave(agent: Agent, behaviour: str) -> str:
    """And have it lead."""
    commit = change(agent, behaviour)
    agent.ask(SignalName.BOOTSTRAP, "main")
    return commit


def shown(agent: Agent) -> Status:
    """What `minifram status` says."""
    data = str(agent.directory)
    home = AgentPaths("agent", data, agent.places.var, agent.places.run, str(agent.settings))
    return read_status(home, time.time())


def kill_runner(agent: Agent) -> State:
    """SIGKILL for the runner that serves; gives the state before."""
    state = agent.serving()
    os.kill(state.active.pid, signal.SIGKILL)
    return state
