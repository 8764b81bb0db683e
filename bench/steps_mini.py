"""Steps of mini-swe-agent: its default agent and local environment on its own deterministic model. Runs in the
peers' environment, which has none of our dependencies."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from bench.steps import between, serve


class Clocked:
    """Its deterministic model, with the moments at which it is asked and answers.

    The one reply is given again and again: a list of all of them would be copied by its template variables at each
    step, which no real model does."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.sent: list[float] = []
        self.received: list[float] = []

    def query(self, messages: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
        self.sent.append(time.perf_counter())
        self._model.current_index = -1
        reply = dict(self._model.query(messages, **given))
        self.received.append(time.perf_counter())
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def steps(count: int) -> list[float]:
    from minisweagent.agents.default import DefaultAgent  # type: ignore[import-not-found]
    from minisweagent.environments.local import LocalEnvironment  # type: ignore[import-not-found]
    from minisweagent.models.test_models import (  # type: ignore[import-not-found]
        DeterministicToolcallModel,
        make_toolcall_output,
    )

    call = {"id": "call-1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "true"}'}}
    reply = make_toolcall_output("Nothing to it.", [call], [{"command": "true", "tool_call_id": "call-1"}])
    model = Clocked(DeterministicToolcallModel(outputs=[reply], cost_per_call=0.0))
    environment = LocalEnvironment(cwd=os.getcwd())
    # One call more than steps: a step ends when the next request is made.
    agent = DefaultAgent(
        model,
        environment,
        system_template="You act.",
        instance_template="{{task}}",
        step_limit=count + 1,
        cost_limit=0.0,
    )
    end = agent.run("Continue.")
    results = [message for message in agent.messages if message["role"] == "tool"]
    if end["exit_status"] != "LimitsExceeded" or not all("<returncode>0</returncode>" in m["content"] for m in results):
        raise RuntimeError(
            f"mini-swe-agent ended with {end}, last result {results[-1:]}; expected {count + 1} good steps"
        )
    if "litellm" in sys.modules:
        raise RuntimeError("mini-swe-agent imported litellm; expected its deterministic model alone")
    return between(model.received, model.sent)


if __name__ == "__main__":
    serve(steps)
