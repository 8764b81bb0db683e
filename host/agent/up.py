"""`up`, `down` and `restart`: what is checked before, what is left behind, what changed.

Everything that can be wrong is found before anything is stopped or started. The models' keys pass from
the PM's environment into files that only the model door reads, and go away with the agent."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from host.agent import start as starting
from host.agent import watcher as watching
from host.agent.paths import Home, secure_directory, secure_run_directory
from host.agent.watcher import Say
from host.context import Caller
from host.errors import Trouble
from host.repository import mending
from host.repository import open as bare
from host.repository.guard import put_guard
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.model_reach import problem_in_sandbox
from infra.shared.model_settings import keys_needed, model_words
from infra.shared.providers import KEYS, provider_with, variable_of
from infra.shared.safe_files import whole_file
from infra.shared.settings import Settings
from infra.shared.settings_file import read_settings
from infra.shared.settings_trust import Difference, needing_consent

if TYPE_CHECKING:
    from host.agent.sealed import Ship
    from host.container.choice import Choice

PODMAN, PROCESS = "podman", "process"
UP_SCHEMA = "minifram.up/1"


class Readiness(NamedTuple):
    """What `up` needs, all checked."""

    home: Home
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


class Up(NamedTuple):
    agent: str
    sandbox: str
    model: str
    pid: int
    branch: str
    commit: str
    seconds: float
    rung: str
    """Who leads: `main`, or who stands in for it."""


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
    rung: str
    """Who leads now."""
    settings_changed: dict[str, list[Any]]
    """Key -> [with what the agent was started last, with what it runs now]."""


def make_ready(caller: Caller, sandbox: str | None, say: Say, goes_on: bool = False) -> Readiness:
    """Check all that `up` needs; with `goes_on`, the keys of the agent that runs now will do. What a power cut has
    spoilt is mended, and hooks of ours that an earlier version had not are put in place. Raises Trouble and
    SettingsError."""
    from host.container import choice

    home = caller.initialised()
    if not os.path.lexists(home.settings):
        raise Trouble(
            Exit.NOT_FOUND,
            f"the settings of agent {home.agent!r} are missing: expected {home.settings}; "
            "an empty file there means all defaults",
        )
    settings = read_settings(home.settings)
    for done in mending.mend(home, mending.machine_started()):
        say(done)
    problem = bare.problem_with_repository(home)
    if problem:
        raise problem
    put_guard(home.remote)
    chosen = choice.choose(caller, sandbox or settings.sandbox, was_sealed(home))
    out_of_reach = problem_in_sandbox(settings.model, chosen.sandbox)
    if out_of_reach:
        raise Trouble(Exit.USAGE, out_of_reach)
    keys, held = _keys(caller, home, settings, chosen.sandbox, goes_on or os.path.lexists(home.switch_file))
    return Readiness(home, settings, chosen, keys, held)


def _keys(
    caller: Caller, home: Home, settings: Settings, sandbox: str, goes_on: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The keys that the models need, and the names of those that podman holds. Raises Trouble."""
    given = {key: caller.environ.get(variable_of(key), "") for key in KEYS}
    missing = [key for key in KEYS if not given[key]] if goes_on else []
    held: list[str] = []  # podman gives no key back, and need not
    if missing and sandbox_in_use(home) == PODMAN:
        held = [key for key in _keys_in_podman(caller, home) if key in missing]
    elif missing:
        given |= {key: _running_key(home, key) for key in missing}
    needed = keys_needed(settings.model, [key for key in KEYS if given[key] or key in held])
    lost = [variable_of(key) for key in needed if key in held] if sandbox != PODMAN else []
    if lost:
        raise Trouble(
            Exit.NOT_FOUND, f"podman does not give the key back that the agent has: export it in {' and '.join(lost)}"
        )
    return (
        {key: checked_key(key, given[key]) for key in needed if key not in held},
        tuple(key for key in needed if key in held),
    )


def fit_out(caller: Caller, ready: Readiness, rebuild: bool, say: Say) -> Readiness:
    """What takes long: for podman, the image is found or built. Raises Trouble."""
    if ready.sandbox != PODMAN:
        return ready
    from host.agent.sealed import Ship
    from host.container import choice, image

    machine = ready.chosen.machine
    assert machine is not None  # noqa: S101 - what choosing podman means
    podman = choice.podman_of(caller, machine)
    base = ready.settings.podman.base
    found = image.find_or_build(podman, machine, caller.environ, caller.root, base, rebuild, say)
    return ready._replace(ship=Ship(podman, machine, found, caller.root, caller.network))


def checked_key(name: str, key: str) -> str:
    """The key as it can stand in an HTTP header. Raises Trouble; its text never holds the key."""
    key, variable = key.strip(), variable_of(name)
    if not key:
        provider = provider_with(name)
        raise Trouble(
            Exit.NOT_FOUND,
            f"model.provider or model.then is {provider}, and {variable} is not set: "
            "export your key in it and try again, or set 'provider: scripted'",
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Trouble(Exit.USAGE, f"{variable} holds spaces, control characters or non-ASCII; expected the bare key")
    return key


def up(caller: Caller, ready: Readiness, say: Say, seconds: float = starting.UP_SECONDS, rebuild: bool = False) -> Up:
    """Start the agent and wait until it works. Raises Trouble."""
    home = ready.home
    is_half_done = os.path.lexists(home.switch_file)
    pid = watching.holder(home.places.watcher_lock, sandbox_in_use(home) == PODMAN)
    if pid is not None and not is_half_done:
        raise watching.already_running(home, pid)
    secure_directory(home.state, caller.uid)
    if is_half_done:
        running = _up_by_ending_a_switch(caller, ready, say, seconds)
    else:
        ready = ready if ready.ship else fit_out(caller, ready, rebuild, say)
        running = _up_in_container(ready, say, seconds) if ready.ship else _up_in_place(caller, ready, say, seconds)
    model = model_words(ready.settings.model, ready.key_names)
    version = (running.branch, running.commit, running.seconds, running.rung)
    return Up(home.agent, ready.sandbox, model, running.pid, *version)


def _up_by_ending_a_switch(caller: Caller, ready: Readiness, say: Say, seconds: float) -> starting.Running:
    """An upgrade that was cut short: the agent runs again when that is at its end."""
    from host.agent import upgrade
    from host.agent.switch import Timeouts

    ended = upgrade.settle(caller, ready, say, Timeouts(up=seconds))
    if ended.journal.why:
        say(f"the upgrade was taken back: {ended.journal.why}")
    if ended.running is None:
        raise Trouble(Exit.FAILURE, f"the agent does not work; {watching.last_words(ready.home)}")
    return ended.running


def _up_in_container(ready: Readiness, say: Say, seconds: float) -> starting.Running:
    from host.agent import sealed

    assert ready.ship is not None  # noqa: S101 - only called with one
    # Before the container: whatever happens then, `down` knows where to look.
    remember(ready)
    return sealed.up(ready.home, ready.settings, ready.ship, ready.keys, ready.key_names, say, seconds)


def _up_in_place(caller: Caller, ready: Readiness, say: Say, seconds: float) -> starting.Running:
    home = ready.home
    say(
        "WARNING: process sandbox: agent and keep run as your own user and are NOT isolated from each other "
        "or from your files; use it for development and demonstration only"
    )
    if ready.chosen.why:
        say(f"it was chosen because {ready.chosen.why}; 'minifram doctor' says more")
    if os.path.isdir(home.places.bot) and os.stat(home.places.bot).st_uid != caller.uid:
        _take_back(caller, home)
    secure_run_directory(home, caller.uid)
    _put_keys(home, ready.keys, caller.uid)
    remember(ready)
    try:
        environ = starting.keep_environment(caller.environ, caller.root)
        return starting.start(home, caller.watcher, environ, seconds, say)
    except BaseException:
        if watching.holder(home.places.watcher_lock) is None:
            _remove_keys(home)
        raise


def _take_back(caller: Caller, home: Home) -> None:
    """The cell's tree, from the user that it had in the container. Raises Trouble."""
    from host.container import cell_tree, choice

    cell_tree.give_tree(choice.podman_at_hand(caller), home, 0, caller.uid)


def down(caller: Caller, say: Say, seconds: float = watching.DOWN_SECONDS, keep_key: bool = False) -> Down:
    """End the agent and take its key away. Raises Trouble, also when it was not running."""
    home = caller.initialised()
    if sandbox_in_use(home) == PODMAN:
        from host.agent import sealed
        from host.container import choice

        return Down(home.agent, sealed.down(home, choice.podman_at_hand(caller), seconds, keep_key, say))
    earlier = home._replace(run=str(_remembered(home).get("run", home.run)))
    try:
        pid = watching.stop(home, seconds, say)
    finally:
        if watching.holder(home.places.watcher_lock) is None:
            _remove_keys(home)
            _remove_keys(earlier)
    return Down(home.agent, pid)


def restart(
    caller: Caller, sandbox: str | None, say: Say, down_seconds: float, up_seconds: float, rebuild: bool = False
) -> Restarted:
    """`down`, if it runs, then `up`; nothing is stopped when `up` could not follow."""
    home = caller.initialised()
    ready = fit_out(caller, make_ready(caller, sandbox, say, goes_on=True), rebuild, say)
    old_settings = _remembered(home).get("settings", {})
    before, pid_before = "", 0
    if watching.holder(home.places.watcher_lock) is not None:
        before = _version(home)
        pid_before = down(caller, say, down_seconds, keep_key=bool(ready.held)).pid
    started = up(caller, ready, say, up_seconds)
    new_settings = _flat(ready)
    changed = {
        key: [old_settings.get(key), new_settings.get(key)]
        for key in sorted(old_settings.keys() | new_settings.keys())
        if old_settings and old_settings.get(key) != new_settings.get(key)
    }
    after = f"{started.branch}@{started.commit}"
    return Restarted(home.agent, before, after, pid_before, started.pid, started.rung, changed)


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


def was_sealed(home: Home) -> bool:
    """Whether the agent ever ran in the container, or came from an archive that the PM did not accept as unsealed. An
    agent that has lived without a record of how counts as sealed."""
    try:
        found = json.loads(whole_file(home.started_file))
    except FileNotFoundError:
        return any(map(_holds_something, (home.places.bot, home.state)))
    except ValueError:
        return True
    if not isinstance(found, dict):
        return True
    # Without the key, the record is of a version that knew the last start alone.
    return found.get("sealed", found.get("sandbox") != PROCESS) is not False


def _holds_something(directory: str) -> bool:
    try:
        return bool(os.listdir(directory))
    except FileNotFoundError:
        return False
    except OSError:  # it belongs to a user of the container
        return True


def keys_in_use(home: Home) -> tuple[str, ...]:
    """The names of the keys that the agent that runs was given."""
    if sandbox_in_use(home) != PODMAN:
        return tuple(key for key in KEYS if os.path.lexists(home.key_file(key)))
    remembered = _remembered(home)
    names = remembered.get("keys", KEYS[:1] if remembered.get("key") else [])  # before, there was one key alone
    return tuple(key for key in KEYS if key in names)


def _put_keys(home: Home, keys: Mapping[str, str], uid: int) -> None:
    _remove_keys(home)  # of an earlier start with another provider
    if keys:
        secure_directory(home.places.secrets, uid)
    for name, key in keys.items():
        write_whole(home.key_file(name), f"{key}\n".encode(), mode=0o600)


def _remove_keys(home: Home) -> None:
    for name in KEYS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home.key_file(name))


def _running_key(home: Home, name: str) -> str:
    try:
        with open(home.key_file(name), encoding="utf-8") as file:
            return file.read().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def _keys_in_podman(caller: Caller, home: Home) -> list[str]:
    from host.container import choice, control

    return control.keys_held(choice.podman_at_hand(caller), home)


def remember(ready: Readiness) -> None:
    """With what the agent is started, for the commands that come later."""
    remembered = {
        "schema": UP_SCHEMA,
        "sandbox": ready.sandbox,
        "sealed": ready.sandbox == PODMAN or was_sealed(ready.home),
        "run": ready.home.run,
        "keys": ready.key_names,
        "settings": _flat(ready),
    }
    write_whole(ready.home.started_file, json.dumps(remembered, indent=1).encode(), mode=0o600)


def remember_restored(home: Home, sealed: bool) -> None:
    """For an agent that was not started here yet."""
    record = {"schema": UP_SCHEMA, "sandbox": "", "sealed": sealed, "settings": {}}
    write_whole(home.started_file, json.dumps(record, indent=1).encode(), mode=0o600)


def settings_needing_consent(home: Home, settings: Settings, sandbox: str) -> tuple[Difference, ...]:
    """What minifram.yaml sets to another value than at the last start, and may give the agent more. A default is of
    minifram itself, also one that another version changed."""
    from host.agent.settings_text import flat

    defaults = flat(Settings())
    found = needing_consent(flat(settings) | {"sandbox": sandbox}, defaults | _remembered(home).get("settings", {}))
    return tuple(each for each in found if each.value != defaults.get(each.key))


def _remembered(home: Home) -> dict[str, Any]:
    """With what the last `up` started; empty when that is not known (a convenience, never a condition)."""
    try:
        found = json.loads(whole_file(home.started_file))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("settings"), dict) else {}


def _flat(ready: Readiness) -> dict[str, Any]:
    from host.agent.settings_text import flat

    return flat(ready.settings) | {"sandbox": ready.sandbox}
