"""The folder is the customer's layout, and runs on Python 3.10's standard library."""

from __future__ import annotations

import ast
import sys

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


def test_nothing_is_imported_but_the_standard_library_and_what_lies_beside() -> None:
    assert len(SCRIPTS) == 8
    for path in SCRIPTS:
        allowed = {*sys.stdlib_module_names, *(each.stem for each in SCRIPTS)}
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
        assert imported(tree) <= allowed, (path, imported(tree) - allowed)


def imported(tree: ast.Module) -> set[str]:
    """The first words of the modules' names."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module).partition(".")[0])
    return names
