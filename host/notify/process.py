"""The sender as a process beside the agent: `up` starts it, `down` ends it. No command waits for it, and none fails for
it."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping

from host.context import Context
from host.display import Say
from host.paths import AgentPaths
from host.running.watcher import ask_to_end, holder, is_locked
from infra.shared.paths import ROOT
from infra.shared.programs import keep_command
from infra.shared.settings import Settings

_PASSED = ("PATH", "LANG", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "DISPLAY", "WAYLAND_DISPLAY")
_PASSED_BEGINNINGS = ("XDG_", "LC_", "DBUS_SESSION_")


def lock_of(home: AgentPaths) -> str:
    return f"{home.data}/notify.lock"


def log_of(home: AgentPaths) -> str:
    return f"{home.data}/notify.log"


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a command of the PM's needs of the PM's environment; no key is in it."""
    return {name: value for name, value in environ.items() if name in _PASSED or name.startswith(_PASSED_BEGINNINGS)}


@contextlib.contextmanager
def beside(context: Context, home: AgentPaths, settings: Settings, say: Say) -> Iterator[None]:
    """What happens from now on is told: around the start of an agent. Whatever fails here is said, and nothing more."""
    with _harmless(say):
        _begin(home, settings)
    try:
        yield
    finally:
        with _harmless(say):
            stop(home)
            if settings.notify.channels and is_locked(home.places.watcher_lock) is not False:
                _spawn(context, home)


def stop(home: AgentPaths) -> None:
    """Ask the sender to end, and do not wait for it."""
    pid = holder(lock_of(home))
    if pid:
        ask_to_end(lock_of(home), pid)


def stop_quietly(home: AgentPaths, say: Say) -> None:
    with _harmless(say):
        stop(home)


def protect_settings(home: AgentPaths, settings: Settings, say: Say) -> None:
    """Who knows the address of a webhook can post there, and the container has the settings file: its owner's alone."""
    try:
        mode = stat.S_IMODE(os.stat(home.settings).st_mode)
        if settings.notify.webhook and mode & 0o077:
            os.chmod(home.settings, 0o600)
            say(f"{home.settings} had mode {mode:04o} and holds notify.webhook; it is now readable by you alone")
    except OSError as error:
        say(f"WARNING: others, the agent too, may read notify.webhook in {home.settings}: {error}")


def _begin(home: AgentPaths, settings: Settings) -> None:
    from host.notify.look import Looker
    from host.notify.state import Memory, Store

    store = Store(home)
    if not settings.notify.channels:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(store.path)
    elif not os.path.lexists(store.path):
        store.write(Memory(Looker(home, settings.budget, lambda text: None).begin()))


def _spawn(context: Context, home: AgentPaths) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    output = os.open(log_of(home), flags, 0o600)
    try:
        subprocess.Popen(
            keep_command("host", "--agent", home.agent, "notify"),
            cwd="/",
            env=environment(context.environ) | {"PYTHONPATH": ROOT},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


@contextlib.contextmanager
def _harmless(say: Say) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a notification is worth no start and no stop
        say(f"notifications: {error}; 'minifram doctor' says more")
