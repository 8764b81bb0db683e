"""What a reader of an HTML document would not see, taken out of it and counted.

Of styles, what `styles` reads: a sheet that is fetched, and what scripts do, are not known here."""

from __future__ import annotations

from collections.abc import Iterable

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from infra.keep.web_door.styles import (
    MOST_CSS_CHARS,
    MOST_RULES,
    Paint,
    StyleRule,
    declarations,
    hides_all,
    painted,
    rules_that_hide,
)

NEVER_SHOWN = frozenset(("script", "style", "template", "noscript", "head", "datalist", "noframes", "noembed"))
NO_TEXT = frozenset(("svg", "canvas", "iframe", "object", "embed", "audio", "video", "map", "math-annotation"))
"""What they hold is shown when the thing itself cannot be, or is no text."""
_UNCOUNTED = frozenset(("script", "style", "head", "svg"))
"""Programs, styles and drawings hold much that was never meant as text."""
_FETCHED_SHEET = "link[rel~=stylesheet]"
MOST_MATCHES = 20_000_000
"""Elements times rules that are tried on them."""


def without_hidden(document: LexborHTMLParser) -> int:
    """Takes out of `document` what does not show; gives how many characters that were, comments among them."""
    root = document.root
    if root is None:
        return 0
    sheet = _Sheet(document, len(document.css("*")) + 1)
    # Where sheets are fetched, the colours behind the text are not known, and white may well show.
    first = Paint(ground=None) if document.css_first(_FETCHED_SHEET) is not None else Paint()
    gone: list[LexborNode] = []
    chars = 0
    paints = {root.mem_id: first}
    skipped: set[int] = set()
    for node in root.traverse(include_text=True):
        parent = node.parent
        above = parent.mem_id if parent is not None else 0
        if above in skipped:
            skipped.add(node.mem_id)
            continue
        paint = paints.get(above, first)
        if node.is_text_node:
            if not paint.shows and (text := (node.text_content or "").strip()):
                chars += len(text)
                gone.append(node)
            continue
        if node.is_comment_node:
            chars += len((node.comment_content or "").strip())
            gone.append(node)
            continue
        if not node.is_element_node:
            continue
        tag = node.tag or ""
        attributes = node.attributes
        style = sheet.style_of(node.mem_id, attributes.get("style") or "")
        if tag in NEVER_SHOWN or tag in NO_TEXT or _is_hidden(tag, attributes) or (style and hides_all(style)):
            if tag not in _UNCOUNTED:
                chars += _text_chars(node)
            gone.append(node)
            skipped.add(node.mem_id)
            continue
        paints[node.mem_id] = painted(paint, style) if style else paint
    for node in gone:
        node.decompose() if node.is_element_node else node.remove()
    return chars


def _text_chars(node: LexborNode) -> int:
    chars = len((node.text(strip=True) or "").strip())
    if node.tag == "template":
        chars += sum(len((each.text(strip=True) or "").strip()) for each in node.template_fragments())
    return chars


def _is_hidden(tag: str, attributes: dict[str, str | None]) -> bool:
    if tag == "dialog" and "open" not in attributes:
        return True
    if not attributes:
        return False
    if "hidden" in attributes or (attributes.get("aria-hidden") or "").strip().lower() == "true":
        return True
    return tag == "input" and (attributes.get("type") or "").strip().lower() == "hidden"


class _Sheet:
    """The rules of the document's own sheets that hide something or undo that, by element."""

    def __init__(self, document: LexborHTMLParser, elements: int) -> None:
        css = "\n".join((node.text() or "") for node in document.css("style")[:50])[:MOST_CSS_CHARS]
        self._matched: dict[int, list[tuple[tuple[int, int, int], int, StyleRule]]] = {}
        # Each costs a walk over the document.
        for order, rule in rules_that_hide(css)[: max(20, min(MOST_RULES, MOST_MATCHES // elements))]:
            for node in _matches(document, rule.selector):
                self._matched.setdefault(node.mem_id, []).append((rule.weight, order, rule))

    def style_of(self, element: int, inline: str) -> dict[str, str]:
        """What holds of all that is said: by weight, then by order, and inline last; `!important` before all."""
        matched = self._matched.get(element)
        own = declarations(inline) if inline else {}
        if not matched:
            return own
        merged: dict[str, str] = {}
        for style in [*(rule.style for _, _, rule in sorted(matched, key=lambda each: each[:2])), own]:
            for name, value in style.items():
                if "!important" in value or "!important" not in merged.get(name, ""):
                    merged[name] = value
        return merged


def _matches(document: LexborHTMLParser, selector: str) -> Iterable[LexborNode]:
    try:
        return document.css(selector)
    except (SelectolaxError, ValueError):
        return ()
