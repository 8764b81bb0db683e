"""`minifram upgrade`: the new image proves itself, takes the agent over, and goes again when the agent does not serve.

The journal is on the disk before the old container is touched; from there on each step is chosen by `switching` from
the journal and the containers that are there, so whoever comes next, after a power cut too, goes on with it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from host.agent import proof
from host.agent import up as running
from host.agent.consent import Consent, require
from host.agent.up import Readiness
from host.container import base, choice, control, lifecycle, serving, switch_files, switching
from host.container.inspection import Seen
from host.container.lifecycle import Container, Ship, as_command_error
from host.container.machine import Machine
from host.container.podman import Podman, PodmanError
from host.container.switching import Journal, Step
from host.container.words import Image, names, sealing
from host.context import Context, as_option
from host.display import Say
from host.errors import CommandError
from host.paths import AgentPaths, known_agents
from host.repository import open as bare
from host.running import record
from host.running import start as starting
from host.running import watcher as watching
from host.running.record import PODMAN
from host.running.start import UP_SECONDS, Before, Running
from host.running.watcher import DOWN_SECONDS
from infra.shared import comms, watcher_file
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.people import WATCHER
from infra.shared.repository.git import GitError
from infra.shared.repository.page import told, write_reports
from infra.shared.repository.page_text import PAGE, USUAL, Entry
from infra.shared.repository.tip import TipBusy
from infra.shared.safe_files import whole_file

REASON_CHARS, REASON_LINES = 2000, 12


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


class Ended(NamedTuple):
    """A switch that came to its end, here or there."""

    journal: Journal
    running: Running | None
    """None when even the old one does not serve (yet)."""


class Limits(NamedTuple):
    """Seconds."""

    down: float = DOWN_SECONDS
    up: float = UP_SECONDS


def upgrade(context: Context, consent: Consent, say: Say, limits: Limits) -> Upgraded:
    """To the installed version. Raises CommandError, also when the agent had to be brought back."""
    home = _in_container(context)
    if switch_files.is_under_way(home):
        return _told(home, settle(context, running.make_ready(context, None, say, goes_on=True), say, limits))
    ready, podman, _ = _ready(context, say)
    with as_command_error():
        found = _at_work(podman, home)
        ready = running.fit_out(context, ready, False, say)
        assert ready.ship is not None  # noqa: S101 - what choosing podman means
        new = ready.ship.image
        if found.version == new.version:
            return _as_it_is(home, found)
        require(home, ready.settings, ready.sandbox, "upgrade", consent)
        proof.prove(context, home, new, ready.settings.podman.base, say)
        return _told(home, _begin(context, ready, found, new, None, say, limits))


def go_back(context: Context, consent: Consent, say: Say, limits: Limits) -> Upgraded:
    """To the image before the last upgrade. Raises CommandError."""
    home = _in_container(context)
    if switch_files.is_under_way(home):
        return _told(home, settle(context, running.make_ready(context, None, say, goes_on=True), say, limits))
    done = switch_files.read_done(home)
    if done is None:
        raise CommandError(
            Exit.NOT_FOUND, f"agent {home.agent!r} was never upgraded, so there is nothing to go back to"
        )
    ready, podman, machine = _ready(context, say)
    with as_command_error():
        found = _at_work(podman, home)
        if found.version == done.old.version:
            return _as_it_is(home, found)
        require(home, ready.settings, ready.sandbox, "upgrade --back", consent)
        if base.look(podman, done.old.name) is None:
            raise CommandError(Exit.NOT_FOUND, f"the image {done.old.name} is not there any more; nothing was changed")
        ready = ready._replace(ship=Ship(podman, machine, done.old, context.root, context.network))
        return _told(home, _begin(context, ready, found, done.old, done.memory, say, limits))


def settle(context: Context, ready: Readiness, say: Say, limits: Limits) -> Ended:
    """Bring a switch that was cut short to its end. Raises CommandError."""
    home = ready.home
    machine = ready.chosen.machine
    if machine is None:
        raise CommandError(
            Exit.CONFLICT,
            f"an upgrade of agent {home.agent!r} was cut short in the podman sandbox; 'minifram upgrade' ends it, "
            "'minifram down' gives it up",
        )
    podman = choice.podman_of(context, machine)
    with as_command_error(), control.alone(home):
        journal = switch_files.read_journal(home)
        if journal is None:
            raise CommandError(Exit.TRY_AGAIN, "another minifram command has just ended the upgrade; try again")
        say(f"an upgrade from {journal.old.name} to {journal.new.name} was cut short; it goes on")
        ship = Ship(podman, machine, journal.new, context.root, context.network)
        return _Switch(context, ready._replace(ship=ship), journal, say, limits).run()


# --- before it begins ----------------------------------------------------------------------------


def _in_container(context: Context) -> AgentPaths:
    home = context.initialised()
    sandbox = record.sandbox_in_use(home)
    if sandbox and sandbox != PODMAN:
        raise CommandError(
            Exit.USAGE,
            "nothing to upgrade: the process sandbox runs the installed code; "
            f"'minifram restart{as_option(home.agent)}' starts it anew",
        )
    if not sandbox:
        raise watching.not_running(home)
    return home


def _ready(context: Context, say: Say) -> tuple[Readiness, Podman, Machine]:
    ready = running.make_ready(context, None, say, goes_on=True)
    if ready.sandbox != PODMAN:
        raise CommandError(
            Exit.USAGE,
            f"the settings ask for the sandbox {ready.sandbox!r} now, and the agent runs in podman's: "
            f"'minifram restart{as_option(ready.home.agent)}' changes that",
        )
    machine = ready.chosen.machine
    assert machine is not None  # noqa: S101 - what choosing podman means
    return ready, choice.podman_of(context, machine), machine


def _at_work(podman: Podman, home: AgentPaths) -> Seen:
    found = control.look(podman, home)
    if found is None or not found.runs:
        raise watching.not_running(home)
    if found.unit:
        raise CommandError(
            Exit.CONFLICT,
            f"the container is systemd's ({found.unit}), which makes it anew at each start: "
            f"'minifram generate quadlet --install{as_option(home.agent)}' and 'systemctl --user restart {found.unit}' "
            "upgrade it, without proof or return",
        )
    return found


def _as_it_is(home: AgentPaths, found: Seen) -> Upgraded:
    state = _state(home) or watcher_file.WatcherFile()
    return Upgraded(home.agent, found.version, found.version, found.pid, state.branch, state.commit, 0.0)


def _begin(
    context: Context, ready: Readiness, found: Seen, new: Image, kept: str | None, say: Say, limits: Limits
) -> Ended:
    """`kept` is the memory of the last watcher of `new`, when it had one."""
    assert ready.ship is not None  # noqa: S101 - whoever calls has one
    home, podman = ready.home, ready.ship.podman
    with control.alone(home):
        again = control.look(podman, home)
        if again is None or again.id != found.id or not again.runs or switch_files.is_under_way(home):
            raise CommandError(Exit.TRY_AGAIN, "the agent's container was changed meanwhile; try again")
        control.remove(podman, home, names(home.agent).aside)  # of no journal, so of nothing
        memory, state = _memory(home), _state(home)
        journal = Journal(
            id=secrets.token_hex(8),
            at=timestamp(time.time()),
            old=Image(found.image, found.version),
            new=new,
            by_hand=kept is not None,
            rung=state.rung if state else "",
            bring=switching.to_bring(kept, memory) if kept is not None else None,
        )
        switch_files.write_journal(home, journal)
        return _Switch(context, ready, journal, say, limits).run()


def _memory(home: AgentPaths) -> str:
    try:
        return switch_files.read_memory(home)
    except ValueError as error:
        raise CommandError(Exit.CONFLICT, f"the watcher's memory cannot be kept: {error}") from None


def _state(home: AgentPaths) -> watcher_file.WatcherFile | None:
    try:
        return watching.glimpse(home)
    except ValueError:  # of another schema, perhaps: the upgrade does not depend on it
        return None


# --- the switch ----------------------------------------------------------------------------------


class _Switch:
    """One switch, step by step; whoever makes it holds the agent's lock."""

    def __init__(self, context: Context, ready: Readiness, journal: Journal, say: Say, limits: Limits) -> None:
        assert ready.ship is not None  # noqa: S101 - whoever calls has one
        self._ready, self._journal, self._say, self._limits = ready, journal, say, limits
        self._context, self._home, self._ship, self._podman = context, ready.home, ready.ship, ready.ship.podman
        self._names = names(self._home.agent)
        self._container: Container | None = None
        self._before = Before(None, 0, frozenset())
        self._verdict: str | None = None
        self._running: Running | None = None

    def run(self) -> Ended:
        do: dict[Step, Callable[[], None]] = {
            Step.STOP_OLD: self._stop_old,
            Step.COPY_MEMORY: self._copy_memory,
            Step.SET_ASIDE: lambda: control.rename(self._podman, self._names.container, self._names.aside),
            Step.STOP_ASIDE: lambda: self._stop(self._names.aside),
            Step.BEGIN_NEW: self._begin_new,
            Step.AWAIT_NEW: self._await_new,
            Step.FINISH: self._finish,
            Step.TURN_BACK: self._turn_back,
            Step.REMOVE_NEW: self._remove_new,
            Step.PUT_BACK: self._put_back,
            Step.MAKE_OLD: self._make_old,
            Step.START_OLD: self._start_old,
            Step.AWAIT_OLD: self._await,
            Step.CLOSE: self._close,
        }
        try:
            while True:
                step = switching.next_step(self._journal, self._facts())
                do[step]()
                if step in (Step.FINISH, Step.CLOSE):
                    return Ended(self._journal, self._running)
        except BaseException:
            self._say(f"the upgrade is half done: 'minifram upgrade{as_option(self._home.agent)}' ends it")
            raise
        finally:
            self._let_go()

    def _facts(self) -> switching.Facts:
        named = control.look(self._podman, self._home)
        aside = control.look(self._podman, self._home, self._names.aside)
        return lifecycle.facts_of(named, aside, self._verdict, self._container is not None)

    # forward

    def _stop_old(self) -> None:
        self._stop(self._names.container)

    def _stop(self, name: str) -> None:
        found = control.look(self._podman, self._home, name)
        if found and found.runs:
            control.stop(self._podman, self._home, found, self._limits.down, self._say, name)

    def _copy_memory(self) -> None:
        try:
            self._write(self._journal._replace(memory=switch_files.read_memory(self._home)))
        except ValueError as error:
            self._verdict = f"the watcher's memory could not be kept: {error}"

    def _begin_new(self) -> None:
        bring = self._journal.bring
        if bring and switching.to_bring(bring, _memory(self._home)):
            switch_files.write_memory(self._home, bring)
        try:
            self._make(self._journal.new)
        except (CommandError, PodmanError) as error:
            self._verdict = str(error)

    def _await_new(self) -> None:
        self._await()
        if self._verdict:
            self._verdict = f"{self._verdict}.{_last_words(self._podman, self._home, self._journal.at)}"

    def _finish(self) -> None:
        home, journal, podman = self._home, self._journal, self._podman
        self._tell_what_was_forgotten()
        control.remove(podman, home, self._names.aside)
        self._drop_older_image()
        self._ready.remember()
        memory = journal.memory or ""
        switch_files.write_done(home, switch_files.Done(journal.at, journal.old, journal.new, memory))
        switch_files.remove_journal(home)

    # back

    def _turn_back(self) -> None:
        why = self._verdict or "the containers were changed by other hands"
        self._say(f"{self._journal.new.name} does not serve, {self._journal.old.name} comes back: {why}")
        self._let_go()
        self._write(self._journal._replace(why=why[:REASON_CHARS]))
        self._verdict = None

    def _remove_new(self) -> None:
        self._let_go()
        found = control.look(self._podman, self._home)
        if found and found.runs:
            control.stop(self._podman, self._home, found, self._limits.down, self._say)
        write_whole(self._home.watcher_output, control.output(self._podman, self._home).encode(), mode=0o600)
        control.remove(self._podman, self._home)

    def _put_back(self) -> None:
        self._put_memory_back()
        control.rename(self._podman, self._names.aside, self._names.container)

    def _make_old(self) -> None:
        self._put_memory_back()
        self._make(self._journal.old)

    def _put_memory_back(self) -> None:
        """What a watcher that did not serve held against versions of main says nothing."""
        if self._journal.memory is not None:
            switch_files.write_memory(self._home, self._journal.memory)

    def _start_old(self) -> None:
        self._let_go()
        self._before = starting.before_start(self._home)
        self._container = Container(self._podman, self._home, control.start_again(self._podman, self._home))
        control.start(self._podman, self._home)
        self._say(f"{self._journal.old.name} is started again")

    def _close(self) -> None:
        old, new, why = self._journal.old, self._journal.new, self._journal.why
        how = "serves again" if self._running else f"was started again and does not serve yet: {self._verdict}"
        title = f"minifram: the upgrade to image {new.version} was taken back"
        text = f"{why}\n\nThe image before, {old.version}, {how}. Its watcher has the memory that it had."
        self._tell(self._journal.id, title, text)
        control.remove(self._podman, self._home, self._names.aside)
        switch_files.remove_journal(self._home)

    # both

    def _make(self, image: Image) -> None:
        self._let_go()
        self._verdict = None
        ship, ready = self._ship, self._ready
        sealed = sealing(self._home, ready.settings, ship.machine, image, ship.root, ready.key_names, ship.network)
        self._before = starting.before_start(self._home)
        self._container = lifecycle.begun(self._podman, ship.machine, self._home, sealed, ready.keys)
        self._say(f"a container of {image.name} is started; waiting for the seal and for the agent to boot")

    def _await(self) -> None:
        if self._container is None:  # started by whoever was cut short
            found = control.look(self._podman, self._home)
            if found is None or not found.runs:
                return
            self._container = Container(self._podman, self._home, found)
        seen = serving.wait_until_serving(
            self._home,
            self._container,
            self._before,
            self._limits.up,
            self._context.steady,
            self._say,
            self._journal.rung,
        )
        self._running, self._verdict = seen

    def _write(self, journal: Journal) -> None:
        switch_files.write_journal(self._home, journal)
        self._journal = journal

    def _let_go(self) -> None:
        if self._container:
            self._container.close()
            self._container = None

    def _tell_what_was_forgotten(self) -> None:
        """A watcher that cannot read the memory of before sets it aside, and begins without."""
        memory = self._journal.memory or ""
        try:
            set_aside = whole_file(f"{self._home.places.watcher_state}.unreadable").decode(errors="surrogateescape")
        except (OSError, ValueError):
            return
        forgotten = switching.was_forgotten(memory) if set_aside == memory else ""
        if forgotten:
            title = "minifram: after the upgrade the watcher could not read what it knew"
            self._tell(self._journal.id, title, f"It began anew. What it knew, and knows no more:\n\n{forgotten}")

    def _tell(self, id: str, title: str, text: str) -> None:
        try:
            tell_once(self._home, id, title, text, timestamp(time.time()))
        except (CommandError, GitError, TipBusy, OSError, comms.CommsError) as error:
            self._say(f"this could not be written to {PAGE} ({error}): {title}: {text}")

    def _drop_older_image(self) -> None:
        """The one before the one before, unless somebody needs it."""
        done = switch_files.read_done(self._home)
        if done is None:
            return
        needed = {self._journal.old.version, self._journal.new.version}
        for each in (done.old, done.new):
            if each.version not in needed and not _is_needed_by_others(self._context, each):
                try:
                    self._podman("image", "rm", each.name)
                except PodmanError as error:  # a container of another agent's, most likely
                    self._say(f"{each.name} stays: {error.said}")


def _is_needed_by_others(context: Context, image: Image) -> bool:
    for agent in known_agents(context.environ):
        try:
            done = switch_files.read_done(context._replace(agent=agent).home)
        except CommandError:
            return True
        if agent != context.agent and done and image in (done.old, done.new):
            return True
    return False


def tell_once(home: AgentPaths, id: str, title: str, text: str, at: str) -> None:
    """Put a report onto the page, unless the last commits of main tell it. Raises CommandError, GitError, TipBusy."""
    git = bare.open_repository(home, WATCHER)
    if id not in told(git, WATCHER):
        write_reports(git, f"COMMS: {title}", [Entry(at, title, text)], [id], (), USUAL)


def _last_words(podman: Podman, home: AgentPaths, since: str) -> str:
    """What the container said, and what its watcher met."""
    lines = control.output(podman, home).splitlines()
    try:
        state = watching.glimpse(home)
    except (OSError, ValueError) as error:
        lines.append(str(error))
    else:
        lines += [trouble.text for trouble in state.troubles if trouble.at >= since] if state else []
    shown = "\n".join(f"    {line}" for line in lines[-REASON_LINES:])
    return f" Its last words:\n\n{shown}" if shown else " It left no words."


def _told(home: AgentPaths, ended: Ended) -> Upgraded:
    """Raises CommandError for a switch that came back."""
    journal, now = ended.journal, ended.running
    if journal.why:
        how = "serves again" if now else "was started again and does not serve yet; see 'minifram status'"
        raise CommandError(
            Exit.FAILURE,
            f"the upgrade to {journal.new.name} was taken back, and {journal.old.name} {how}. {journal.why}",
        )
    assert now is not None  # noqa: S101 - it was found to serve
    return Upgraded(home.agent, journal.old.version, journal.new.version, now.pid, now.branch, now.commit, now.seconds)
