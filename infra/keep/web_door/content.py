"""What the worker makes of a body: text that a page wrote, not yet in a frame."""

from __future__ import annotations

import msgspec

from infra.shared.web import MOST_CHARS, MOST_URL_CHARS, Link

MOST_LINKS = 200
MOST_TITLE_CHARS = 300
MOST_LINK_CHARS = 200


class Content(msgspec.Struct, frozen=True):
    title: str
    markdown: str
    links: tuple[Link, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out, in our words."""
    hidden_chars: int = 0
    invisible_chars: int = 0


def bounded(title: str, markdown: str, links: tuple[Link, ...], notes: tuple[str, ...], hidden: int) -> Content:
    if len(markdown) > MOST_CHARS:
        notes = (*notes, f"all after the first {MOST_CHARS:,} characters")
    # Four times the length that is shown: of what comes, more may be taken out.
    cut_links = tuple(Link(link.text[: 4 * MOST_LINK_CHARS], link.url[:MOST_URL_CHARS]) for link in links[:MOST_LINKS])
    return Content(title[: 4 * MOST_TITLE_CHARS], markdown[:MOST_CHARS], cut_links, notes, hidden)
