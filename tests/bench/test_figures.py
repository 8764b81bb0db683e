"""What is measured goes on being there to be measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.heavy
def test_the_steps_of_a_hand_over_are_measured_round_after_round() -> None:
    """More rounds than hops that lead nowhere, with the watcher's own functions timed by their names."""
    words = [sys.executable, "-m", "bench", "handover", "--rounds", "8"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "signal to first line" in done.stdout
    assert "look at main's ref" in done.stdout
