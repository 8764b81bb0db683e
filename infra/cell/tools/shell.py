"""The command `minifram-web`, for whatever has a shell: the web tools, with the same frame around what pages wrote."""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from infra.cell.doors import Refused, Web
from infra.cell.tools.spill import Spill
from infra.cell.tools.web import LEAST_CHARS, USUAL_CHARS, kept_whole, shown, shown_results
from infra.shared.paths import CHECKOUT_VARIABLE, RUN_VARIABLE, STEP_VARIABLE, WEB_SOCKET_VARIABLE
from infra.shared.web import MOST_CHARS, Fetch, Search


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    socket_path = os.environ.get(WEB_SOCKET_VARIABLE, "")
    if not socket_path:
        return _refused(f"{WEB_SOCKET_VARIABLE} is not set: run this from a shell of the agent's")
    try:
        print(_answer(given, Web(socket_path)))
    except Refused as refused:
        error = refused.failure
        hint = f"; {error.hint}" if error.hint else ""
        return _refused(f"{error.type}: {error.message}{hint}")
    return 0


def _answer(given: argparse.Namespace, web: Web) -> str:
    """Raises Refused."""
    at = (os.environ.get(RUN_VARIABLE, "")[:100], os.environ.get(STEP_VARIABLE, "")[:100])
    if given.act == "search":
        return shown_results(web.search(Search(" ".join(given.words), *at)))
    most = max(LEAST_CHARS, min(given.max_chars, MOST_CHARS))
    page = web.fetch(Fetch(given.url, given.raw, most, *at))
    checkout = os.environ.get(CHECKOUT_VARIABLE, os.getcwd())
    kept, note = kept_whole(Spill(checkout), page)
    for path in kept:  # it may be read from anywhere
        note = note.replace(path, f"{checkout}/{path}")
    return shown(page, note)


def _refused(words: str) -> int:
    print(f"minifram-web: {words}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("minifram-web", description="Read the web. What a page wrote stands in a frame.")
    acts = parser.add_subparsers(dest="act", required=True)
    fetch = acts.add_parser("fetch", help="a page as text")
    fetch.add_argument("url")
    fetch.add_argument("--raw", action="store_true", help="the source as it came, where the PM allows that")
    fetch.add_argument("--max-chars", type=int, default=USUAL_CHARS)
    search = acts.add_parser("search", help="titles, addresses and excerpts")
    search.add_argument("words", nargs="+")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (msgspec.MsgspecError, ValueError) as error:
        sys.exit(f"minifram-web: {error}")
