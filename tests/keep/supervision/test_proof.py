"""What the watcher does when the seal cannot be proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.keep.supervision import sealed_watcher
from tests.keep.supervision.agents import Agent

MakeAgent = Callable[..., Agent]


def test_nothing_is_launched_before_the_proof(make_agent: MakeAgent) -> None:
    """The PM reads why; no version is blamed, and it is tried again."""
    agent = make_agent()
    unsealed = Path(agent.places.bot, sealed_watcher.UNSEALED)
    unsealed.parent.mkdir(parents=True)
    unsealed.touch()
    agent.start("tests.keep.supervision.sealed_watcher")
    assert "the seal does not hold (the rules are gone)" in agent.told("main failed (2 in a row)")
    assert "runner.launched" not in agent.log()
    unsealed.unlink()
    agent.serving("main")
    assert agent.state().pins == ()
