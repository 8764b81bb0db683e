"""The command `minifram-mind`, for whatever has a shell: searches the mind, and notes for it."""

from __future__ import annotations

import argparse
import os
import sys
import time

from infra.cell.mind.notes import NOTE, Note, leave
from infra.cell.mind.recall import RECALL, Recall, recall
from infra.cell.tools.tool import schema_of
from infra.shared.mind import layout
from infra.shared.paths import CHECKOUT_VARIABLE


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    root = given.root or _root(os.environ.get(CHECKOUT_VARIABLE, os.getcwd()))
    if not root:
        return _refused("the mind is not found beside this checkout; name it with --root")
    if given.act == NOTE:
        said = {name: getattr(given, name) for name in Note.__struct_fields__ if getattr(given, name)}
        try:
            leave(root, said)
        except (OSError, ValueError) as error:
            return _refused(f"the note cannot be left: {error}")
        print("left for the runner, which takes it up behind this act as if the tool note had been called")
        return 0
    print(recall(root, " ".join(given.words), time.time())[0])
    return 0


def _root(checkout: str) -> str:
    """The clone of the mind beside the checkouts, or where the container has it; empty for none."""
    above = os.path.dirname(checkout)
    while above != os.path.dirname(above):
        if os.path.isdir(f"{above}/mind/memory"):
            return f"{above}/mind"
        above = os.path.dirname(above)
    return layout.ROOT if os.path.isdir(f"{layout.ROOT}/memory") else ""


def _refused(words: str) -> int:
    print(f"minifram-mind: {words}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    """Takes what the tools take."""
    parser = argparse.ArgumentParser("minifram-mind", description="The memory of earlier runs, and for later ones.")
    acts = parser.add_subparsers(dest="act", required=True)
    for tool, args in ((RECALL, Recall), (NOTE, Note)):
        act, takes = acts.add_parser(tool, help=(args.__doc__ or "").partition(". ")[0]), schema_of(args)
        act.add_argument("--root", default="", help=argparse.SUPPRESS)
        for name, each in takes["properties"].items():
            flag, many = "" if name in takes["required"] else "--", "+" if name == "words" else None
            act.add_argument(f"{flag}{name}", default="", nargs=many, help=each["description"])
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
