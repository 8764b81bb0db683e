"""`up`, `down` and `restart`: what is checked before, what is left behind, what changed.

Everything that can be wrong is found before anything is stopped or started. The models' keys pass from
the PM's environment into files that only the model door reads, and are removed with the agent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from host.agent.birth import give_mind
from host.agent.model_check import problem_with_model
from host.agent.settings_text import flat
from host.context import Context
from host.display import Say
from host.errors import failure, not_found, usage
from host.notify import process as notifications
from host.paths import AgentPaths, missing_settings, secure_directory, secure_run_directory
from host.repository.open import pm_of, problem_with_repository
from host.repository.repair import machine_started, put_hooks, repair
from host.running import record
from host.running.record import PODMAN
from host.running.start import UP_SECONDS, Running, keep_environment, start
from host.running.watcher import DOWN_SECONDS, already_running, holder, known_state, last_words, stop
from infra.shared.files import write_whole
from infra.shared.model_settings import keys_needed, model_words
from infra.shared.providers import KEYS, provider_with, variable_of
from infra.shared.settings import Settings
from infra.shared.settings_file import read_settings

if TYPE_CHECKING:
    from host.agent.sealed import Ship
    from host.container.choice import Choice
    from host.container.machine import Machine


class Readiness(NamedTuple):
    """What `up` needs, all checked."""

    home: AgentPaths
    settings: Settings
    chosen: Choice
    keys: Mapping[str, str]
    """The keys that the models need, by name, without those that podman still holds."""
    held: tuple[str, ...] = ()
    """The names of the keys that podman still holds."""
    ship: Ship | None = None
    """For podman: with what the container is made; filled in by `fit_out`."""

    @property
    def sandbox(self) -> str:
        return self.chosen.sandbox

    @property
    def key_names(self) -> tuple[str, ...]:
        """Of all keys that the models need."""
        return tuple(key for key in KEYS if key in self.keys or key in self.held)

    def flat_settings(self) -> dict[str, Any]:
        return flat(self.settings) | {"sandbox": self.sandbox}

    def remember(self) -> None:
        """With what the agent is started, for the commands that come later."""
        sealed = self.sandbox == PODMAN or record.was_sealed(self.home)
        record.write(self.home, self.sandbox, sealed, self.key_names, self.flat_settings())


class Up(NamedTuple):
    agent: str
    sandbox: str
    model: str
    pid: int
    branch: str
    commit: str
    seconds: float
    level: str
    """What runs: `main`, or what stands in for it."""


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
    level: str
    """As in `Up`."""
    settings_changed: dict[str, list[Any]]
    """Key -> [with what the agent was started last, with what it runs now]."""


def make_ready(context: Context, sandbox: str | None, say: Say, goes_on: bool = False) -> Readiness:
    """Check all that `up` needs; with `goes_on`, the keys of the agent that runs now will do. What a power cut has
    damaged is repaired, and hooks of ours that are missing are put in place. Raises CommandError and SettingsError."""
    from host.container import choice

    home = context.initialised()
    if not os.path.lexists(home.settings):
        raise missing_settings(home)
    settings = read_settings(home.settings)
    for done in repair(home, machine_started()):
        say(done)
    if problem := problem_with_repository(home):
        raise problem
    put_hooks(home.remote)
    give_mind(home, context.root, pm_of(context.environ), say)
    notifications.protect_settings(home, settings, say)
    chosen = choice.choose(context, sandbox or settings.sandbox, record.was_sealed(home))
    if out_of_reach := problem_with_model(home, settings.model, chosen.sandbox):
        raise usage(out_of_reach)
    keys, held = _keys(context, home, settings, chosen, goes_on or os.path.lexists(home.switch_file))
    return Readiness(home, settings, chosen, keys, held)


def _keys(
    context: Context, home: AgentPaths, settings: Settings, chosen: Choice, goes_on: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The keys that the models need, and the names of those that podman holds. Raises CommandError."""
    given = {key: context.environ.get(variable_of(key), "") for key in KEYS}
    missing = [key for key in KEYS if not given[key]] if goes_on else []
    held: list[str] = []  # podman gives no key back, and need not
    if missing and record.sandbox_in_use(home) == PODMAN:
        from host.container import choice, control

        podman = choice.podman_at_hand(context, chosen.machine)
        held = [key for key in control.keys_held(podman, home) if key in missing]
    else:
        for key in missing:
            with (
                contextlib.suppress(FileNotFoundError, UnicodeDecodeError),
                open(home.key_file(key), encoding="utf-8") as file,
            ):
                given[key] = file.read().strip()
    needed = keys_needed(settings.model, [key for key in KEYS if given[key] or key in held])
    lost = [variable_of(key) for key in needed if key in held] if chosen.sandbox != PODMAN else []
    if lost:
        raise not_found(f"podman does not give the key back that the agent has: export it in {' and '.join(lost)}")
    return (
        {key: checked_key(key, given[key]) for key in needed if key not in held},
        tuple(key for key in needed if key in held),
    )


def checked_key(name: str, key: str) -> str:
    """The key as it can stand in an HTTP header. Raises CommandError; its text never holds the key."""
    key, variable = key.strip(), variable_of(name)
    if not key:
        raise not_found(
            f"model.provider or model.then is {provider_with(name)}, and {variable} is not set: "
            "export your key in it and try again, or set 'provider: scripted'"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise usage(f"{variable} holds spaces, control characters or non-ASCII; expected the bare key")
    return key


def fit_out(context: Context, ready: Readiness, rebuild: bool, say: Say) -> Readiness:
    """What takes long: for podman, the image is found or built. Raises CommandError."""
    if ready.sandbox != PODMAN or ready.ship:
        return ready
    from host.agent.sealed import Ship
    from host.container import choice, image

    machine = ready.chosen.machine
    assert machine is not None  # noqa: S101 - what choosing podman means
    podman = choice.podman_of(context, machine)
    base = ready.settings.podman.base
    found = image.find_or_build(podman, machine, context.environ, context.root, base, rebuild, say)
    return ready._replace(ship=Ship(podman, machine, found, context.root, context.network))


def start_agent(context: Context, ready: Readiness, say: Say, seconds: float = UP_SECONDS, rebuild: bool = False) -> Up:
    """Start the agent and wait until it works. Raises CommandError."""
    home = ready.home
    switching = os.path.lexists(home.switch_file)
    pid = holder(home.places.watcher_lock, record.sandbox_in_use(home) == PODMAN)
    if pid is not None and not switching:
        raise already_running(home, pid)
    secure_directory(home.state, context.uid)
    if not switching:
        ready = fit_out(context, ready, rebuild, say)
    with notifications.beside(context, home, ready.settings, say):
        begin = _finish_switch if switching else _start
        running = begin(context, ready, say, seconds)
    return Up(
        agent=home.agent,
        sandbox=ready.sandbox,
        model=model_words(ready.settings.model, ready.key_names),
        pid=running.pid,
        branch=running.branch,
        commit=running.commit,
        seconds=running.seconds,
        level=running.level,
    )


def _finish_switch(context: Context, ready: Readiness, say: Say, seconds: float) -> Running:
    """An upgrade that was interrupted: the agent runs again when that is at its end."""
    from host.agent.switch import Timeouts
    from host.agent.upgrade import settle

    ended = settle(context, ready, say, Timeouts(up=seconds))
    if ended.journal.why:
        say(f"the upgrade was taken back: {ended.journal.why}")
    if ended.running is None:
        raise failure(f"the agent does not work; {last_words(ready.home)}")
    return ended.running


def _start(context: Context, ready: Readiness, say: Say, seconds: float) -> Running:
    home = ready.home
    if ready.ship:
        from host.agent import sealed

        ready.remember()  # before the container: whatever happens then, `down` knows where to look
        return sealed.up(home, ready.settings, ready.ship, ready.keys, ready.key_names, say, seconds)
    say(
        "WARNING: process sandbox: agent and keep run as your own user and are NOT isolated from each other "
        "or from your files; use it for development and demonstration only"
    )
    if ready.chosen.why:
        say(f"it was chosen because {ready.chosen.why}; 'minifram doctor' says more")
    if os.path.isdir(home.places.bot) and os.stat(home.places.bot).st_uid != context.uid:
        from host.container import cell_tree, choice

        # It still belongs to the user that the cell had in the container.
        cell_tree.give_tree(choice.podman_at_hand(context), home, 0, context.uid)
    secure_run_directory(home, context.uid)
    _remove_keys(home)  # of an earlier start with another provider
    if ready.keys:
        secure_directory(home.places.secrets, context.uid)
    for name, key in ready.keys.items():
        write_whole(home.key_file(name), f"{key}\n".encode(), mode=0o600)
    ready.remember()
    try:
        return start(home, context.watcher, keep_environment(context.environ, context.root), seconds, say)
    except BaseException:
        if holder(home.places.watcher_lock) is None:
            _remove_keys(home)
        raise


def stop_agent(
    context: Context, say: Say, seconds: float = DOWN_SECONDS, keep_key: bool = False, seen: Machine | None = None
) -> Down:
    """End the agent and take its key away; `seen` is this machine where the command has looked at it. Raises
    CommandError, also when it was not running."""
    home = context.initialised()
    try:
        return _stop(context, home, say, seconds, keep_key, seen)
    finally:
        notifications.stop_quietly(home, say)


def _stop(context: Context, home: AgentPaths, say: Say, seconds: float, keep_key: bool, seen: Machine | None) -> Down:
    if record.sandbox_in_use(home) == PODMAN:
        from host.agent import sealed
        from host.container import choice

        return Down(home.agent, sealed.down(home, choice.podman_at_hand(context, seen), seconds, keep_key, say))
    earlier = home._replace(run=str(record.read(home).get("run", home.run)))
    try:
        pid = stop(home, seconds, say)
    finally:
        if holder(home.places.watcher_lock) is None:
            _remove_keys(home)
            _remove_keys(earlier)
    return Down(home.agent, pid)


def restart_agent(
    context: Context, sandbox: str | None, say: Say, down_seconds: float, up_seconds: float, rebuild: bool = False
) -> Restarted:
    """`down`, if it runs, then `up`; nothing is stopped when `up` could not follow."""
    home = context.initialised()
    ready = fit_out(context, make_ready(context, sandbox, say, goes_on=True), rebuild, say)
    old = record.read(home).get("settings", {})
    before, pid_before = "", 0
    if holder(home.places.watcher_lock) is not None:
        with contextlib.suppress(ValueError):  # the restart does not depend on what the watcher wrote
            state = known_state(home)
            before = f"{state.branch}@{state.commit}" if state and state.branch else ""
        pid_before = stop_agent(context, say, down_seconds, bool(ready.held), ready.chosen.machine).pid
    started = start_agent(context, ready, say, up_seconds)
    new = ready.flat_settings()
    changed = {key: [old.get(key), new.get(key)] for key in sorted(old.keys() | new.keys()) if old}
    changed = {key: both for key, both in changed.items() if both[0] != both[1]}
    after = f"{started.branch}@{started.commit}"
    return Restarted(home.agent, before, after, pid_before, started.pid, started.level, changed)


def _remove_keys(home: AgentPaths) -> None:
    for name in KEYS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home.key_file(name))
