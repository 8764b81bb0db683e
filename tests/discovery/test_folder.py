"""The folder is the customer's layout, and runs on Python 3.10's standard library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.discovery.fake import ROOT

DISCOVERY = ROOT / "discovery"
LAYOUT = (
    "docker-compose.yml", "README.md", "LICENSE", "sandbox/Dockerfile.agent",
    "orchestrator/prompt.txt", "orchestrator/main.py", "orchestrator/llm_driver.py",
    "scoring/scorer.py", "world/README.md", "world/data.csv", "world/puzzles/hidden.txt",
)  # fmt: skip
SCRIPTS = sorted(DISCOVERY.glob("*/*.py"))


def test_the_layout_is_the_customers() -> None:
    assert [path for path in LAYOUT if not (DISCOVERY / path).is_file()] == []
    assert (DISCOVERY / "runs").is_dir()
    assert sorted(path.name for path in (DISCOVERY / "world").rglob("*") if path.is_file()) == [
        "README.md", "data.csv", "hidden.txt",
    ]  # fmt: skip


def test_nothing_is_imported_but_the_standard_library_and_what_lies_beside(tmp_path: Path) -> None:
    """By an interpreter that sees no other package; mypy judges them for Python 3.10."""
    assert len(SCRIPTS) == 8
    for path in SCRIPTS:
        shutil.copy(path, tmp_path)
    line = f"import {', '.join(path.stem for path in SCRIPTS)}"
    subprocess.run([sys.executable, "-E", "-s", "-S", "-c", line], cwd=tmp_path, check=True)
