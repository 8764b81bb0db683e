"""`up` and `down` for an agent in its container: the story, in order.

What can take long or fail for the machine's reasons comes before anything of the running agent is touched."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from host.agent import switch_files
from host.container import control, switching, words
from host.container.inspection import ContainerState
from host.container.machine import Machine
from host.container.podman import Podman
from host.container.switching import Facts, Held
from host.container.words import Image, Sealing, sealing
from host.display import Say
from host.errors import CommandError
from host.paths import AgentPaths
from host.running.start import Running, before_start, wait_until_running
from host.running.watcher import last_words
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

    def __init__(self, podman: Podman, home: AgentPaths, made: ContainerState) -> None:
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
    with control.alone(home):
        before = before_start(home)
        try:
            container = make_and_start(podman, ship.machine, home, sealed, keys)
        except BaseException:
            _clear(podman, home)
            raise
    say(f"container {sealed.name} started; waiting for the seal and for the agent to boot")
    try:
        ended = wait_until_running(home, container, before, seconds, say, in_container=True)
    finally:
        container.close()
    if isinstance(ended, Running):
        return ended
    keep_output(podman, home)
    _clear(podman, home)
    raise CommandError(Exit.FAILURE, f"the container ended at once with {ended}; {last_words(home)}")


def down(home: AgentPaths, podman: Podman, seconds: float, keep_key: bool, say: Say) -> int:
    """End the agent and take container and key away; gives the pid it had. Raises CommandError, also when none ran."""
    with control.alone(home):
        found = control.look(podman, home)
        runs = found is not None and found.runs
        if found and runs:
            control.stop(podman, home, found, seconds, say)
        if found:
            with contextlib.suppress(OSError):  # of a full disk, say: the container is removed nevertheless
                keep_output(podman, home)
            control.remove(podman, home)
        has_left = _give_up_switch(podman, home, found, seconds, say) or found is not None
        if not (runs and keep_key):
            control.remove_secrets(podman, home)
    if not (found and runs):
        left = " (what was left of its container is removed)" if has_left else ""
        raise CommandError(Exit.NOT_RUNNING, f"agent {home.agent!r} is not running{left}; 'minifram up' starts it")
    return found.pid


def make_and_start(
    podman: Podman, machine: Machine, home: AgentPaths, sealed: Sealing, keys: Mapping[str, str]
) -> Container:
    """An earlier container that does not run is removed. Raises CommandError."""
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


def keep_output(podman: Podman, home: AgentPaths) -> None:
    """What the container wrote to its streams, for `last_words` and the PM, before it is removed."""
    write_whole(home.watcher_output, control.output(podman, home).encode(), mode=0o600)


def facts_of(
    named: ContainerState | None, aside: ContainerState | None, verdict: str | None = None, is_begun: bool = False
) -> Facts:
    held = [Held(each.version, each.runs) if each else None for each in (named, aside)]
    return Facts(held[0], held[1], verdict, is_begun)


def _give_up_switch(podman: Podman, home: AgentPaths, named: ContainerState | None, seconds: float, say: Say) -> bool:
    """Nothing stays of an upgrade that was cut short; the watcher's memory is that of before. Gives whether there was
    one. A container holds nothing that is not made again."""
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


def _clear(podman: Podman, home: AgentPaths) -> None:
    """No agent, no key: also of a start that failed half-way."""
    found = control.look(podman, home)
    if found is None or not found.runs:
        control.remove(podman, home)
        control.remove_secrets(podman, home)
