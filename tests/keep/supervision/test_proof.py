"""What the watcher does when the seal cannot be proved: with whoever may be in the way, and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from infra.shared.exit_codes import Exit
from infra.shared.signals import SignalName
from tests.keep.supervision import sealed_watcher
from tests.keep.supervision.agents import Agent

MakeAgent = Callable[..., Agent]
PROGRAM = "tests.keep.supervision.sealed_watcher"
IN_THE_WAY = f"""child = subprocess.Popen(["setsid", "sleep", "300"])
open(f"{{BOT}}/{sealed_watcher.FROM_WITHIN}", "w").write(str(child.pid))
serve()
"""


def test_a_version_in_the_way_of_the_proof_gives_way_to_main(make_agent: MakeAgent) -> None:
    """It is ended with all that it started, and then the seal holds: no reason to stop the agent."""
    agent = make_agent()
    agent.branch("greedy", IN_THE_WAY)
    agent.start(PROGRAM)
    first = agent.serving()
    agent.ask(SignalName.BOOTSTRAP, "greedy")
    assert agent.serving("main", but=first.boot_id).failures == 0
    told = agent.told("greedy failed, main is active again")
    assert "the seal could not be verified: no port is left" in told
    assert "the seal is broken" not in told


def test_a_seal_that_is_not_proved_with_nobody_alive_is_broken(make_agent: MakeAgent) -> None:
    """The watcher ends, the PM reads why, and nothing is launched after the proof failed."""
    agent = make_agent()
    watcher = agent.start(PROGRAM)
    agent.serving()
    launched = agent.log().count("runner.launched")
    Path(agent.places.bot, sealed_watcher.FROM_WITHOUT).touch()
    assert watcher.wait(20) == Exit.DENIED
    assert "the seal is broken" in agent.comms()
    assert agent.log().count("runner.launched") == launched
    assert (agent.state().phase, agent.state().runner_pid) == ("stopped", 0)


def test_nothing_is_launched_before_the_proof(make_agent: MakeAgent) -> None:
    """A seal that was broken before the first launch leaves no moment for the agent's code."""
    agent = make_agent()
    Path(agent.places.bot).mkdir(parents=True, exist_ok=True)
    Path(agent.places.bot, sealed_watcher.FROM_WITHOUT).touch()
    assert agent.start(PROGRAM).wait(20) == Exit.DENIED
    assert "runner.launched" not in agent.log()
