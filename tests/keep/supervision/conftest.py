from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.keep.supervision.agents import Agent


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Build agents; whatever they started is ended afterwards."""
    made: list[Agent] = []

    def make(behaviour: str = "serve()", settings: str = "") -> Agent:
        directory = tmp_path / f"agent{len(made)}"
        directory.mkdir()
        made.append(Agent(directory, behaviour, settings))
        return made[-1]

    yield make
    for agent in made:
        agent.close()
