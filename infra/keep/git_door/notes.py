"""What of the memory a tainted agent may change all the same: sections that rest on a note which no page can have put
into its run. The keep was told of each note's event at once, and the web door's trace says what was served until then.

It holds off a model that obeys a page and writes into its memory. It is no wall: the words of a section are not
compared with the event's."""

from __future__ import annotations

import re
from collections.abc import Set

from infra.keep.git_door.decide import Update
from infra.keep.git_door.mind import MIND_REF
from infra.keep.mind.heads import noted_heads
from infra.keep.taint import served
from infra.shared.clock import began, moment
from infra.shared.mind.layout import NOTED
from infra.shared.mind.sections import document_of
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file

_HASH = re.compile(r"hash:([0-9a-f]{64})")
_NEXT = re.compile(r"^Next: .*$", re.MULTILINE)


def with_noted(update: Update, git: Git, var: str, trace: str, now: float) -> Update:
    """`git` sees what is pushed. Raises GitError, OSError."""
    changed = [path for path in NOTED if path in update.changed]
    if update.ref != MIND_REF or not changed or not update.old or not update.new:
        return update
    notes = clean_notes(var, trace, now)
    noted = (
        path
        for path in changed
        if rests_on(notes, read_file(git, update.old, path) or "", read_file(git, update.new, path) or "")
    )
    return update._replace(mind=update.mind._replace(noted=tuple(noted)))


def clean_notes(var: str, trace: str, now: float) -> Set[str]:
    """Hashes of events that were told by a run to which nothing of the web had been served by then."""
    heads = [(head, began(head.run)) for head in noted_heads(var)]
    pages = [page.at for page in served(trace, now, min((since for _, since in heads if since), default=now))]
    found = set[str]()
    for head, since in heads:
        if since is not None and not any(since <= at <= moment(head.at) + 1.0 for at in pages):
            found.add(head.hash)
    return found


def rests_on(notes: Set[str], before: str, after: str) -> bool:
    """Whether each section that is new or not as it was names one of these notes, and nothing else is new. Pure."""
    old, new = document_of(before), document_of(after)
    if _NEXT.sub("", old.head).strip() != _NEXT.sub("", new.head).strip():
        return False
    known = {section.text.strip() for section in old.sections}
    changed = [section for section in new.sections if section.text.strip() not in known]
    return all(not notes.isdisjoint(_HASH.findall(section.text)) for section in changed)
