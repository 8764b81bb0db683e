"""Who calls the command, and from where: the one value in which the process's environment is handed on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from host.errors import CommandError
from host.paths import DEFAULT_AGENT, AgentPaths, known_agents, paths_of
from infra.shared.exit_codes import Exit


class Context(NamedTuple):
    """The world outside, as the verbs see it."""

    environ: Mapping[str, str]
    uid: int
    root: str
    """The project that this command belongs to: its `infra/` is the keep's code, and an agent's first version."""
    watcher: tuple[str, ...]
    """The program that `up` starts; it gets the arguments of `infra.shared.arguments`."""
    agent: str = DEFAULT_AGENT
    network: str = ""
    """Instead of the way out that a container gets on this machine (`host.container.words.NETWORKS`)."""
    proof: tuple[str, ...] = ()
    """The program that proves an image before `upgrade` takes it; empty for ours (`host.agent.proof`)."""
    steady: float = 5.0
    """Seconds for which what `upgrade` started has to go on working."""

    @property
    def home(self) -> AgentPaths:
        return paths_of(self.agent, self.environ, self.uid)

    def initialised(self) -> AgentPaths:
        """The agent's home. Raises CommandError when `minifram init` has not been there."""
        home = self.home
        if os.path.lexists(home.remote):
            return home
        others = known_agents(self.environ)
        hint = f"; agents that exist: {', '.join(others)}" if others else ""
        raise CommandError(
            Exit.NOT_FOUND,
            f"there is no agent {self.agent!r}: expected its repository at {home.remote}; "
            f"make it with 'minifram init{as_option(self.agent)}'{hint}",
        )


def as_option(agent: str) -> str:
    """What to write on a command line to mean this agent; nothing for the default."""
    return "" if agent == DEFAULT_AGENT else f" --agent {agent}"


def this_process() -> Context:
    """The real context. Called once, in the command's `main`."""
    environ = dict(os.environ)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    watcher = (sys.executable, "-s", "-P", "-m", "infra.watcher")
    return Context(environ, os.getuid(), root, watcher, environ.get("MINIFRAM_AGENT") or DEFAULT_AGENT)
