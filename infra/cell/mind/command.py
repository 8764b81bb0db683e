"""The command `minifram-mind`, for whatever has a shell: searches the mind, and notes for it. The runner takes up both
behind the act, as if the tools had been called: what was recalled is on record, and no evidence of itself."""

from __future__ import annotations

import argparse
import os
import sys

from infra.cell.actions import NOTE
from infra.cell.mind.notes import leave
from infra.cell.mind.recall import RECALL, recall
from infra.shared.mind import layout
from infra.shared.paths import CHECKOUT_VARIABLE


def main(words: list[str]) -> int:
    given = {name: value for name, value in vars(_parser().parse_args(words)).items() if value}
    tool, root = given.pop("act"), _root(os.environ.get(CHECKOUT_VARIABLE, os.getcwd()))
    given |= {"words": " ".join(given["words"])} if tool == RECALL else {}
    try:
        leave(root, tool, given)
    except (OSError, ValueError) as error:
        print(f"minifram-mind: nothing can be left for the runner in the mind ({root}): {error}", file=sys.stderr)
        return 1
    left = "left for the runner, which takes it up behind this act as if the tool note had been called"
    print(recall(root, given["words"])[0] if tool == RECALL else left)
    return 0


def _root(checkout: str) -> str:
    """The clone of the mind beside the checkouts, or where the container has it."""
    above = os.path.dirname(checkout)
    while above != os.path.dirname(above) and not os.path.isdir(f"{above}/mind/memory"):
        above = os.path.dirname(above)
    return f"{above}/mind" if os.path.isdir(f"{above}/mind/memory") else layout.ROOT


def _parser() -> argparse.ArgumentParser:
    """Takes what the tools take, and leaves it to them to judge it."""
    parser = argparse.ArgumentParser("minifram-mind", description="The memory of earlier runs, and for later ones.")
    acts = parser.add_subparsers(dest="act", required=True)
    acts.add_parser(RECALL, help="search it").add_argument("words", nargs="+")
    note = acts.add_parser(NOTE, help="note one fact, as one statement about one subject")
    for name in ("subject", "statement", "--check", "--quote"):
        note.add_argument(name, default="")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
