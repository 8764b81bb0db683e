"""`minifram upgrade`: the new image proves itself, takes the agent over, and goes again when the agent does not serve.

The journal is on the disk before the old container is touched; from there on each step is chosen by `switching` from
the journal and the containers that are there. So the next command goes on with it, after a power cut too."""

from __future__ import annotations

import secrets
import time
from typing import NamedTuple

from host.agent import proof, switch_files
from host.agent.consent import Consent, require
from host.agent.sealed import Ship
from host.agent.switch import Switch, SwitchEnd, Timeouts, memory_at, state_at
from host.agent.up import Readiness, fit_out, make_ready
from host.container import choice, control, image, switching
from host.container.inspection import ContainerState
from host.container.machine import Machine
from host.container.podman import Podman
from host.container.switching import Journal
from host.container.words import Image, names
from host.context import Context
from host.display import Say
from host.errors import CommandError, not_contained
from host.paths import AgentPaths
from host.running import record
from host.running.record import PODMAN
from host.running.watcher import not_running
from infra.shared import watcher_file
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit


class Upgraded(NamedTuple):
    """What runs now."""

    agent: str
    before: str
    """Version of the image."""
    after: str
    pid: int
    branch: str
    commit: str
    seconds: float

    @property
    def is_another(self) -> bool:
        return self.before != self.after


def upgrade(context: Context, back: bool, consent: Consent, say: Say, timeouts: Timeouts) -> Upgraded:
    """To the installed version, or `back` to the image before the last upgrade. Raises CommandError, also when the
    agent had to be brought back."""
    home = _in_container(context)
    ready = make_ready(context, None, say, goes_on=True)
    if switch_files.is_under_way(home):
        return _upgraded(home, settle(context, ready, say, timeouts))
    done = switch_files.read_done(home) if back else None
    if back and done is None:
        raise CommandError(
            Exit.NOT_FOUND, f"agent {home.agent!r} was never upgraded, so there is nothing to go back to"
        )
    if ready.sandbox != PODMAN:
        raise CommandError(
            Exit.CONFLICT,
            f"the settings ask for the sandbox {ready.sandbox!r} now, and the agent runs in podman's: "
            f"'minifram restart' changes that",
        )
    podman, machine = _podman_of(context, ready)
    found = _at_work(podman, home)
    if done:
        ready = ready._replace(ship=Ship(podman, machine, done.old, context.root, context.network))
    else:
        ready = fit_out(context, ready, False, say)
    assert ready.ship is not None  # noqa: S101 - what choosing podman means
    new = ready.ship.image
    if found.version == new.version:
        state = state_at(home) or watcher_file.WatcherFile()
        return Upgraded(home.agent, found.version, found.version, found.pid, state.branch, state.commit, 0.0)
    require(home, ready.settings, ready.sandbox, "upgrade --back" if done else "upgrade", consent)
    if not done:
        proof.prove(context, home, podman, new, ready.settings.podman.base, say)
    elif image.look(podman, new.name) is None:
        raise CommandError(Exit.NOT_FOUND, f"the image {new.name} is not there any more; nothing was changed")
    return _upgraded(home, _begin(context, ready, found, new, done.memory if done else None, say, timeouts))


def settle(context: Context, ready: Readiness, say: Say, timeouts: Timeouts) -> SwitchEnd:
    """Bring a switch that was cut short to its end. Raises CommandError."""
    home = ready.home
    if ready.chosen.machine is None:
        raise CommandError(
            Exit.CONFLICT,
            f"an upgrade of agent {home.agent!r} was cut short in the podman sandbox; 'minifram upgrade' ends it, "
            "'minifram down' gives it up",
        )
    podman, machine = _podman_of(context, ready)
    with control.alone(home):
        journal = switch_files.read_journal(home)
        if journal is None:
            raise CommandError(Exit.TRY_AGAIN, "another minifram command has just ended the upgrade; try again")
        say(f"an upgrade from {journal.old.name} to {journal.new.name} was cut short; it goes on")
        ship = Ship(podman, machine, journal.new, context.root, context.network)
        return Switch(context, ready._replace(ship=ship), journal, say, timeouts).run()


# --- before it begins ----------------------------------------------------------------------------


def _in_container(context: Context) -> AgentPaths:
    home = context.initialised()
    sandbox = record.sandbox_in_use(home)
    if sandbox and sandbox != PODMAN:
        so = "the process sandbox runs the installed code; 'minifram restart' starts it again"
        raise not_contained(home.agent, so)
    if not sandbox:
        raise not_running(home)
    return home


def _podman_of(context: Context, ready: Readiness) -> tuple[Podman, Machine]:
    machine = ready.chosen.machine
    assert machine is not None  # noqa: S101 - what choosing podman means
    return choice.podman_of(context, machine), machine


def _at_work(podman: Podman, home: AgentPaths) -> ContainerState:
    found = control.look(podman, home)
    if found is None or not found.runs:
        raise not_running(home)
    if found.unit:
        raise CommandError(
            Exit.CONFLICT,
            f"the container is systemd's ({found.unit}), which makes a new one at each start: "
            f"'minifram generate quadlet --install' and 'systemctl --user restart {found.unit}' "
            "upgrade it, without proof or return",
        )
    return found


def _begin(
    context: Context,
    ready: Readiness,
    found: ContainerState,
    new: Image,
    kept: str | None,
    say: Say,
    timeouts: Timeouts,
) -> SwitchEnd:
    """`kept` is the memory of the last watcher of `new`, when it had one."""
    assert ready.ship is not None  # noqa: S101 - the context has one
    home, podman = ready.home, ready.ship.podman
    with control.alone(home):
        again = control.look(podman, home)
        if again is None or again.id != found.id or not again.runs or switch_files.is_under_way(home):
            raise CommandError(Exit.TRY_AGAIN, "the agent's container was changed meanwhile; try again")
        control.remove(podman, home, names(home.agent).aside)  # of no journal, so of nothing
        memory, state = memory_at(home), state_at(home)
        journal = Journal(
            id=secrets.token_hex(8),
            at=timestamp(time.time()),
            old=Image(found.image, found.version),
            new=new,
            level=state.level if state else "",
            bring=switching.to_bring(kept, memory) if kept is not None else None,
        )
        switch_files.write_journal(home, journal)
        return Switch(context, ready, journal, say, timeouts).run()


def _upgraded(home: AgentPaths, end: SwitchEnd) -> Upgraded:
    """Raises CommandError for a switch that came back."""
    journal, now = end.journal, end.running
    if journal.why:
        how = "serves again" if now else "was started again and does not serve yet; see 'minifram status'"
        raise CommandError(
            Exit.FAILURE,
            f"the upgrade to {journal.new.name} was taken back, and {journal.old.name} {how}. {journal.why}",
        )
    assert now is not None  # noqa: S101 - it was found to serve
    return Upgraded(home.agent, journal.old.version, journal.new.version, now.pid, now.branch, now.commit, now.seconds)
