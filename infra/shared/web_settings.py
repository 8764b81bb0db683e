"""What is wrong with the PM's settings of the web door. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from infra.shared.host_names import problem_with_host_name
from infra.shared.settings import WebSettings

MOST_NAMES = 500
SECONDS = (1, 60)
"""With its turn and the reading, twice as long and some: the cell waits for three minutes (`cell/web_client`)."""
PAGE_BYTES = (10_000, 64 << 20)
QUERY = "{query}"
_EXAMPLE = "such as https://search.example.org/search?q={query}&format=json"


def problems_with_web(web: WebSettings) -> Iterator[str]:
    """Each with its key."""
    for key, names in (("allowed_domains", web.allowed_domains), ("package_hosts", web.package_hosts)):
        if len(names) > MOST_NAMES:
            yield f"web.{key} has {len(names)} names; at most {MOST_NAMES}"
        yield from (f"web.{key}: {problem}" for problem in map(problem_with_host_name, names) if problem)
    for key, value, (least, most) in (
        ("fetch_seconds", web.fetch_seconds, SECONDS),
        ("page_bytes", web.page_bytes, PAGE_BYTES),
    ):
        if not least <= value <= most:
            yield f"web.{key} is {value:,}; expected {least:,} to {most:,}"
    if web.search_url is not None and (problem := _problem_with_search(web.search_url)):
        yield f"web.search_url is {web.search_url[:200]!r}: {problem}; expected something {_EXAMPLE}"


def _problem_with_search(url: str) -> str:
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "it holds a character that no address has"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"it is not an address ({error})"
    if parts.scheme not in ("http", "https") or not host:
        return "it is no http or https address"
    if "@" in parts.netloc:
        return "it holds a user name or password, which every result would show"
    if QUERY not in parts.path + parts.query or QUERY in parts.netloc:
        return f"it must hold {QUERY} behind the host, where the words go"
    return ""
