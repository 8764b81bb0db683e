"""`up`, `down` and `restart`: what is checked before, what is left behind, what changed.

Everything that can be wrong is found before anything is stopped or started. The model's key passes from the
PM's environment into a file that only the model door reads, and goes away with the agent."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple

from host import bare, starting, watching
from host.caller import Caller
from host.homes import Home, secure_directory, secure_run_directory
from host.trouble import Trouble
from host.watching import Say
from infra.contract.exit_codes import Exit
from infra.contract.files import write_whole
from infra.contract.settings import Settings, provider_of, read_settings

KEY_VARIABLE = "ANTHROPIC_API_KEY"


class Readiness(NamedTuple):
    """What `up` needs, all checked."""

    home: Home
    settings: Settings
    sandbox: str
    key: str
    """The provider's key; empty when the model needs none."""


class Up(NamedTuple):
    agent: str
    sandbox: str
    model: str
    pid: int
    branch: str
    commit: str
    seconds: float


class Down(NamedTuple):
    agent: str
    pid: int


class Restarted(NamedTuple):
    agent: str
    before: str
    """`branch@commit` that ran, empty when nothing did."""
    after: str
    pid_before: int
    pid: int
    settings_changed: dict[str, list[Any]]
    """Key -> [with what the agent was started last, with what it runs now]."""


def make_ready(caller: Caller, sandbox: str | None, key_of_the_running: str = "") -> Readiness:
    """Check all that `up` needs. Raises Trouble and SettingsError."""
    home = caller.initialised()
    if not os.path.lexists(home.settings):
        raise Trouble(
            Exit.NOT_FOUND,
            f"the settings of agent {home.agent!r} are missing: expected {home.settings}; "
            "an empty file there means all defaults",
        )
    settings = read_settings(home.settings)
    problem = bare.problem_with_repository(home)
    if problem:
        raise problem
    chosen = sandbox or settings.sandbox
    if chosen != "process":
        raise Trouble(
            Exit.USAGE,
            f"the {chosen} sandbox is not built yet; expected 'process': "
            f"set 'sandbox: process' in {home.settings} or give --sandbox process",
        )
    key = ""
    given = caller.environ.get(KEY_VARIABLE, "") or key_of_the_running
    if provider_of(settings.model, bool(given)) == "anthropic":
        key = checked_key(given)
    return Readiness(home, settings, chosen, key)


def checked_key(key: str) -> str:
    """The key as it can stand in an HTTP header. Raises Trouble; its text never holds the key."""
    key = key.strip()
    if not key:
        raise Trouble(
            Exit.NOT_FOUND,
            f"model.provider is anthropic, and {KEY_VARIABLE} is not set: "
            "export your key in it and try again, or set 'provider: scripted'",
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Trouble(
            Exit.USAGE, f"{KEY_VARIABLE} holds spaces, control characters or non-ASCII; expected the bare key"
        )
    return key


def up(caller: Caller, ready: Readiness, say: Say, seconds: float = starting.UP_SECONDS) -> Up:
    """Start the agent and wait until it works. Raises Trouble."""
    home = ready.home
    pid = watching.holder(home.places.watcher_lock)
    if pid is not None:
        raise watching.already_running(home, pid)
    if ready.sandbox == "process":
        say(
            "WARNING: process sandbox: agent and keep run as your own user and are NOT isolated from each other "
            "or from your files; use it for development and demonstration only"
        )
    secure_directory(home.state, caller.uid)
    secure_run_directory(home, caller.uid)
    _put_key(home, ready.key, caller.uid)
    _remember(ready)
    try:
        environ = starting.keep_environment(caller.environ, caller.root)
        running = starting.start(home, caller.watcher, environ, seconds, say)
    except BaseException:
        if watching.holder(home.places.watcher_lock) is None:
            _remove_key(home.key_file)
        raise
    provider = provider_of(ready.settings.model, bool(ready.key))
    model = provider if provider == "scripted" else f"{provider} {ready.settings.model.name}"
    return Up(home.agent, ready.sandbox, model, running.pid, running.branch, running.commit, running.seconds)


def down(home: Home, say: Say, seconds: float = watching.DOWN_SECONDS) -> Down:
    """End the agent and take its key away. Raises Trouble, also when it was not running."""
    key_files = {home.key_file, f"{_remembered(home).get('run', home.run)}/secrets/anthropic_api_key"}
    try:
        pid = watching.stop(home, seconds, say)
    finally:
        if watching.holder(home.places.watcher_lock) is None:
            for path in key_files:
                _remove_key(path)
    return Down(home.agent, pid)


def restart(caller: Caller, sandbox: str | None, say: Say, down_seconds: float, up_seconds: float) -> Restarted:
    """`down`, if it runs, then `up`; nothing is stopped when `up` could not follow."""
    home = caller.initialised()
    ready = make_ready(caller, sandbox, _running_key(home))
    old_settings = _remembered(home).get("settings", {})
    before, pid_before = "", 0
    if watching.holder(home.places.watcher_lock) is not None:
        before = _version(home)
        pid_before = down(home, say, down_seconds).pid
    started = up(caller, ready, say, up_seconds)
    new_settings = _flat(ready)
    changed = {
        key: [old_settings.get(key), new_settings.get(key)]
        for key in sorted(old_settings.keys() | new_settings.keys())
        if old_settings and old_settings.get(key) != new_settings.get(key)
    }
    return Restarted(home.agent, before, f"{started.branch}@{started.commit}", pid_before, started.pid, changed)


def _version(home: Home) -> str:
    """`branch@commit` that the watcher says it runs; empty when it does not say."""
    try:
        state = watching.known_state(home)
    except ValueError:  # the restart does not depend on it
        return ""
    return f"{state.branch}@{state.commit}" if state and state.branch else ""


def sandbox_in_use(home: Home) -> str:
    """The sandbox that the last `up` chose; empty when there was none."""
    return str(_remembered(home).get("sandbox", ""))


def _put_key(home: Home, key: str, uid: int) -> None:
    if key:
        secure_directory(home.places.secrets, uid)
        write_whole(home.key_file, f"{key}\n".encode(), mode=0o600)
    else:
        _remove_key(home.key_file)  # of an earlier start with another provider


def _remove_key(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _running_key(home: Home) -> str:
    try:
        with open(home.key_file, encoding="utf-8") as file:
            return file.read().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def _remember(ready: Readiness) -> None:
    remembered = {
        "schema": "minifram.up/1",
        "sandbox": ready.sandbox,
        "run": ready.home.run,
        "settings": _flat(ready),
    }
    write_whole(ready.home.started_file, json.dumps(remembered, indent=1).encode(), mode=0o600)


def _remembered(home: Home) -> dict[str, Any]:
    """With what the last `up` started; empty when that is not known (a convenience, never a condition)."""
    try:
        with open(home.started_file, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("settings"), dict) else {}


def _flat(ready: Readiness) -> dict[str, Any]:
    from host.settings_text import entries

    flat = {entry.key: entry.value for entry in entries(ready.settings, {}, "")}
    flat["sandbox"] = ready.sandbox
    # As it will be read back, so that comparing finds changes only.
    return dict(json.loads(json.dumps(flat)))
