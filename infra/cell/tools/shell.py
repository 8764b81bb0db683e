"""The command `minifram-web`, for whatever has a shell: the web tools, with the same frame around what pages wrote."""

from __future__ import annotations

import argparse
import os
import sys

from infra.cell.actions import ToolCall
from infra.cell.tools.tool import Position, Toolbox
from infra.cell.tools.web import USUAL_CHARS, web_tools
from infra.shared.paths import CHECKOUT_VARIABLE, RUN_VARIABLE, STEP_VARIABLE, WEB_SOCKET_VARIABLE
from infra.shared.web import MOST_CHARS


def main(words: list[str]) -> int:
    given = vars(_parser().parse_args(words))
    socket_path = os.environ.get(WEB_SOCKET_VARIABLE, "")
    if not socket_path:
        return _refused(f"{WEB_SOCKET_VARIABLE} is not set: run this from a shell of the agent's")
    checkout, step = os.environ.get(CHECKOUT_VARIABLE, os.getcwd()), os.environ.get(STEP_VARIABLE, "")
    at = Position(os.environ.get(RUN_VARIABLE, "")[:100], int(step) if step.isdecimal() else 0)
    name = given.pop("tool")
    if "query" in given:
        given["query"] = " ".join(given["query"])
    result = Toolbox(web_tools(checkout, socket_path, MOST_CHARS, at)).call(ToolCall("", name, given))
    if not result.ok:
        return _refused(f"{result.error_code}: {result.shown.removeprefix(f'{name}: ')}")
    shown = result.shown
    for path in result.artifacts:  # it may be read from anywhere
        shown = shown.replace(path, f"{checkout}/{path}")
    print(shown)
    return 0


def _refused(words: str) -> int:
    print(f"minifram-web: {words}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    """Takes what the tools take."""
    parser = argparse.ArgumentParser("minifram-web", description="Read the web. What a page wrote stands in a frame.")
    acts = parser.add_subparsers(required=True)
    fetch = acts.add_parser("fetch", help="a page as text")
    fetch.set_defaults(tool="fetch_page")
    fetch.add_argument("url")
    fetch.add_argument("--raw", action="store_true", help="the source as it came, where the PM allows that")
    fetch.add_argument("--max-chars", type=int, default=USUAL_CHARS)
    search = acts.add_parser("search", help="titles, addresses and excerpts")
    search.set_defaults(tool="web_search")
    search.add_argument("query", nargs="+", metavar="words")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
