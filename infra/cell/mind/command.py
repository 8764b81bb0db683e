"""The command `minifram-mind`, for whatever has a shell: searches the mind, and notes for it. The runner takes up both
behind the act, as if the tools had been called: what was recalled is on record, and no evidence of itself."""

from __future__ import annotations

import argparse
import os
import sys

from infra.cell.mind.notes import NOTE, Note, leave
from infra.cell.mind.recall import RECALL, Recall, recall
from infra.cell.tools.tool import schema_of
from infra.shared.mind import layout
from infra.shared.paths import CHECKOUT_VARIABLE


def main(words: list[str]) -> int:
    given = {name: value for name, value in vars(_parser().parse_args(words)).items() if value}
    tool, root = given.pop("act"), given.pop("root", "") or _root(os.environ.get(CHECKOUT_VARIABLE, os.getcwd()))
    given = {name: " ".join(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        leave(root, tool, given)
    except (OSError, ValueError) as error:
        print(f"minifram-mind: nothing can be left for the runner in the mind ({root}): {error}", file=sys.stderr)
        return 1
    if tool == RECALL:
        print(recall(root, given["words"])[0])
    else:
        print("left for the runner, which takes it up behind this act as if the tool note had been called")
    return 0


def _root(checkout: str) -> str:
    """The clone of the mind beside the checkouts, or where the container has it."""
    above = os.path.dirname(checkout)
    while above != os.path.dirname(above):
        if os.path.isdir(f"{above}/mind/memory"):
            return f"{above}/mind"
        above = os.path.dirname(above)
    return layout.ROOT


def _parser() -> argparse.ArgumentParser:
    """Takes what the tools take."""
    parser = argparse.ArgumentParser("minifram-mind", description="The memory of earlier runs, and for later ones.")
    acts = parser.add_subparsers(dest="act", required=True)
    for tool, args in ((RECALL, Recall), (NOTE, Note)):
        act, takes = acts.add_parser(tool, help=(args.__doc__ or "").partition(". ")[0]), schema_of(args)
        act.add_argument("--root", default="", help=argparse.SUPPRESS)
        for name, each in takes["properties"].items():
            flag, many = "" if name in takes["required"] else "--", "+" if name == "words" else None
            act.add_argument(f"{flag}{name}", default="", nargs=many, help=each.get("description"))
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
