"""The one value in which the process's environment is handed on: no layer below reads it itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from host.errors import not_found
from host.paths import DEFAULT_AGENT, AgentPaths, known_agents, paths_of


class Context(NamedTuple):
    """Who calls the command, from where, and about which agent."""

    environ: Mapping[str, str]
    uid: int
    root: str
    """The project that this command belongs to: its `infra/` is the keep's code, and an agent's first version."""
    watcher: tuple[str, ...]
    """The program that `up` starts; it gets the arguments of `infra.shared.arguments`."""
    agent: str = DEFAULT_AGENT
    network: str = ""
    """Instead of the way out that a container gets on this machine (`host.container.words.NETWORKS`)."""
    proof: Callable[..., None] | None = None
    """Proves an image before `upgrade` takes it, instead of the whole demo (`host.agent.demo.play_whole`)."""
    steady: float = 5.0
    """Seconds for which what `upgrade` started has to go on working."""

    @property
    def home(self) -> AgentPaths:
        return paths_of(self.agent, self.environ, self.uid)

    @property
    def option(self) -> str:
        """What names this agent on a command line; nothing where a command takes it anyway."""
        return f" --agent {self.agent}" if self.environ.get("MINIFRAM_AGENT") else as_option(self.agent)

    def initialised(self) -> AgentPaths:
        """The agent's paths. Raises CommandError for an agent that `minifram init` has not made."""
        home = self.home
        if os.path.lexists(home.remote):
            return home
        others = known_agents(self.environ)
        hint = f"; agents that exist: {', '.join(others)}" if others else ""
        raise not_found(
            f"no such agent: {self.agent!r}; expected its repository at {home.remote}; "
            f"make it with 'minifram init'{hint}"
        )


def as_option(agent: str) -> str:
    """What names this agent on a command line; nothing for the default."""
    return "" if agent == DEFAULT_AGENT else f" --agent {agent}"


def this_process() -> Context:
    """The real context; only the command's `main` calls this."""
    environ = dict(os.environ)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    watcher = (sys.executable, "-s", "-P", "-m", "infra.watcher")
    return Context(environ, os.getuid(), root, watcher, environ.get("MINIFRAM_AGENT") or DEFAULT_AGENT)
