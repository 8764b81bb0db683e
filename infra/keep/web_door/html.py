"""An HTML page as markdown, without what stands around the text on every page and without what is plainly hidden.

Styles are not computed: hiding is no boundary, the frame is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urljoin, urlsplit

from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser, LexborNode

from infra.keep.eye.blocked import MARKS, SHELLS, Signals
from infra.keep.web_door.text import MOST_LINKS, Content, Link
from infra.shared.text import counted
from infra.shared.web import MOST_URL_CHARS

NO_TEXT = "script, style, template, head, svg, canvas, iframe, object, embed, audio, video, datalist, noframes, noembed"
"""What they hold is shown when the thing itself cannot be, or is no text."""
HIDDEN = "noscript, dialog:not([open]), [hidden], [aria-hidden=true i]"
AROUND = "nav, aside, footer, [role=navigation], [role=complementary], [role=contentinfo]"
CONTROLS = "input, select, button, textarea"
MOST_HTML_CHARS = 4 << 20
"""Of what is left of a page, with its tags."""
_HIDES = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden|(?:opacity|font-size)\s*:\s*0(?:\.0*)?(?:%|[a-z]{2,4})?)"
    r"\s*(?:!\s*important\s*)?(?:;|$)",
    re.IGNORECASE,
)
"""Of an inline style."""
_OPTIONS = ConversionOptions(
    extract_metadata=False,
    autolinks=False,
    compact_tables=True,
    include_blockquote_citations=False,
    expand_abbreviations=False,
    hidden_content="all",  # what does not show is gone by then
    preprocessing=PreprocessingOptions(enabled=False),
)


def read_html(text: str, url: str) -> Content:
    """`url` is where it came from."""
    document = LexborHTMLParser(text)
    root = document.root
    node = document.css_first("title")
    title = (node.text() or "") if node is not None else ""
    node = document.css_first("base[href]")
    base = (absolute(node.attributes.get("href") or "", url) if node is not None else "") or url
    marks = sum(document.css_first(each) is not None for each in MARKS)
    found = Signals(0, len(document.css("script")), marks, document.css_first(SHELLS) is not None)
    for node in [node for node in root.traverse(include_text=True) if node.is_comment_node] if root else ():
        node.remove()
    _without(document.css(NO_TEXT))
    hidden = _without(document.css(HIDDEN))
    styled = document.css("[style]")
    hidden += _without(node for node in styled if _HIDES.search((node.attributes.get("style") or "")[:2000]))
    links = _with_plain_addresses(document, base)
    around_chars = _without(document.css(AROUND))
    _without(document.css(CONTROLS))
    seen = document.html or ""
    del document, root
    markdown = convert(seen[:MOST_HTML_CHARS], _OPTIONS).content or ""
    notes = [f"all after the first {MOST_HTML_CHARS:,} characters of its source"] if len(seen) > MOST_HTML_CHARS else []
    if around_chars:
        notes.append(f"navigation, asides and footers ({counted(around_chars, 'character')})")
    if hidden:
        notes.append(f"{counted(hidden, 'character')} that no reader sees")
    return Content(title, markdown, links, tuple(notes), replace(found, words=len(markdown.split())))


def absolute(address: str, base: str) -> str:
    """Empty for one that the web tools cannot fetch."""
    address = address.strip()
    if not address or address.startswith("#") or len(address) > MOST_URL_CHARS:
        return ""
    try:
        whole = urljoin(base, address)
        parts = urlsplit(whole)
    except ValueError:
        return ""
    whole = re.sub(r"[\x00-\x20\x7f]", "%20", whole)
    return whole if parts.scheme in ("http", "https") and parts.netloc and len(whole) <= MOST_URL_CHARS else ""


def _with_plain_addresses(document: LexborHTMLParser, base: str) -> tuple[Link, ...]:
    """Gives links and images absolute addresses, or none, and takes tooltips away. The links, each address once."""
    found: dict[str, str] = {}
    for node in document.css("a[href]"):
        attributes = node.attrs
        address = absolute(attributes.get("href") or "", base)
        if not address:
            del attributes["href"]
            continue
        attributes["href"] = address
        if len(found) < MOST_LINKS and address not in found:
            found[address] = node.text(strip=True, separator=" ") or ""
    for node in document.css("img"):
        attributes = node.attrs
        address, words = absolute(attributes.get("src") or "", base), (attributes.get("alt") or "").strip()
        if address and words:
            attributes["src"] = address
        else:
            node.replace_with(words)
    for node in document.css("[title]"):
        del node.attrs["title"]
    return tuple(Link(text, address) for address, text in found.items())


def _without(nodes: Iterable[LexborNode]) -> int:
    """Takes them out of their document, where they come in its order; gives how many characters of text that were."""
    chars = 0
    # The innermost first, so that nothing is counted twice; one that matches in two ways comes twice.
    for node in reversed({node.mem_id: node for node in nodes}.values()):
        chars += len((node.text(strip=True) or "").strip())
        node.decompose()
    return chars
