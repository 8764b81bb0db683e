"""The exercise passes for a version that can act, and says what is missing for one that cannot."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.life.cell import Cell, read, write


def exercise(cell: Cell) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-E", "-s", "-m", "infra.life.exercise"],
        cwd=cell.checkout,
        env=cell.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )


@pytest.mark.heavy
def test_this_version_passes_and_leaves_nothing(cell: Cell) -> None:
    """No file of the cell is touched, no door is asked."""
    before = sorted(os.listdir(cell.places.bot))

    run = exercise(cell)

    assert (run.returncode, run.stdout.split(":")[0]) == (0, "exercise passed")
    assert sorted(os.listdir(cell.places.bot)) == before
    assert cell.model.requests == []


CRIPPLES = {
    "reads": ("loop/file_tools.py", "text = content.decode(", "text = content[:0].decode(", "did not reach the model"),
    "ticks": ("life/page.py", "report.ticks, home)", "(), home)", "is still open"),
    "signals": (
        "loop/hop_tools.py",
        "Signal(SignalName.BOOTSTRAP, branch))",
        'Signal(SignalName.BOOTSTRAP, "b"))',
        "signal",
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("what", CRIPPLES)
def test_a_version_that_lost_an_ability_fails_and_says_which(cell: Cell, what: str) -> None:
    """Each of these would leave an agent that can no longer work, or no longer evolve."""
    file, old, new, words = CRIPPLES[what]
    path = f"{cell.checkout}/infra/{file}"
    source = read(path)
    assert source.count(old) == 1
    write(path, source.replace(old, new))

    run = exercise(cell)

    assert run.returncode == 1
    assert words in run.stdout
