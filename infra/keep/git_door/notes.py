"""What of the memory a tainted agent may change all the same: sections that rest on a note which no page can have put
into its run. The keep's own log says which run noted it, and what that run had been served by then.

It holds off a model that obeys a page and writes into its memory. It is no wall: the words of a section are not
compared with the event's."""

from __future__ import annotations

import re
from collections.abc import Callable

from infra.keep.git_door.decide import Update
from infra.keep.git_door.mind import MIND_REF
from infra.shared.mind.event import PLACE, event_at
from infra.shared.mind.layout import NOTED
from infra.shared.mind.sections import document_of
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from infra.shared.safe_files import Below

_NEXT = re.compile(r"^Next: .*$", re.MULTILINE)


def with_noted(update: Update, git: Git, events: str) -> Update:
    """`git` sees what is pushed; `events` is the directory of the log. Raises GitError, OSError."""
    changed = [path for path in NOTED if path in update.changed]
    old, new, log = update.old, update.new, Below(events)
    if update.ref != MIND_REF or not changed or not old or not new:
        return update

    def is_clean(place: str) -> bool:
        event = event_at(log, place)
        return event is not None and event.event_type == "note" and bool(event.run_id) and not event.metadata.origins

    def rests(path: str) -> bool:
        return rests_on(is_clean, read_file(git, old, path) or "", read_file(git, new, path) or "")

    return update._replace(mind=update.mind._replace(noted=tuple(filter(rests, changed))))


def rests_on(is_clean: Callable[[str], bool], before: str, after: str) -> bool:
    """Whether each section that is new or not as it was names an event for which `is_clean` stands, and nothing else is
    new."""
    old, new = document_of(before), document_of(after)
    if _NEXT.sub("", old.head).strip() != _NEXT.sub("", new.head).strip():
        return False
    known = {section.text.strip() for section in old.sections}
    changed = [section.text for section in new.sections if section.text.strip() not in known]
    return all(any(is_clean(found[0]) for found in PLACE.finditer(text)) for text in changed)
