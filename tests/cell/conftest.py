"""A cell for each test, copied from one template for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cell.cell import Cell, make_template


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("template")
    make_template(str(root))
    return str(root)


@pytest.fixture
def cell(template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    made = Cell(template, str(tmp_path))
    # For what a test has the agent do in this very process: no settings of whoever runs the tests.
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", made.places.cell_git_config)
    yield made
    made.close()
