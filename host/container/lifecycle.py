"""`up`, `down` and what stands between them, for an agent in its container: the story, told in order.

What can take long or fail for the machine's reasons comes before anything of the running agent is touched."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from host.container import control, image, switch_files, switching, words
from host.container.inspection import Seen
from host.container.machine import Machine
from host.container.podman import Podman, PodmanError
from host.container.words import Image, Sealing, sealing
from host.context import Context
from host.display import Say
from host.errors import CommandError
from host.paths import AgentPaths
from host.running import start as starting
from host.running import watcher as watching
from host.running.start import Running
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.settings import Settings


class Ship(NamedTuple):
    """What a container of this agent is made with."""

    podman: Podman
    machine: Machine
    image: Image
    root: str
    network: str
    """Instead of the machine's own way out; empty for that."""


class Container:
    """The first process of a container, watched from before its start without asking podman again and again."""

    def __init__(self, podman: Podman, home: AgentPaths, made: Seen) -> None:
        self._podman, self._home = podman, home
        self.pid = made.pid
        # It waits for its start and cannot have ended: this is no other process's number.
        self._descriptor = os.pidfd_open(made.pid)

    def poll(self) -> int | None:
        """How it ended; None while it has not."""
        if self._descriptor >= 0:
            if not select.select([self._descriptor], [], [], 0)[0]:
                return None
            self.close()
        found = control.look(self._podman, self._home)  # which learns of the end a moment later
        return None if found and found.runs else found.exit_code if found else int(Exit.FAILURE)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def fit_out(context: Context, podman: Podman, machine: Machine, settings: Settings, anew: bool, say: Say) -> Ship:
    """Find or build the image. Raises CommandError."""
    with as_command_error():
        found = image.find_or_build(podman, machine, context.environ, context.root, settings.podman.base, anew, say)
    return Ship(podman, machine, found, context.root, context.network)


def up(
    home: AgentPaths,
    settings: Settings,
    ship: Ship,
    keys: Mapping[str, str],
    names: Sequence[str],
    say: Say,
    seconds: float,
) -> Running:
    """Make and start the container, wait until its agent works. Raises CommandError.

    `names` are those of all keys; the ones that `keys` lacks podman still holds, of the agent that just ended."""
    podman = ship.podman
    sealed = sealing(home, settings, ship.machine, ship.image, ship.root, names, ship.network)
    with as_command_error():
        with control.alone(home):
            before = starting.before_start(home)
            try:
                container = begun(podman, ship.machine, home, sealed, keys)
            except BaseException:
                _clear(podman, home)
                raise
        say(f"container {sealed.name} started; waiting for the seal and for the agent to boot")
        try:
            ended = starting.wait_until_running(home, container, before, seconds, say, in_container=True)
        finally:
            container.close()
        if isinstance(ended, Running):
            return ended
        write_whole(home.watcher_output, control.output(podman, home).encode(), mode=0o600)
        _clear(podman, home)
    raise CommandError(Exit.FAILURE, f"the container ended at once with {ended}; {watching.last_words(home)}")


def down(home: AgentPaths, podman: Podman, seconds: float, keep_key: bool, say: Say) -> int:
    """End the agent and take container and key away; gives the pid it had. Raises CommandError, also when none ran."""
    with as_command_error(), control.alone(home):
        found = control.look(podman, home)
        runs = found is not None and found.runs
        if found and runs:
            ended = control.stop(podman, home, found, seconds, say)
            if ended.was_killed:
                say(f"it had not ended after {seconds:g} s and was killed; nothing that was pushed is lost")
        if found:
            with contextlib.suppress(OSError):  # of a full disk, say: the container goes all the same
                write_whole(home.watcher_output, control.output(podman, home).encode(), mode=0o600)
            control.remove(podman, home)
        has_left = _give_up_switch(podman, home, found, seconds, say) or found is not None
        if not (runs and keep_key):
            control.remove_secrets(podman, home)
    if not (found and runs):
        left = " (what was left of its container is removed)" if has_left else ""
        raise CommandError(Exit.NOT_RUNNING, f"agent {home.agent!r} is not running{left}; 'minifram up' starts it")
    return found.pid


def begun(podman: Podman, machine: Machine, home: AgentPaths, sealed: Sealing, keys: Mapping[str, str]) -> Container:
    """Made and started; an earlier one that does not run is removed. Raises CommandError and PodmanError."""
    # Those of an earlier start with another provider.
    control.remove_secrets(podman, home, but={secret.name for secret in sealed.secrets})
    made = control.make(podman, machine, home, sealed, keys)
    write_whole(home.watcher_output, b"", mode=0o600)
    container = Container(podman, home, made)
    try:
        control.start(podman, home)
    except BaseException:
        container.close()
        raise
    return container


def _give_up_switch(podman: Podman, home: AgentPaths, named: Seen | None, seconds: float, say: Say) -> bool:
    """Of an upgrade that was cut short, nothing stays; the watcher's memory is that of before. Gives whether there was
    one. A container holds nothing that is not made anew."""
    name = words.names(home.agent).aside
    aside = control.look(podman, home, name)
    if aside is None and not switch_files.is_under_way(home):
        return False
    if aside and aside.runs:
        control.stop(podman, home, aside, seconds, say, name)
    try:
        journal = switch_files.read_journal(home)
    except CommandError as trouble:
        say(str(trouble))
        journal = None
    if journal and journal.memory is not None and switching.puts_memory_back(journal, facts_of(named, aside)):
        switch_files.write_memory(home, journal.memory)
    control.remove(podman, home, name)
    switch_files.remove_journal(home)
    say("an upgrade that was cut short is given up; 'minifram up' starts the installed version")
    return True


def facts_of(
    named: Seen | None, aside: Seen | None, verdict: str | None = None, is_begun: bool = False
) -> switching.Facts:
    held = [switching.Held(each.version, each.runs) if each else None for each in (named, aside)]
    return switching.Facts(held[0], held[1], verdict, is_begun)


def _clear(podman: Podman, home: AgentPaths) -> None:
    """No agent, no key: also of a start that failed half-way."""
    found = control.look(podman, home)
    if found is None or not found.runs:
        control.remove(podman, home)
        control.remove_secrets(podman, home)


@contextlib.contextmanager
def as_command_error() -> Iterator[None]:
    """What podman says, for the PM."""
    try:
        yield
    except PodmanError as error:
        raise CommandError(Exit.FAILURE, f"{error}; 'minifram doctor' checks podman") from None
