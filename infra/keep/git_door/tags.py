"""The names of tags that the agent may push: snapshots of its own, beside those that the keep makes. Pure."""

from __future__ import annotations

import re

from infra.keep.folding import folded
from infra.keep.git_door.entries import shown
from infra.keep.mind.snapshot_tags import OF_THE_KEEP
from infra.shared.branches import MAX_PARTS

TAGS, SNAPSHOTS = "refs/tags/", "refs/tags/snapshot/"
_SNAPSHOT = re.compile(rf"{SNAPSHOTS}[A-Za-z0-9][A-Za-z0-9._+/-]{{0,199}}")


def problem_with_tag(ref: str) -> str | None:
    """Why this tag is not the agent's to push."""
    if ref.startswith(SNAPSHOTS) and folded(kind := ref.split("/")[3]) in OF_THE_KEEP:
        return f"snapshots named {shown(kind)} are of the mind, and the keep alone makes them; name yours otherwise"
    if _SNAPSHOT.fullmatch(ref) and ref.count("/") < SNAPSHOTS.count("/") + MAX_PARTS:
        return None
    return "the only tags are snapshots: push it as refs/tags/snapshot/<name>, letters, digits and . _ + / -"
