"""What `minifram notify` does: sends until it is asked to end, or sends one test."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from host.context import Context
from host.display import Say
from host.errors import conflict, usage
from host.notify.delivery import deliver
from host.notify.letters import Pending, body_of
from host.notify.look import Looker
from host.notify.process import environment, lock_of, protect_settings
from host.notify.sender import BUSY_SECONDS, Sender
from host.notify.state import Store
from host.paths import AgentPaths
from host.running.watcher import holder
from infra.shared.clock import timestamp
from infra.shared.settings import Settings
from infra.shared.settings_file import read_settings

LOCK_SECONDS = 60.0
"""How long a sender waits for the end of the one before it."""


class Tested(NamedTuple):
    """A test notification through one channel."""

    channel: str
    id: str
    error: str
    """Why it was not delivered; empty when it was."""


def run(context: Context, say: Say) -> None:
    """Send until SIGTERM or SIGINT. Raises CommandError and SettingsError."""
    home, settings = _configured(context)
    over: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda each, frame: over.append(each))
    with _locked(home, lambda: bool(over), say):
        store = Store(home)
        memory, complaint = store.take()
        if complaint:
            say(complaint)
        environ = environment(context.environ)
        sender = Sender(
            home.agent,
            settings.notify,
            memory,
            store,
            Looker(home, settings.budget, say),
            lambda channel, body: deliver(settings.notify, channel, body, environ),
            say,
        )
        say(f"sending {', '.join(settings.notify.on)} through {' and '.join(settings.notify.channels)}")
        sender.run(lambda: bool(over) or not os.path.isdir(home.remote))


def test(context: Context) -> tuple[Tested, ...]:
    """Send one notification through each channel, and wait for what becomes of it. Raises CommandError."""
    home, settings = _configured(context)
    at, environ = timestamp(time.time()), environment(context.environ)
    protect_settings(home, settings, lambda text: None)
    under_way = {}
    for channel in settings.notify.channels:
        id = os.urandom(16).hex()
        words = Pending(1, at, at, 0.0, ({"at": at, "text": "a test by 'minifram notify --test'"},))
        body = body_of("test", home.agent, id, words)
        under_way[channel] = (id, deliver(settings.notify, channel, body, environ))
    found = []
    for channel, (id, attempt) in under_way.items():
        try:
            while (error := attempt.ended()) is None:
                time.sleep(BUSY_SECONDS)
        except BaseException:
            attempt.give_up()
            raise
        found.append(Tested(channel, id, error))
    return tuple(found)


def _configured(context: Context) -> tuple[AgentPaths, Settings]:
    home = context.initialised()
    settings = read_settings(home.settings)
    if not settings.notify.channels:
        raise usage(
            f"nothing is configured to send notifications with: set notify.command or notify.webhook in {home.settings}"
        )
    return home, settings


@contextlib.contextmanager
def _locked(home: AgentPaths, is_over: Callable[[], bool], say: Say) -> Iterator[None]:
    """One sender for an agent. Raises CommandError when another goes on."""
    path = lock_of(home)
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        until, told = time.monotonic() + LOCK_SECONDS, False
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until or is_over():
                    raise conflict(f"another sender of agent {home.agent!r} runs (pid {holder(path)})") from None
            if not told:
                say("another sender of this agent runs; waiting for its end")
                told = True
            time.sleep(BUSY_SECONDS)
        os.ftruncate(held, 0)
        os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(held)
