"""What is said of a push that git's hook asks about. A push is taken as a whole or refused as a whole, and refused when
in doubt."""

from __future__ import annotations

import io
import os

import msgspec

from infra.keep import taint
from infra.keep.git_door import inspection
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.decide import refusal
from infra.keep.git_door.examined import ask_for_examinations
from infra.keep.git_door.notes import with_noted
from infra.keep.git_door.rules import Autonomy, Rules
from infra.keep.known_secrets import read_known
from infra.shared.door import DoorRequest
from infra.shared.repository.git import GitError
from infra.shared.secret_shapes import redacted


class JudgePush(DoorRequest, frozen=True, tag="judge"):
    """May this push land? Asked by the hook alone, on a socket of its own."""

    lines: str
    """What git tells pre-receive (githooks(5))."""
    quarantine: dict[str, str]
    """Variables of git's that say where the objects are."""

    @property
    def is_there(self) -> bool:
        """A push whose client leaves is ended by git, and its objects are removed."""
        path = self.quarantine.get("GIT_QUARANTINE_PATH")
        return path is None or os.path.isdir(path)


class Judged(msgspec.Struct, frozen=True):
    said: tuple[str, ...]
    """For whoever pushed, a line each; none for a push that may land."""


def judge(asked: JudgePush, context: DoorContext) -> tuple[str, ...]:
    """Why the push is refused, a line each: `REF: why`, or why it could not be judged."""
    known: tuple[bytes, ...] = ()
    try:
        known = read_known(context.places.secrets)
        problems = _problems(asked, context, known)
    except ValueError as error:
        problems = [str(error)]
    except (OSError, GitError, MemoryError) as error:
        why = str(error) or "out of memory"
        problems = [f"the git door could not look at this push ({why}); push less at once, or tell the PM"]
    # Also the name of a file or a branch can be a secret, and these words are kept in logs.
    return tuple(redacted(problem, known) for problem in problems)


def _problems(asked: JudgePush, context: DoorContext, known: tuple[bytes, ...]) -> list[str]:
    """Raises ValueError, OSError, GitError."""
    rules, now, var = _rules(context), context.wall_seconds(), context.places.var
    updates = inspection.read_updates(io.BytesIO(asked.lines.encode()))
    repository = inspection.pushed(context.places.remote, asked.quarantine, rules.blob_bytes)
    updates = inspection.inspect_all(repository, updates, rules, known, now)
    ask_for_examinations(repository, updates)
    tainted = taint.look(var, repository.kept, now) if rules.web_taints else None
    if tainted:
        updates = [with_noted(update, repository.git, context.places.events) for update in updates]
    found = ((update.ref, refusal(update, rules, tainted)) for update in updates)
    return [f"{ref if ref.isprintable() else ascii(ref)}: {problem}" for ref, problem in found if problem]


def _rules(context: DoorContext) -> Rules:
    settings = context.settings
    return Rules(
        autonomy=Autonomy(settings.autonomy),
        blob_bytes=settings.limits.blob_bytes,
        protected_files=settings.protected.files,
        protected_branches=settings.protected.branches,
        web_taints=settings.web.taints,
    )
