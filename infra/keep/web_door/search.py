"""What a search found, in the shape that SearXNG answers with (`format=json`). Pure."""

from __future__ import annotations

from urllib.parse import quote_plus

import msgspec

from infra.keep.web_door.refusal import WebRefusal, failed, unavailable
from infra.keep.web_door.target import target_of
from infra.shared.frame import framed, one_line
from infra.shared.secret_shapes import redacted
from infra.shared.web import SearchResults

MOST_RESULTS = 10
MOST_TITLE_CHARS, MOST_EXCERPT_CHARS, MOST_ADDRESS_CHARS = 200, 600, 1000
QUERY = "{query}"


class FoundPage(msgspec.Struct, frozen=True):
    url: str = ""
    title: str | None = ""
    content: str | None = ""


class _Answer(msgspec.Struct, frozen=True):
    results: list[FoundPage]


def search_address(provider: str | None, query: str) -> str:
    """Where the query is asked. Raises WebRefusal when the PM names no provider."""
    if not provider:
        raise unavailable(
            "no search provider is set", "the PM names one in web.search_url; fetch_page reads known addresses", False
        )
    return provider.replace(QUERY, quote_plus(query.encode(errors="replace")))


def origin_of(provider: str | None) -> str:
    """Where searches go; empty for nowhere."""
    try:
        return target_of((provider or "").replace(QUERY, "")).origin
    except WebRefusal:
        return ""


def search_results(body: bytes, origin: str, nonce: str) -> tuple[SearchResults, tuple[str, ...]]:
    """In a frame; and the addresses in it. Raises WebRefusal for a body of another shape."""
    try:
        found = msgspec.json.decode(body, type=_Answer).results
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        words = f"{origin} did not answer as a search provider does, with JSON of results[].{{url, title, content}}"
        raise failed(words, "tell the PM that web.search_url is wrong") from None
    usable = [each for each in found if each.url.startswith(("http://", "https://"))][:MOST_RESULTS]
    text = "\n\n".join(_shown(number, each) for number, each in enumerate(usable, 1)) or "Nothing was found."
    return SearchResults(framed(text, origin, nonce), len(usable)), tuple(each.url for each in usable)


def _shown(number: int, found: FoundPage) -> str:
    title, address = one_line(found.title or "", MOST_TITLE_CHARS), one_line(found.url, MOST_ADDRESS_CHARS)
    return redacted(f"{number}. {title}\n   {address}\n   {one_line(found.content or '', MOST_EXCERPT_CHARS)}")
