"""What the cell is given of a page: all that the page wrote stands in the frame. Pure."""

from __future__ import annotations

import itertools

from infra.keep.web_door.fetch import Fetched
from infra.keep.web_door.text import Content
from infra.shared.frame import framed
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.text import counted
from infra.shared.web import Page

LINKS_SHOWN = 40
MOST_LINKS_CHARS = 3000
"""Of the links that are shown behind the text; fewer for a text that is to be short."""
MOST_ADDRESS_CHARS = 500


def page_of(fetched: Fetched, content: Content, max_chars: int, nonce: str) -> Page:
    """`nonce` is known to nobody before."""
    # Some of these words are the worker's, whose word counts no more than the page's.
    cut = () if fetched.whole else (f"all after the first {counted(len(fetched.body), 'byte')}",)
    lines = (
        *(("Address", redacted_and_cut(fetched.url, MOST_ADDRESS_CHARS)), ("Type", fetched.content_type)),
        *(("Title", content.title), ("Left out", "; ".join((*cut, *content.notes)))),
    )
    head = redacted("\n".join(f"{name}: {value}" for name, value in lines if value))
    tail = redacted(_further(content, min(MOST_LINKS_CHARS, max_chars // 4)))

    def stands(markdown: str, *, marked: bool) -> str:
        return framed("\n\n".join(filter(None, (head, markdown, tail))), fetched.origin, nonce, marked=marked)

    markdown = redacted(content.markdown)
    shown, is_cut = _shown(markdown, max_chars)
    whole = stands(markdown, marked=True) if is_cut else ""
    return Page(fetched.status, stands(shown, marked=False), whole, len(fetched.body))


def _shown(markdown: str, most: int) -> tuple[str, bool]:
    """Up to the end of a line, where that costs little."""
    if len(markdown) <= most:
        return markdown, False
    end = markdown.rfind("\n", most * 3 // 4, most)
    return markdown[: end if end > 0 else most].rstrip(), True


def _further(content: Content, most: int) -> str:
    """Links that stand in what was cut: how one gets on from here."""
    further = (f"- {link.text}: {link.url}" for link in content.links if link.url not in content.markdown)
    lines, left = list[str](), most
    for line in itertools.islice(further, LINKS_SHOWN):
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    return "\n".join(("Other links of the page:", *lines)) if lines else ""
