"""What of the PM's settings reaches the runner."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec

from infra.shared.policy import Policy, Rule
from tests.keep.supervision.agents import Agent, within


def test_the_policy_reaches_the_runner(make_agent: Callable[..., Agent]) -> None:
    """As the PM wrote it, in the value that starts the runner."""
    limits = "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 20}\n"
    behaviour = "open('given.tmp', 'w').write(json.dumps(BOOT)); os.rename('given.tmp', 'logs/given'); serve()"
    agent = make_agent(behaviour, f"{limits}policy: {{default: ask, rules: [{{do: deny, commands: ['rm *']}}]}}\n")
    agent.start()

    given = Path(agent.places.main_checkout) / "logs/given"
    text = within(30.0, lambda: given.read_text() if given.exists() else None, "what the runner was given")

    assert msgspec.convert(json.loads(text)["policy"], Policy) == Policy(
        "ask", rules=(Rule("deny", commands=("rm *",)),)
    )
