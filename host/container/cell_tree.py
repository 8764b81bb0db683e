"""Whose the files of the cell are: its own user's in the container, the PM's in the process sandbox.

Changing sandboxes hands the whole tree over, in the user namespace where both users are the PM's to give to."""

from __future__ import annotations

import os

from host.container.machine import Machine
from host.container.podman import Podman, PodmanError
from host.container.words import CELL_GID, CELL_UID
from host.errors import CommandError
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit

HAND_OVER_SECONDS = 600.0


def give_to_cell(podman: Podman, machine: Machine, home: AgentPaths) -> None:
    """The cell's tree belongs to the cell's user, and the PM (a stranger there) may read it. Raises CommandError."""
    _hand_over(podman, home, CELL_UID, CELL_GID, machine.host_uid(CELL_UID))


def give_to_pm(podman: Podman, home: AgentPaths, uid: int) -> None:
    """The cell's tree belongs to the PM again, as in the process sandbox. Raises CommandError."""
    _hand_over(podman, home, 0, 0, uid)


def _hand_over(podman: Podman, home: AgentPaths, uid: int, gid: int, host_uid: int) -> None:
    """From the leaves up, never through a link; the top last, since its owner says that all is done."""
    bot = home.places.bot
    if os.lstat(bot).st_uid == host_uid:
        return
    # One shell in the user namespace, where both users are ours to give to. $0 is the directory.
    script = (
        f'find "$0" -xdev -depth ! -path "$0" -exec chown --no-dereference {uid}:{gid} {{}} + && '
        'find "$0" -xdev ! -type l -exec chmod u+rwX,go+rX {} + && '
        f'chmod 755 "$0" && chown --no-dereference {uid}:{gid} "$0"'
    )
    try:
        podman("unshare", "sh", "-c", script, bot, seconds=HAND_OVER_SECONDS)
    except PodmanError as error:
        raise CommandError(
            Exit.FAILURE,
            f"{bot} could not be given to {'the cell' if uid else 'you'}: {error.said}; is there something in it that "
            "belongs to another user?",
        ) from None
