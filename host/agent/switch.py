"""One switch of an agent from an image to another, step by step: what `switching` chooses is done here.

The context holds the agent's lock. What does not serve goes again, and the PM reads why."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from host.agent import sealed, switch_files
from host.agent.sealed import Container
from host.agent.up import Readiness
from host.container import control, switching
from host.container.podman import Podman, PodmanError
from host.container.switching import Journal, SwitchStep
from host.container.words import Image, names, sealing
from host.context import Context
from host.display import Say
from host.errors import CommandError
from host.paths import AgentPaths, known_agents
from host.repository.open import open_repository
from host.running.start import UP_SECONDS, Before, NotYet, Running, before_start, wait_until_running
from host.running.watcher import DOWN_SECONDS, POLL_SECONDS, glimpse
from infra.shared import comms
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.people import WATCHER
from infra.shared.repository.git import GitError
from infra.shared.repository.page import reported, write_reports
from infra.shared.repository.page_text import PAGE, USUAL, ReportEntry
from infra.shared.repository.tip import TipBusy
from infra.shared.safe_files import whole_file
from infra.shared.watcher_file import RUNNING, SAFE_LEVEL, WatcherFile

REASON_CHARS, REASON_LINES = 2000, 12


class SwitchEnd(NamedTuple):
    journal: Journal
    running: Running | None
    """None when even the old one does not serve (yet)."""


class Timeouts(NamedTuple):
    """Seconds."""

    down: float = DOWN_SECONDS
    up: float = UP_SECONDS


class Switch:
    """One switch, step by step; its maker holds the agent's lock."""

    def __init__(self, context: Context, ready: Readiness, journal: Journal, say: Say, timeouts: Timeouts) -> None:
        assert ready.ship is not None  # noqa: S101 - the context has one
        self._caller, self._ready, self._journal, self._say, self._timeouts = context, ready, journal, say, timeouts
        self._home, self._ship, self._podman = ready.home, ready.ship, ready.ship.podman
        self._name, self._aside = names(self._home.agent).container, names(self._home.agent).aside
        self._container: Container | None = None
        self._before = Before(None, 0, frozenset())
        self._verdict: str | None = None
        self._running: Running | None = None

    def run(self) -> SwitchEnd:
        do: dict[SwitchStep, Callable[[], None]] = {
            SwitchStep.STOP_OLD: lambda: self._stop(self._name),
            SwitchStep.COPY_MEMORY: self._copy_memory,
            SwitchStep.SET_ASIDE: self._set_aside,
            SwitchStep.STOP_ASIDE: lambda: self._stop(self._aside),
            SwitchStep.BEGIN_NEW: self._begin_new,
            SwitchStep.AWAIT_NEW: self._await_new,
            SwitchStep.FINISH: self._finish,
            SwitchStep.TURN_BACK: self._turn_back,
            SwitchStep.REMOVE_NEW: self._remove_new,
            SwitchStep.PUT_BACK: self._put_back,
            SwitchStep.MAKE_OLD: self._make_old,
            SwitchStep.START_OLD: self._start_old,
            SwitchStep.AWAIT_OLD: self._await,
            SwitchStep.CLOSE: self._close,
        }
        try:
            while True:
                named, aside = (control.look(self._podman, self._home, name) for name in (self._name, self._aside))
                facts = sealed.facts_of(named, aside, self._verdict, self._container is not None)
                step = switching.next_step(self._journal, facts)
                do[step]()
                if step in (SwitchStep.FINISH, SwitchStep.CLOSE):
                    switch_files.remove_journal(self._home)
                    return SwitchEnd(self._journal, self._running)
        except BaseException:
            self._say("the upgrade is half done: 'minifram upgrade' ends it")
            raise
        finally:
            self._watch(None)

    # forward

    def _stop(self, name: str) -> None:
        found = control.look(self._podman, self._home, name)
        if found and found.runs:
            control.stop(self._podman, self._home, found, self._timeouts.down, self._say, name)

    def _copy_memory(self) -> None:
        try:
            self._write(self._journal._replace(memory=switch_files.read_memory(self._home)))
        except ValueError as error:
            self._verdict = f"the watcher's memory could not be kept: {error}"

    def _set_aside(self) -> None:
        self._podman("rename", self._name, self._aside)

    def _begin_new(self) -> None:
        bring = self._journal.bring
        if bring and switching.to_bring(bring, memory_at(self._home)):
            switch_files.write_memory(self._home, bring)
        try:
            self._make(self._journal.new)
        except CommandError as error:
            self._verdict = str(error)

    def _await_new(self) -> None:
        self._await()
        if self._verdict:
            self._verdict = f"{self._verdict}.{_last_words(self._podman, self._home, self._journal.at)}"

    def _finish(self) -> None:
        home, journal = self._home, self._journal
        self._report_what_was_forgotten()
        control.remove(self._podman, home, self._aside)
        self._drop_older_images()
        self._ready.remember()
        switch_files.write_done(home, switch_files.Done(journal.at, journal.old, journal.new, journal.memory or ""))

    # back

    def _turn_back(self) -> None:
        why = self._verdict or "the containers were changed by other hands"
        self._say(f"{self._journal.new.name} does not serve, {self._journal.old.name} comes back: {why}")
        self._watch(None)
        self._write(self._journal._replace(why=why[:REASON_CHARS]))
        self._verdict = None

    def _remove_new(self) -> None:
        self._watch(None)
        self._stop(self._name)
        sealed.keep_output(self._podman, self._home)
        control.remove(self._podman, self._home)

    def _put_back(self) -> None:
        self._put_memory_back()
        self._podman("rename", self._aside, self._name)

    def _make_old(self) -> None:
        self._put_memory_back()
        self._make(self._journal.old)

    def _put_memory_back(self) -> None:
        """What a watcher that did not serve held against versions of main does not count."""
        if self._journal.memory is not None:
            switch_files.write_memory(self._home, self._journal.memory)

    def _start_old(self) -> None:
        self._before = before_start(self._home)
        self._watch(Container(self._podman, self._home, control.prepare(self._podman, self._name)))
        control.start(self._podman, self._home)
        self._say(f"{self._journal.old.name} is started again")

    def _close(self) -> None:
        old, new, why = self._journal.old, self._journal.new, self._journal.why
        how = "serves again" if self._running else f"was started again and does not serve yet: {self._verdict}"
        title = f"minifram: the upgrade to image {new.version} was taken back"
        text = f"{why}\n\nThe image before, {old.version}, {how}. Its watcher has the memory that it had."
        self._report(title, text)
        control.remove(self._podman, self._home, self._aside)

    # both

    def _make(self, image: Image) -> None:
        self._watch(None)
        self._verdict = None
        ship, ready = self._ship, self._ready
        seal = sealing(self._home, ready.settings, ship.machine, image, ship.root, ready.key_names, ship.network)
        self._before = before_start(self._home)
        self._watch(sealed.make_and_start(self._podman, ship.machine, self._home, seal, ready.keys))
        self._say(f"a container of {image.name} is started; waiting for the seal and for the agent to boot")

    def _await(self) -> None:
        if self._container is None:  # started by the command that was cut short
            found = control.look(self._podman, self._home)
            if found is None or not found.runs:
                return
            self._watch(Container(self._podman, self._home, found))
        assert self._container is not None  # noqa: S101 - just made
        began = time.monotonic()
        self._running, self._verdict = None, ""
        try:
            ended = wait_until_running(
                self._home, self._container, self._before, self._timeouts.up, self._say, in_container=True
            )
        except NotYet as trouble:
            self._verdict = trouble.what
            return
        if not isinstance(ended, Running):
            self._verdict = f"the container ended with {ended} before its agent worked"
            return
        state = self._steady_state(began)
        if isinstance(state, str):
            self._verdict = state
        else:
            seconds = time.monotonic() - began
            self._running = Running(ended.pid, state.branch, state.commit, state.boot_id, seconds, state.level)

    def _steady_state(self, began: float) -> WatcherFile | str:
        """What the watcher says when the same boot has worked for `steady` seconds on end, and not only in safe mode;
        else why not."""
        assert self._container is not None  # noqa: S101 - called for one
        steady, boot, since = self._caller.steady, "", time.monotonic()
        deadline = since + self._timeouts.up + steady
        while True:
            now, state, status = time.monotonic(), state_at(self._home), self._container.poll()
            if status is not None:
                return f"the container ended with {status} after {now - began:.0f} s"
            if state is None or state.phase != RUNNING or state.boot_id != boot:
                boot, since = state.boot_id if state else "", now
            elif now - since >= steady:
                is_worse = state.level == SAFE_LEVEL != self._journal.level
                return "neither main nor its last good version lives there, only safe mode" if is_worse else state
            if now > deadline:
                phase = state.phase if state else "without a word"
                return f"the agent did not work for {steady:g} s on end in {now - began:.0f} s ({phase})"
            time.sleep(POLL_SECONDS)

    def _write(self, journal: Journal) -> None:
        switch_files.write_journal(self._home, journal)
        self._journal = journal

    def _watch(self, container: Container | None) -> None:
        if self._container:
            self._container.close()
        self._container = container

    def _report_what_was_forgotten(self) -> None:
        """A watcher that cannot read the memory of before sets it aside, and begins without."""
        memory = self._journal.memory or ""
        try:
            set_aside = whole_file(f"{self._home.places.watcher_state}.unreadable")
        except (OSError, ValueError):
            return
        forgotten = switching.was_forgotten(memory)
        if forgotten and set_aside == memory.encode(errors="surrogateescape"):
            title = "minifram: after the upgrade the watcher could not read what it knew"
            self._report(title, f"It began without. What it knew, and knows no more:\n\n{forgotten}")

    def _report(self, title: str, text: str) -> None:
        """Put a report onto the page, unless the last commits of main hold it."""
        try:
            git = open_repository(self._home, WATCHER)
            if self._journal.id not in reported(git, WATCHER):
                entry = ReportEntry(timestamp(time.time()), title, text)
                write_reports(git, f"COMMS: {title}", [entry], [self._journal.id], (), USUAL)
        except (CommandError, GitError, TipBusy, OSError, comms.CommsError) as error:
            self._say(f"this could not be written to {PAGE} ({error}): {title}: {text}")

    def _drop_older_images(self) -> None:
        """Of the upgrade before this one, unless somebody needs them."""
        done = switch_files.read_done(self._home)
        for each in {done.old, done.new} - {self._journal.old, self._journal.new} if done else ():
            if not _is_needed_by_others(self._caller, each):
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


def _last_words(podman: Podman, home: AgentPaths, since: str) -> str:
    """What the container said, and what its watcher met."""
    lines = control.output(podman, home).splitlines()
    try:
        state = glimpse(home)
    except (OSError, ValueError) as error:
        lines.append(str(error))
    else:
        lines += [trouble.text for trouble in state.troubles if trouble.at >= since] if state else []
    shown = "\n".join(f"    {line}" for line in lines[-REASON_LINES:])
    return f" Its last output:\n\n{shown}" if shown else " It wrote no output."


def memory_at(home: AgentPaths) -> str:
    try:
        return switch_files.read_memory(home)
    except ValueError as error:
        raise CommandError(Exit.CONFLICT, f"the watcher's memory cannot be kept: {error}") from None


def state_at(home: AgentPaths) -> WatcherFile | None:
    try:
        return glimpse(home)
    except ValueError:  # of another schema, perhaps: the upgrade does not depend on it
        return None
