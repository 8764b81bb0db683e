"""What the cell is given of a page: all that the page wrote stands in the frame. Pure."""

from __future__ import annotations

import itertools

from infra.keep.web_door.fetch import Fetched
from infra.keep.web_door.frame import defanged, framed
from infra.keep.web_door.text import Content
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.text import counted
from infra.shared.web import Link, Page

LINKS_SHOWN = 40
MOST_LINKS_CHARS = 3000
"""Of the links that are shown behind the text; fewer for a text that is to be short."""
MOST_ADDRESS_CHARS = 500


def page_of(fetched: Fetched, content: Content, max_chars: int, nonce: str) -> Page:
    """`nonce` is known to nobody before."""
    title, markdown = redacted(content.title), redacted(content.markdown)
    links = tuple(Link(redacted(link.text), redacted(link.url)) for link in content.links)
    notes = _left_out(fetched, content)
    lines = (
        *(("Address", redacted_and_cut(fetched.url, MOST_ADDRESS_CHARS)), ("Type", fetched.content_type)),
        *(("Title", title), ("Left out", notes)),
    )
    head = "\n".join(f"{name}: {value}" for name, value in lines if value)
    tail = _further(links, markdown, min(MOST_LINKS_CHARS, max_chars // 4))
    shown, is_cut = _shown(markdown, max_chars)
    text, whole = (
        framed("\n\n".join(filter(None, (head, part, tail))), fetched.origin, nonce, marked=marked)
        for part, marked in ((shown, False), (markdown, True))
    )
    return Page(
        url=fetched.url,
        origin=fetched.origin,
        status=fetched.status,
        title=defanged(title),
        text=text,
        whole=whole if is_cut else "",
        links=tuple(Link(defanged(link.text), link.url) for link in links),
        cut=defanged(notes),
        hidden_chars=content.hidden_chars,
        invisible_chars=content.invisible_chars,
        size=max(0, fetched.size),
        sha256=fetched.sha256,
    )


def _left_out(fetched: Fetched, content: Content) -> str:
    """In words; some are the worker's, whose word counts no more than the page's."""
    is_cut = not fetched.whole and fetched.kind != "other"
    cut = (f"all after the first {counted(len(fetched.body), 'byte')}",) if is_cut else ()
    hidden = (f"{counted(content.hidden_chars, 'character')} that no reader sees",) if content.hidden_chars else ()
    return "; ".join((*cut, *content.notes, *hidden))


def _shown(markdown: str, most: int) -> tuple[str, bool]:
    """Up to the end of a line, where that costs little."""
    if len(markdown) <= most:
        return markdown, False
    end = markdown.rfind("\n", most * 3 // 4, most)
    return markdown[: end if end > 0 else most].rstrip(), True


def _further(links: tuple[Link, ...], markdown: str, most: int) -> str:
    """Links that stand in what was cut: how one gets on from here."""
    further = (f"- {link.text}: {link.url}" for link in links if link.url not in markdown)
    lines, left = list[str](), most
    for line in itertools.islice(further, LINKS_SHOWN):
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    return "\n".join(("Other links of the page:", *lines)) if lines else ""
