from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keep.rehearsal.candidates import Bench, make_template


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_template(str(tmp_path_factory.mktemp("rehearsal")))


@pytest.fixture
def bench(template: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(template, str(tmp_path))
    yield made
    made.close()
