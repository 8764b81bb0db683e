"""The map that the agent reads before it changes itself: its paths exist, and a row is little to read."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "infra/cell/README.md").read_text()
PATH = re.compile(r"`((?:infra|tests|spec)/[\w./*]+|SYSTEM\.md)`")
MOST_CHARS = 20_000
"""Of what a change edits: 5,000 tokens."""


def rows() -> list[list[str]]:
    """The cells of the table of changes."""
    table = MAP.split("\n## ")[0]
    return [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][1:]


def test_every_path_of_the_map_is_there() -> None:
    """Who moves a file says so here."""
    missing = [path for path in PATH.findall(MAP) if not any(ROOT.glob(path.rstrip("/")))]
    assert missing == []
    assert MAP.count("\n") <= 45
    assert "infra/cell/README.md" in (ROOT / "SYSTEM.md").read_text()


def test_a_usual_change_reads_two_files_and_has_a_test() -> None:
    """Twelve changes, each of few tokens."""
    assert len(rows()) == 12
    for what, product, test in rows():
        paths = PATH.findall(product)
        assert 1 <= len(paths) <= 2, what
        assert sum(len((ROOT / path).read_text()) for path in paths) <= MOST_CHARS, what
        assert len(PATH.findall(test)) == 1, what
