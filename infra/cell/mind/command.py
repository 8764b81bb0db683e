"""The command `minifram-mind`, for whatever has a shell: searches the mind, and notes for it."""

from __future__ import annotations

import argparse
import os
import sys
import time

from infra.cell.loop.registry import ToolError
from infra.cell.mind import note_files
from infra.cell.mind.note_tool import NOTE_SPEC
from infra.cell.mind.notes import NOTE
from infra.cell.mind.recall_tool import recall
from infra.cell.mind.rows import KINDS
from infra.cell.mind.search import RESULTS
from infra.shared.mind import layout
from infra.shared.paths import ROOT


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    root = given.root or _root(ROOT)
    if not root:
        return _refused("the mind is not found beside this checkout; name it with --root")
    if given.act == NOTE:
        said = {name: getattr(given, name) for name in NOTE_SPEC.input_schema["properties"] if getattr(given, name)}
        try:
            note_files.leave(root, said)
        except (OSError, ValueError) as error:
            return _refused(f"the note cannot be left: {error}")
        print("left for the runner, which takes it up behind this act as if the tool note had been called")
        return 0
    try:
        text, _ = recall(root, " ".join(given.words), given.kind, given.since, given.number, time.time())
    except ToolError as error:
        return _refused(f"{error}{f'; {error.hint}' if error.hint else ''}")
    print(text)
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
    parser = argparse.ArgumentParser("minifram-mind", description="The memory of earlier runs, and for later ones.")
    acts = parser.add_subparsers(dest="act", required=True)
    recall = acts.add_parser("recall", help="sections that have one of the words, the best first; give synonyms too")
    recall.add_argument("words", nargs="+")
    recall.add_argument("--kind", default="", choices=("", *KINDS), metavar="KIND", help=f"one of {', '.join(KINDS)}")
    recall.add_argument("--since", default="", help="nothing older: a date as 2026-01-31, or 7d, or 4w")
    recall.add_argument("-n", "--number", type=int, default=RESULTS)
    note = acts.add_parser(NOTE, help="one fact for later runs")
    for name, each in NOTE_SPEC.input_schema["properties"].items():
        required = name in NOTE_SPEC.input_schema["required"]
        note.add_argument(name if required else f"--{name}", help=each["description"])
    for act in (recall, note):
        act.add_argument("--root", default="", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
