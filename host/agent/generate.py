"""What runs an agent's container without the `minifram` command: made from what `up` would make it of now, put where
it belongs, and held against that later.

Nothing is built or started here. Image, volumes and secret are those that `up` made, and it has to have been there."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from host.agent.consent import Consent, require
from host.container import choice, control, image, kube, quadlet
from host.container.machine import Machine
from host.container.podman import Podman
from host.container.words import Sealing, sealing
from host.context import Context
from host.errors import CommandError, not_contained
from host.notify import unit
from host.notify.process import protect_settings
from host.paths import AgentPaths
from host.repository.checks import OK, WARN, Result
from host.repository.open import open_repository
from host.repository.repair import put_hooks
from host.running import record
from infra.shared.exit_codes import Exit
from infra.shared.files import write_whole
from infra.shared.providers import variable_of
from infra.shared.settings_file import SettingsError, read_settings

QUADLET, KUBE, NOTIFY = "quadlet", "kube", "notify"


class Now(NamedTuple):
    """With what `up` would make the container now."""

    home: AgentPaths
    sealed: Sealing
    podman: Podman
    machine: Machine


class Checked(NamedTuple):
    """A file, held against what would be made now."""

    agent: str
    file: str
    differences: tuple[str, ...]
    """Lines of a unified diff, from the file to what would be made; none when they are the same."""


def now(context: Context, kind: str, complete: bool, consent: Consent | None = None) -> Now:
    """With `complete`, all that the container needs has to be there; with `consent`, the PM is asked about settings
    that changed since the last start. Raises CommandError and SettingsError."""
    home = context.initialised()
    if record.sandbox_in_use(home) != record.PODMAN:
        so = "its image, volumes and secret may not be there; first 'minifram up --sandbox podman'"
        raise not_contained(home.agent, so)
    settings = read_settings(home.settings)
    if consent is not None:
        require(home, settings, record.PODMAN, "generate", consent)
        protect_settings(home, settings, lambda text: None)
    machine = choice.choose(context, choice.PODMAN, True).machine
    assert machine is not None  # noqa: S101 - what choosing podman means
    podman = choice.podman_of(context, machine)
    keys = record.keys_in_use(home)
    made = image.known(podman, context.root, settings.podman.base)
    if made is None or (complete and image.look(podman, made.name) is None):
        what = f"the image {made.name} of this minifram is" if made else "the image of this minifram, or its base, is"
        raise CommandError(Exit.NOT_FOUND, f"{what} not there; 'minifram restart' builds and uses it")
    held = control.keys_held(podman, home) if complete and kind == QUADLET and keys else keys
    if lost := [f"{variable_of(key)}=…" for key in keys if key not in held]:
        raise CommandError(
            Exit.NOT_FOUND,
            f"podman holds no key for agent {home.agent!r} ('minifram down' takes it away); "
            f"put it there with: export {' '.join(lost)}, then 'minifram up'",
        )
    return Now(home, sealing(home, settings, machine, made, context.root, keys, context.network), podman, machine)


def text_of(kind: str, found: Now) -> str:
    """A quadlet unit or a kube manifest. Raises CommandError for what cannot be one."""
    return kube.manifest(found.sealed) if kind == KUBE else quadlet.unit(found.sealed, found.podman)


def needed(kind: str) -> tuple[int, int]:
    """The podman that understands it."""
    return kube.NEEDED if kind == KUBE else quadlet.NEEDED


def unit_path(context: Context, agent: str) -> str:
    """Where systemd of this user looks for the agent's quadlet unit."""
    config = Path(context.home.settings).parents[2]  # of <config>/minifram/<agent>/minifram.yaml
    return f"{config}/containers/systemd/{quadlet.name(agent)}.container"


def notify_path(context: Context, agent: str) -> str:
    """Where systemd of this user looks for the unit that sends notifications."""
    config = Path(context.home.settings).parents[2]
    return f"{config}/systemd/user/{unit.name(agent)}"


def install(home: AgentPaths, path: str, text: str, mark: str = quadlet.MARK) -> None:
    """In one step. Raises CommandError when a file stands there that is not of our making."""
    open_repository(home)
    put_hooks(home.remote)  # systemd starts the container, and runs no command that would
    there = _read(path)
    if there is not None and not there.startswith(mark):
        raise CommandError(Exit.CONFLICT, f"{path} was not made by 'minifram generate'; move it away and try again")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole(path, text.encode())


def check(agent: str, path: str, text: str) -> Checked:
    """Hold the file against `text`, which would be made now. Raises CommandError when there is none."""
    there = _read(path)
    if there is None:
        raise CommandError(Exit.NOT_FOUND, f"{path} is not there; 'minifram generate' makes it")
    lines = difflib.unified_diff(
        there.splitlines(), text.splitlines(), path, "what would be made now", lineterm="", n=0
    )
    return Checked(agent, path, tuple(lines))


def of_unit(context: Context, home: AgentPaths) -> Iterator[Result]:
    """For `doctor`: an installed unit is what would be made now."""
    path = unit_path(context, home.agent)
    if not os.path.lexists(path):
        return
    again = "'minifram generate quadlet --install'"
    try:
        found = check(home.agent, path, text_of(QUADLET, now(context, QUADLET, complete=False)))
    except (CommandError, SettingsError) as error:
        yield Result("quadlet", WARN, f"whether {path} is still right is not known: {error}")
        return
    if found.differences:
        text = f"{path} is not what would be made now; {again} writes it again, --check shows how"
        yield Result("quadlet", WARN, text)
    else:
        yield Result("quadlet", OK, f"{path} is what would be made now")


def _read(path: str) -> str | None:
    """None when there is none. Raises CommandError for what is not text."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CommandError(Exit.CONFLICT, f"{path} is not text ({error}); expected a file of ours") from None
