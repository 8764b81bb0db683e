"""One server for the tests of a module: they do not undo what others look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.host.desk import Desk
from tests.host.serve.served import Served, furnish, serving


@pytest.fixture(scope="module")
def served(born: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    desk = Desk(tmp_path_factory.mktemp("served"))
    desk.like(born)
    furnish(desk)
    with serving(desk) as found:
        yield found
