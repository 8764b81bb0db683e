"""Where one agent lives on the host, and which names an agent can have.

They are computed from an environment that is handed in; nothing here reads the process's own, and nothing
looks at the disk except `secure_directory` and `known_agents`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import NamedTuple

from host.errors import CommandError, conflict, not_found, usage
from infra.shared.files import sync_directory
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

    @property
    def started_file(self) -> str:
        """With what the last `minifram up` started the agent. Not in the state, which is written from the container."""
        return f"{self.data}/up.json"

    @property
    def switch_file(self) -> str:
        """The journal of an upgrade under way."""
        return f"{self.data}/upgrade.json"

    @property
    def switched_file(self) -> str:
        """What the last upgrade replaced, for the way back."""
        return f"{self.data}/upgraded.json"


def missing_settings(home: AgentPaths) -> CommandError:
    return not_found(
        f"the settings of agent {home.agent!r} are missing: expected {home.settings}; "
        "an empty file there means all defaults"
    )


def problem_with_agent_name(name: str) -> str | None:
    if _NAME.fullmatch(name):
        return None
    shown = ascii(cut(name, 60))
    return (
        f"agent name {shown} is not allowed: 1 to 41 characters, lower-case letters, digits, '-' and '_', "
        "beginning with a letter or digit"
    )


def paths_of(agent: str, environ: Mapping[str, str], uid: int) -> AgentPaths:
    """The home of `agent` under the XDG base directories. Raises ValueError for a name that cannot be."""
    problem = problem_with_agent_name(agent)
    if problem:
        raise ValueError(problem)
    return AgentPaths(
        agent=agent,
        data=f"{_base(environ, 'XDG_DATA_HOME', '.local/share')}/{agent}",
        state=f"{_base(environ, 'XDG_STATE_HOME', '.local/state')}/{agent}",
        run=f"{_run_base(environ, uid)}/{agent}",
        settings=f"{_base(environ, 'XDG_CONFIG_HOME', '.config')}/{agent}/minifram.yaml",
    )


class DiscoveryPaths(NamedTuple):
    """Absolute paths of what `minifram discover` keeps. None of it lies where an agent's things do."""

    data: str
    """Runs and worlds."""
    state: str
    """Of its model door: the ledger."""
    run: str
    """Sockets and keys, a directory for each run."""
    settings: str
    """discovery.yaml: `model` and `budget`, as in minifram.yaml."""

    @property
    def runs(self) -> str:
        return f"{self.data}/runs"

    @property
    def worlds(self) -> str:
        return f"{self.data}/worlds"


def discovery_paths(environ: Mapping[str, str], uid: int) -> DiscoveryPaths:
    """Beside the directories of agents, under the XDG base directories."""
    return DiscoveryPaths(
        data=f"{_base(environ, 'XDG_DATA_HOME', '.local/share')}-discovery",
        state=f"{_base(environ, 'XDG_STATE_HOME', '.local/state')}-discovery",
        run=f"{_run_base(environ, uid)}-discovery",
        settings=f"{_base(environ, 'XDG_CONFIG_HOME', '.config')}/discovery.yaml",
    )


def known_agents(environ: Mapping[str, str]) -> list[str]:
    """Names of the agents that were initialised here."""
    base = _base(environ, "XDG_DATA_HOME", ".local/share")
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return []
    return [name for name in names if _NAME.fullmatch(name) and os.path.isdir(f"{base}/{name}/remote.git")]


def secure_directory(path: str, uid: int) -> None:
    """Make `path` and what is missing above it, for this user alone. Raises CommandError when it is another user's.

    `/tmp` is open to all: a directory that another user put there in advance must not get our sockets and keys."""
    parent = os.path.dirname(path)
    if not os.path.lexists(parent):
        secure_directory(parent, uid)
    try:
        os.mkdir(path, 0o700)
        sync_directory(parent)
    except FileExistsError:
        problem = problem_with_directory(path, uid)
        if problem:
            raise conflict(problem) from None


def secure_run_directory(home: AgentPaths, uid: int) -> None:
    """The same for the run directory, with the one above it: its owner could swap ours for another."""
    secure_directory(os.path.dirname(home.run), uid)
    secure_directory(home.run, uid)


def problem_with_directory(path: str, uid: int) -> str | None:
    """Why `path` is not a directory of this user alone; None when it is."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a directory (expected one that only you can enter); move it away"
    if status.st_uid != uid:
        return f"{path} belongs to uid {status.st_uid}, not to you (uid {uid}); remove it or set XDG_RUNTIME_DIR"
    if status.st_mode & 0o077:
        return f"{path} has mode {stat.S_IMODE(status.st_mode):04o}, expected 0700; run: chmod 700 {path}"
    return None


def _base(environ: Mapping[str, str], variable: str, below_home: str) -> str:
    # The XDG specification says that a relative path must be ignored.
    given = environ.get(variable, "")
    if not os.path.isabs(given):
        given = os.path.join(_user_home(environ), below_home)
    return os.path.join(os.path.normpath(given), "minifram")


def _run_base(environ: Mapping[str, str], uid: int) -> str:
    given = environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(os.path.normpath(given), "minifram") if os.path.isabs(given) else f"/tmp/minifram-{uid}"  # noqa: S108 - owner and mode are checked


def _user_home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        raise usage(f"HOME is {home!r}; expected an absolute path, so that the agent can be found")
    return home
