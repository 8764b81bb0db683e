"""The peers' environment (`make setup-bench`), and mini-swe-agent in it, where none of our dependencies are.

`python -m bench.peers steps COUNT` prints the seconds of a step; `python -m bench.peers run URL` works in the current
directory as that provider says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BIN = f"{ROOT}/.venv-bench/bin"
MINI = "mini-swe-agent"
PROGRAMS = {"supervisord": f"{BIN}/supervisord", "runsv": "runsv", MINI: f"{BIN}/mini"}


def installed(*names: str) -> tuple[list[str], tuple[str, ...]]:
    """Those of them that are there, and a note about the others."""
    there = [name for name in names if shutil.which(PROGRAMS[name])]
    missing = ", ".join(name for name in names if name not in there)
    return there, (f"Not installed: {missing}. Run `make setup-bench`.",) if missing else ()


def mini(place: Path, *words: str) -> str:
    """What this module prints there, as a program in the peers' environment."""
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(place),
        "PYTHONPATH": str(ROOT),
        # No banner, no settings of the caller's, no questions.
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": f"{place}/.mini",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
    }
    command = [f"{BIN}/python", "-s", "-P", "-m", "bench.peers", *words]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True).stdout


def run(url: str) -> None:
    """Its own program as a user starts it who does not want to be asked, with its fastest model class: that one posts
    by requests; by litellm, its default, a step takes twice as long."""
    from minisweagent.models import openrouter_model  # type: ignore[import-not-found]
    from minisweagent.run.mini import app  # type: ignore[import-not-found]

    class Model(openrouter_model.OpenRouterModel):  # type: ignore[misc]
        """It has no setting for the address."""

        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self._api_url = f"{url}/chat/completions"

    openrouter_model.OpenRouterModel = Model
    settings = ("mini.yaml", "model.cost_tracking=ignore_errors", "agent.cost_limit=0")
    words = [
        "--yolo",
        "--exit-immediately",
        "--task=Do what the page says.",
        "--model=bench",
        "--model-class=openrouter",
    ]
    app([*words, *(f"--config={each}" for each in settings)])


def seconds_of_a_step(steps: int) -> float:
    """On its own deterministic model."""
    from minisweagent.agents.default import DefaultAgent  # type: ignore[import-not-found]
    from minisweagent.environments.local import LocalEnvironment  # type: ignore[import-not-found]
    from minisweagent.models import test_models

    call = {"id": "call-1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "true"}'}}
    reply = test_models.make_toolcall_output("Next.", [call], [{"command": "true", "tool_call_id": "call-1"}])
    templates = {"system_template": "You act.", "instance_template": "{{task}}"}
    model = test_models.DeterministicToolcallModel(outputs=[reply] * (steps + 1), cost_per_call=0.0)
    agent = DefaultAgent(model, LocalEnvironment(), **templates, step_limit=steps, cost_limit=0.0)
    began = time.perf_counter()
    agent.run("Continue.")
    return (time.perf_counter() - began) / steps


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2])
    else:
        print(seconds_of_a_step(int(sys.argv[2])))
