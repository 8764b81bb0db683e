"""Who calls the command, about which agent, and where one agent lives on the host.

Paths are computed from an environment that is handed in; nothing here reads the process's own but `this_process`, and
nothing looks at the disk except `secure_directory`, `known_agents` and `Context.initialised`."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from host.errors import conflict, not_found, usage
from infra.shared.files import sync
from infra.shared.paths import Paths
from infra.shared.text import cut

DEFAULT_AGENT = "agent"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")


class AgentPaths(NamedTuple):
    """Absolute paths of one agent."""

    agent: str
    data: str
    """The bare repository and, in the process sandbox, the cell's tree."""
    state: str
    """The keep's own memory: watcher state and log, ledger."""
    run: str
    """Sockets and secrets; gone after a reboot."""
    settings: str
    """The PM's minifram.yaml."""

    @property
    def remote(self) -> str:
        return f"{self.data}/remote.git"

    @property
    def places(self) -> Paths:
        return Paths(bot=f"{self.data}/bot", remote=self.remote, run=self.run, var=self.state)

    def key_file(self, key: str) -> str:
        """Where a provider's key lies; `key` is one of `providers.KEYS`."""
        return f"{self.places.secrets}/{key}"

    @property
    def watcher_output(self) -> str:
        """What the watcher wrote to stdout and stderr: empty unless it could not even begin to log."""
        return f"{self.data}/watcher.err"

    @property
    def doors_log(self) -> str:
        return f"{self.state}/doors.log"


def problem_with_agent_name(name: str) -> str | None:
    if _NAME.fullmatch(name):
        return None
    return (
        f"agent name {cut(name, 60)!a} is not allowed: 1 to 41 characters, lower-case letters, digits, '-' and "
        "'_', beginning with a letter or digit"
    )


def paths_of(agent: str, environ: Mapping[str, str], uid: int) -> AgentPaths:
    """The home of `agent`, whose name is good, under the XDG base directories. Raises CommandError without $HOME."""
    # In /tmp another user may have made the directory in advance: owner and mode are checked.
    run = environ.get("XDG_RUNTIME_DIR", "")
    sockets = f"{os.path.normpath(run)}/minifram" if os.path.isabs(run) else f"/tmp/minifram-{uid}"  # noqa: S108
    return AgentPaths(
        agent=agent,
        data=f"{base_directory(environ, 'XDG_DATA_HOME', '.local/share')}/{agent}",
        state=f"{base_directory(environ, 'XDG_STATE_HOME', '.local/state')}/{agent}",
        run=f"{sockets}/{agent}",
        settings=f"{base_directory(environ, 'XDG_CONFIG_HOME', '.config')}/{agent}/minifram.yaml",
    )


def known_agents(environ: Mapping[str, str]) -> list[str]:
    """Names of the agents that were initialised here."""
    base = base_directory(environ, "XDG_DATA_HOME", ".local/share")
    return sorted(path.parent.name for path in Path(base).glob("[a-z0-9]*/remote.git"))


def sync_tree(path: str) -> None:
    """Sync the directory at `path` and everything in it. Raises OSError."""
    for directory, _, names in os.walk(path):
        for name in names:
            sync(f"{directory}/{name}", os.O_NOFOLLOW)
        sync(directory)


def secure_directory(path: str, uid: int) -> None:
    """Make `path` and what is missing above it, for this user alone. Raises CommandError when it is another user's, who
    must not get our sockets and keys."""
    parent = os.path.dirname(path)
    if not os.path.lexists(parent):
        secure_directory(parent, uid)
    try:
        os.mkdir(path, 0o700)
        sync(parent)
    except FileExistsError:
        if problem := problem_with_directory(path, uid):
            raise conflict(problem) from None


def secure_run_directory(home: AgentPaths, uid: int) -> None:
    """The same for the run directory, with the one above it: its owner could swap ours for another."""
    secure_directory(os.path.dirname(home.run), uid)
    secure_directory(home.run, uid)


def problem_with_directory(path: str, uid: int) -> str | None:
    """Why `path` is not a directory of this user alone; None when it is."""
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & 0o077:
        return None
    return (
        f"{path} is {stat.filemode(status.st_mode)} of uid {status.st_uid}; expected a directory of yours (uid {uid}) "
        f"that only you can enter: move it away, or run: chmod 700 {path}"
    )


def base_directory(environ: Mapping[str, str], variable: str, below_home: str) -> str:
    """Where minifram keeps what is of this kind, under the XDG base directory. Raises CommandError without $HOME."""
    given, home = environ.get(variable, ""), environ.get("HOME", "")
    if os.path.isabs(given):  # the XDG specification says that a relative path must be ignored
        return f"{os.path.normpath(given)}/minifram"
    if not os.path.isabs(home):
        raise usage(f"HOME is {home!r}; expected an absolute path, so that the agent can be found")
    return f"{os.path.normpath(home)}/{below_home}/minifram"


class Context(NamedTuple):
    """Who calls the command, from where, and about which agent."""

    environ: Mapping[str, str]
    uid: int
    root: str
    """The project that this command belongs to: its `infra/` is the keep's code, and an agent's first version."""
    watcher: tuple[str, ...]
    """The program that `up` starts; it gets the arguments of `infra.keep.arguments`."""
    agent: str = DEFAULT_AGENT
    network: str = ""
    """Instead of the way out that a container gets on this machine (`host.container.words.NETWORKS`)."""

    @property
    def home(self) -> AgentPaths:
        return paths_of(self.agent, self.environ, self.uid)

    @property
    def agent_words(self) -> str:
        """What a printed command needs, to act on the same agent; empty when the environment leads to it anyway."""
        default = self.environ.get("MINIFRAM_AGENT") or DEFAULT_AGENT
        return "" if self.agent == default else f" --agent {self.agent}"

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


def this_process() -> Context:
    """The real context; only the command's `main` calls this."""
    environ = dict(os.environ)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    watcher = (sys.executable, "-s", "-P", "-m", "infra.watcher")
    return Context(environ, os.getuid(), root, watcher, environ.get("MINIFRAM_AGENT") or DEFAULT_AGENT)
