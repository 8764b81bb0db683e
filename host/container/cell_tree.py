"""Whose the files of the cell are: its own user's in the container, the PM's in the process sandbox.

Changing sandboxes hands the whole tree over, in the user namespace where both users are the PM's to give to."""

from __future__ import annotations

import os

from host.container.podman import Podman, PodmanError
from host.errors import CommandError
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit

HAND_OVER_SECONDS = 600.0


def give_tree(podman: Podman, home: AgentPaths, uid: int, host_uid: int) -> None:
    """The cell's tree belongs to `uid` of the user namespace, which is `host_uid` outside; all may read it. From the
    leaves up, never through a link; the top last, since its owner says that all is done. Raises CommandError."""
    bot = home.places.bot
    if os.lstat(bot).st_uid == host_uid:
        return
    # One shell in the user namespace. $0 is the directory; groups have the numbers of users.
    script = (
        f'find "$0" -xdev -depth ! -path "$0" -exec chown --no-dereference {uid}:{uid} {{}} + && '
        'find "$0" -xdev ! -type l -exec chmod u+rwX,go+rX {} + && '
        f'chmod 755 "$0" && chown --no-dereference {uid}:{uid} "$0"'
    )
    try:
        podman("unshare", "sh", "-c", script, bot, seconds=HAND_OVER_SECONDS)
    except PodmanError as error:
        raise CommandError(
            Exit.FAILURE,
            f"{bot} could not be given to {'the cell' if uid else 'you'}: {error.said}; is there something in it that "
            "belongs to another user?",
        ) from None
