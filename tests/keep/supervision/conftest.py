from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.shared.signals import SignalName
from tests.keep.supervision.agents import Agent, within


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


@pytest.fixture(scope="module")
def one_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent that serves, with a branch `better`, for tests in which no runner fails: starting one is what they would
    mostly do."""
    made = Agent(tmp_path_factory.mktemp("agent"))
    made.branch("better", "serve()")
    made.start()
    yield made
    made.close()


@pytest.fixture
def served(one_for_all: Agent) -> Agent:
    """The same with main leading, whatever the test before has done."""
    if within(30.0, lambda: one_for_all.state().active.branch, "a boot") != "main":
        one_for_all.ask(SignalName.BOOTSTRAP, "main")
    one_for_all.serving()
    return one_for_all
