"""What is said of a push that git's hook asks about. A push is taken as a whole or refused as a whole, and refused when
in doubt."""

from __future__ import annotations

import functools
import os

import msgspec

from infra.keep.git_door import mind
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.notes import is_clean
from infra.keep.git_door.push import Push, Repository, read_updates
from infra.keep.git_door.rules import World, refusals
from infra.keep.git_door.setup import memory_bytes
from infra.keep.known_secrets import read_known
from infra.shared.door import DoorRequest
from infra.shared.refused import Refused
from infra.shared.repository.git import GitError
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted


class JudgePush(DoorRequest, frozen=True, tag="judge"):
    """May this push land? Asked by the hook alone, on a socket of its own."""

    lines: bytes
    """What git tells pre-receive (githooks(5))."""
    quarantine: bytes
    """Where git has the new objects until the push is accepted; empty when there are none."""

    @property
    def is_there(self) -> bool:
        """A push whose client leaves is ended by git, and its objects are removed."""
        return not self.quarantine or os.path.isdir(self.quarantine)


class Judged(msgspec.Struct, frozen=True):
    said: bytes
    """For whoever pushed; empty for a push that may land."""


def judge(asked: JudgePush, context: DoorContext) -> tuple[str, ...]:
    """Why the push is refused, a line each (`shared.refused`), or why it could not be judged."""
    known: tuple[bytes, ...] = ()
    try:
        known = read_known(context.places.secrets)
        return tuple(each.line(known) for each in _refused(asked, context, known))
    except ValueError as error:
        why = str(error)
    except (OSError, GitError, MemoryError) as error:
        why = f"the git door could not look at this push ({str(error) or 'out of memory'}); push less at once, or tell "
        why += "the PM"
    return (redacted(why, known),)


def _refused(asked: JudgePush, context: DoorContext, known: tuple[bytes, ...]) -> list[Refused]:
    """Raises ValueError, OSError, GitError."""
    blob_bytes = context.settings.limits.blob_bytes
    updates = read_updates(asked.lines)
    there = Repository(context.places.remote, os.fsdecode(asked.quarantine), memory_bytes(blob_bytes))
    world = World(
        context.settings,
        len(there.refs) + sum(update.old is None for update in updates),
        context.taint(there.kept),
        functools.partial(is_clean, Below(context.places.events)),
    )
    pushes = [Push(there, update, blob_bytes, known) for update in updates]
    found = [refused for push in pushes for refused in refusals(push, world, mind.rules_for(push))]
    if not found and there.strays(pushes):
        why = "the push brings files that none of its commits has; leave them out"
        found = [Refused("move", pushes[0].ref, "", why)]
    return found
