"""The keep's snapshots of the mind, as they stand in the repository: annotated tags `snapshot/<kind>/<UTC time>` whose
message says when, of which commit, and why. The keep alone makes and removes them; everybody may read them."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from infra.shared.people import WATCHER
from infra.shared.repository.git import Git

TAGS = "refs/tags/snapshot/"


class SnapshotKind(Enum):
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    PRE_MODIFICATION = "pre-modification"
    POST_FAILURE = "post-failure"

    @property
    def reason(self) -> str:
        return "scheduled" if self in SCHEDULED else self.value


SCHEDULED = (SnapshotKind.DAILY, SnapshotKind.WEEKLY, SnapshotKind.MONTHLY)
OF_THE_KEEP = tuple(kind.value for kind in SnapshotKind)
"""Names below `snapshot/` that nobody but the keep writes in."""


class Snapshot(NamedTuple):
    name: str
    """`daily/2026-01-31T10-42-12Z`."""
    kind: SnapshotKind
    at: str
    """`2026-01-31T10:42:12Z`."""
    commit: str
    reason: str
    tag: str = ""
    """The id of the tag object."""

    @property
    def ref(self) -> str:
        return TAGS + self.name


def snapshot_of(kind: SnapshotKind, at: str, commit: str, about: str = "") -> Snapshot:
    """`at`: as `clock.timestamp` gives it. `about` is added to the reason: which version, say."""
    at = f"{at[:19]}Z"
    reason = f"{kind.reason}: {about}" if about else kind.reason
    return Snapshot(f"{kind.value}/{at.replace(':', '-')}", kind, at, commit, reason)


def message_of(snapshot: Snapshot) -> str:
    return (
        f"Snapshot of the mind ({snapshot.kind.value})\n\n"
        f"time: {snapshot.at}\ncommit: {snapshot.commit}\nreason: {snapshot.reason}\n"
    )


def tag_content(snapshot: Snapshot, seconds: float) -> bytes:
    """The tag object, for `git hash-object -t tag`; `seconds` since the epoch."""
    tagger = f"{WATCHER.name} <{WATCHER.email}> {max(0, int(seconds))} +0000"
    head = f"object {snapshot.commit}\ntype commit\ntag snapshot/{snapshot.name}\ntagger {tagger}\n\n"
    return (head + message_of(snapshot)).encode(errors="replace")


_NAME = re.compile(
    rf"(?P<kind>{'|'.join(OF_THE_KEEP)})/"
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<hour>[0-9]{2})-(?P<minute>[0-9]{2})-(?P<second>[0-9]{2})Z"
)
_REASON = re.compile(r"^reason: (.{1,300})$", re.MULTILINE)
_FORMAT = "%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(taggeremail) %(refname)%00%(contents)%00"
MOST_BYTES = 16 << 20


def snapshots(git: Git) -> list[Snapshot]:
    """The keep's, the oldest first. What is no snapshot of the keep's stands there unseen. Raises GitError."""
    listed = git.saying_at_most(MOST_BYTES)(
        "for-each-ref", f"--format={_FORMAT}", *(f"{TAGS}{kind}" for kind in OF_THE_KEEP)
    )
    fields = listed.split("\0")
    found = [_read(head.strip("\n"), message) for head, message in zip(fields[::2], fields[1::2], strict=False)]
    return sorted((each for each in found if each), key=lambda each: (each.at, each.name))


def _read(head: str, message: str) -> Snapshot | None:
    words = head.split(" ")
    if len(words) != 6 or words[0] != "tag" or words[2] != "commit" or words[4] != f"<{WATCHER.email}>":
        return None
    name = words[5].removeprefix(TAGS)
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    at = f"{match['date']}T{match['hour']}:{match['minute']}:{match['second']}Z"
    reason = _REASON.search(message)
    return Snapshot(name, SnapshotKind(match["kind"]), at, words[3], reason[1] if reason else "", words[1])
