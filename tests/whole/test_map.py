"""The map that an agent reads to change itself (`infra/cell/README.md`): each of its changes is made where it says. How
one is hopped with and comes onto main is the demo's (`test_demo.py`) and the PM's by hand (`test_pm_by_hand.py`)."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
CHANGES = (
    ("infra/cell/work/report.py", "The model ended its turn without a word."),
    ("infra/cell/tools/bash.py", "END_SECONDS = 5.0"),
    ("infra/cell/mind/learn.py", "BELIEF_VALIDATIONS: Final = 2"),
    ("infra/cell/mind/context.py", "FRAME_BYTES: Final = 200"),
    ("infra/cell/policy/gate.py", 'INSTEAD = "Do something else'),
    ("infra/cell/waits.py", "AGAIN: Final = (1, 6, None)"),
    ("infra/cell/loop/context.py", "KEPT_STEPS = 4"),
    (
        "infra/cell/life/live.py",
        "(Directives(tasks), *(() if cell.boot.is_safe_mode else (tasks, Questions(cell, tasks))))",
    ),
    ("SYSTEM.md", "# Who you are"),
    ("infra/cell/protocol/operations.py", "MOST_OPERATIONS: Final = 200"),
    ("infra/cell/mind/duties.py", "AGAIN_SECONDS: Final = 3600.0"),
    ("infra/cell/run/briefing.py", '"# Now"'),
)
"""The file of each row, and what is made otherwise in it."""


def test_each_row_of_the_map_names_the_place() -> None:
    rows = [line for line in (ROOT / "infra/cell/README.md").read_text().splitlines() if line.startswith("| ")][1:13]
    for row, (path, old) in zip(rows, CHANGES, strict=True):
        assert path in row
        assert (ROOT / path).read_text().count(old) == 1, path
