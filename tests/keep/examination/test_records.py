"""How verdicts are kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

from infra.keep.verdicts import records
from infra.keep.verdicts.verdict import Verdict
from infra.shared.repository.git import Git


def test_a_verdict_that_is_too_long_has_not_passed(tmp_path: Path) -> None:
    """The candidate chooses its words: one that nobody could read would be asked for again and again."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    git, key = Git(str(tmp_path)), "0" * 40
    records.keep(git, Verdict(key, "b", "c", "m", passed=True, failures={"x": "y" * 300_000}, at=7.0))
    found = records.find(git, key)
    assert found
    assert (found.passed, found.at, found.failures) == (False, 7.0, {})
    assert "more than 262144 bytes" in found.why
