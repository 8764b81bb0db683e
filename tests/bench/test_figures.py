"""What is measured goes on being there to be measured."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.__main__ import NAMES
from infra.shared.paths import ROOT


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_measured(name: str) -> None:
    """One round of each prints a table with a ratio, also without the peers."""
    words = [sys.executable, "-m", "bench", name, "--rounds", "1"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ratio" in done.stdout
