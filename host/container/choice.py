"""Which sandbox an agent gets: what the PM asks for, or with `auto` the sealed one where this machine has it.

An agent that was sealed before, here or on the machine that its archive comes from, is never started unsealed because
the machine changed: its code was written by somebody who must not get the PM's rights. `running.was_sealed` knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from host.container.machine import Lack, Machine, fatal, look
from host.container.podman import Podman, environment
from host.context import Context
from host.errors import CommandError
from infra.shared.exit_codes import Exit

AUTO, PODMAN, PROCESS = "auto", "podman", "process"


class Choice(NamedTuple):
    sandbox: str
    why: str = ""
    """Why `auto` became less than the PM could wish for; empty otherwise."""
    machine: Machine | None = None
    """Only for podman."""


def choose(
    context: Context, asked: str, was_sealed: bool, look_at: Callable[[Mapping[str, str], int], Machine] = look
) -> Choice:
    """Raises CommandError."""
    if asked == PROCESS:
        return Choice(PROCESS)
    machine = look_at(context.environ, context.uid)
    missing = fatal(machine)
    if not missing:
        return Choice(PODMAN, machine=machine)
    if asked == PODMAN:
        raise _unusable(machine, missing, was_sealed)
    if was_sealed:
        raise CommandError(
            Exit.DENIED,
            "this agent ran in the sealed container before, or was restored from an archive, and podman cannot be "
            f"used now: {missing[0].text}. Fix that; without isolation it is started only if you say so",
        )
    return Choice(PROCESS, missing[0].what)


def podman_of(context: Context, machine: Machine) -> Podman:
    return Podman(machine.podman, environment(context.environ), machine.words)


def podman_at_hand(context: Context, seen: Machine | None = None) -> Podman:
    """For a container that is there already; `seen` is this machine where the command has looked at it. Raises
    CommandError when podman is gone."""
    machine = seen or look(context.environ, context.uid)
    if not machine.podman or machine.refusal:
        raise CommandError(
            Exit.NOT_FOUND,
            f"the agent lives in a container, and podman cannot be used: {machine.refusal or 'it is not installed'}; "
            "fix that, 'minifram doctor' checks it",
        )
    return podman_of(context, machine)


def _unusable(machine: Machine, missing: list[Lack], was_sealed: bool) -> CommandError:
    code = Exit.USAGE if machine.uid == 0 else Exit.NOT_FOUND if not machine.podman else Exit.FAILURE
    reasons = "\n".join(f"  {lack.text}" for lack in missing)
    # Nobody who was sealed is let out by a hint.
    instead = "" if was_sealed else "\nWithout it there is --sandbox process"
    return CommandError(code, f"the podman sandbox cannot be used here:\n{reasons}{instead}")
