"""What of the memory a tainted agent may change all the same: sections that rest on a note which no page can have put
into its run. The keep's own log says which run noted it, and what that run had been served by then.

It holds off a model that obeys a page and writes into its memory. It is no wall: the words of a section are not
compared with the event's."""

from __future__ import annotations

from collections.abc import Callable

from infra.shared.mind.event import PLACE, event_at
from infra.shared.mind.sections import sections
from infra.shared.safe_files import Below


def is_clean(log: Below, place: str) -> bool:
    """Whether the log has a note there of a run that had read no page. Raises OSError."""
    event = event_at(log, place)
    return event is not None and event.event_type == "note" and bool(event.run_id) and not event.metadata.origins


def rests_on(is_clean: Callable[[str], bool], before: str, after: str) -> bool:
    """Whether each section that is new or not as it was names an event for which `is_clean` stands."""
    known = {"", *(section.text.strip() for section in sections(before))}
    changed = [section.text for section in sections(after) if section.text.strip() not in known]
    return all(any(is_clean(found[0]) for found in PLACE.finditer(text)) for text in changed)
