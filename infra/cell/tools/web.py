"""The tools `fetch_page` and `web_search`: text of the web, in the frame that the web door put it in. Run as a program,
this is the command `minifram-web`, the same for whatever has a shell."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Annotated

from msgspec import Meta

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.doors import Web
from infra.cell.tools.spill import Spill
from infra.cell.tools.tool import Args, Position, Tool, Toolbox
from infra.shared.paths import CHECKOUT_VARIABLE, RUN_VARIABLE, STEP_VARIABLE, WEB_SOCKET_VARIABLE
from infra.shared.policy import EXECUTE
from infra.shared.text import counted
from infra.shared.web import MOST_CHARS, Fetch, Search

LEAST_CHARS, USUAL_CHARS = 200, 10_000
TIMEOUT_MS = 180_000


class FetchPage(Args):
    """Read a page of the web, as data in a frame ⟦web …⟧. Of a long page a file is named that holds the whole."""

    url: str
    raw: Annotated[bool, Meta(description="the source, where the PM allows that")] = False
    max_chars: Annotated[int, Meta(ge=LEAST_CHARS)] = USUAL_CHARS


class WebSearch(Args):
    """Search the web, if the PM has named a provider."""

    query: str


def web_tools(checkout: str, socket_path: str, output_chars: int, at: Position) -> tuple[Tool, ...]:
    """`at` is for the door's trace."""
    spill, web = Spill(checkout), Web(socket_path)

    def fetch_page(given: FetchPage) -> ToolResult:
        most = max(LEAST_CHARS, min(given.max_chars, output_chars, MOST_CHARS))
        page = web.fetch(Fetch(given.url, given.raw, most, at.run, str(at.step)))
        # What the page wrote stands in its frame alone; around it are numbers.
        text = f"HTTP {page.status}, {counted(page.size, 'byte')}\n{page.text}"
        if not page.whole:
            return ToolResult(text)
        kept, note = spill.keep(page.whole.encode(), "the whole, each line of it marked 'web| '")
        return ToolResult(text, artifacts=kept, facts={"truncated": True, "notes": [note]})

    def web_search(given: WebSearch) -> ToolResult:
        found = web.search(Search(given.query, at.run, str(at.step)))
        return ToolResult(f"{counted(found.results, 'result')}\n{found.text}")

    return (
        Tool("fetch_page", FetchPage, fetch_page, TIMEOUT_MS, EXECUTE),
        Tool("web_search", WebSearch, web_search, TIMEOUT_MS, EXECUTE),
    )


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser("minifram-web", description="Read the web. What a page wrote stands in a frame.")
    acts = parser.add_subparsers(required=True, dest="tool")
    fetch = acts.add_parser("fetch", help="a page as text")
    fetch.add_argument("url")
    fetch.add_argument("--raw", action="store_true", help="the source as it came, where the PM allows that")
    fetch.add_argument("--max-chars", type=int, default=USUAL_CHARS)
    acts.add_parser("search", help="titles, addresses and excerpts").add_argument("query", nargs="+", metavar="words")
    given = vars(parser.parse_args(words))
    name = {"fetch": "fetch_page", "search": "web_search"}[given.pop("tool")]
    given |= {"query": " ".join(given["query"])} if "query" in given else {}
    if not (socket_path := os.environ.get(WEB_SOCKET_VARIABLE, "")):
        sys.exit(f"minifram-web: {WEB_SOCKET_VARIABLE} is not set: run this from a shell of the agent's")
    checkout, step = os.environ.get(CHECKOUT_VARIABLE, os.getcwd()), os.environ.get(STEP_VARIABLE, "")
    at = Position(os.environ.get(RUN_VARIABLE, "")[:100], int(step) if step.isdecimal() else 0)
    result = Toolbox(web_tools(checkout, socket_path, MOST_CHARS, at)).call(ToolCall("", name, given))
    if not result.ok:
        sys.exit(f"minifram-web: {result.error_code}: {result.shown.removeprefix(f'{name}: ')}")
    shown = result.shown
    for path in result.artifacts:  # it may be read from anywhere
        shown = shown.replace(path, f"{checkout}/{path}")
    print(shown)


if __name__ == "__main__":
    main(sys.argv[1:])
