"""For `minifram doctor`: whether notifications are configured, are sent, and arrive."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from host.context import Context
from host.display import counted
from host.notify.process import lock_of, log_of
from host.notify.state import Channel, Memory, Store
from host.paths import AgentPaths
from host.repository.checks import NOTE, OK, WARN, Result
from host.running.record import is_running
from host.running.watcher import holder
from infra.shared.settings_file import SettingsError, read_settings


def check(context: Context, home: AgentPaths) -> Iterator[Result]:
    try:
        notify = read_settings(home.settings).notify
    except SettingsError:  # reported by its own check
        return
    if not notify.channels:
        yield Result("notify", NOTE, "not configured, so nothing is sent to you; see 'minifram config notify'")
        return
    pid = holder(lock_of(home))
    if pid is None and is_running(home):
        text = "the sender does not run; 'minifram restart' starts it, or 'minifram notify' in a service"
        yield Result("notify", WARN, f"{text}; its last words are in {log_of(home)}")
    try:
        memory = Store(home).read() or Memory()
    except (OSError, ValueError) as error:
        yield Result("notify", WARN, f"{error}; the sender sets it aside and begins anew")
        memory = Memory()
    where = {"command": "command", "webhook": f"webhook at {urlsplit(notify.webhook or '').hostname}"}
    for name in notify.channels:
        yield _of(where[name], memory.channels.get(name, Channel()), "'minifram notify --test' tries it")


def _of(name: str, channel: Channel, hint: str) -> Result:
    last = f"last delivered {channel.succeeded_at}" if channel.succeeded_at else "nothing delivered yet"
    waits = f"; {counted(channel.waits, 'notification')} not delivered yet" if channel.waits else ""
    if channel.error:
        text = f"{name}: failed at {channel.failed_at}: {channel.error}; {last}{waits}, tried again; {hint}"
        return Result("notify", WARN, text)
    return Result("notify", OK, f"{name}: {last}{waits}; {hint}")
