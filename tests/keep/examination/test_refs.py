"""How verdicts are kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

from infra.keep.verdicts import refs, verdict
from infra.keep.verdicts.findings import Findings, Run
from infra.keep.verdicts.selection import Selection
from infra.shared.repository.git import Git


def test_whatever_an_examiner_answers_its_verdict_is_kept(tmp_path: Path) -> None:
    """The candidate chooses its words, and one that nobody could read would be asked for again and again."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    git, key, long = Git(str(tmp_path)), "0" * 40, "\x01" * 1_000_000
    names = tuple(f"{number}{long}" for number in range(50))
    run = Run(names, dict.fromkeys(names, "failed"), {long: long}, dict.fromkeys(names, long), long, names)
    made = verdict.judge(key, "b", "c", "m", Selection((), ()), Findings(False, long, long, run, run, run))
    refs.keep(git, made)
    assert refs.find(git, key) == made
    assert not made.passed
