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
        # No banner, no settings of the caller's, no look at the network for prices.
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": f"{place}/.mini",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    command = [f"{BIN}/python", "-s", "-P", "-m", "bench.peers", *words]
    return subprocess.run(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def run(url: str) -> None:
    """As `mini` configures it, with its own model class: litellm over the openai SDK."""
    import minisweagent  # type: ignore[import-not-found]
    import yaml
    from minisweagent.agents.default import DefaultAgent  # type: ignore[import-not-found]
    from minisweagent.environments.local import LocalEnvironment  # type: ignore[import-not-found]
    from minisweagent.models.litellm_model import LitellmModel  # type: ignore[import-not-found]

    config: dict[str, Any] = yaml.safe_load((Path(minisweagent.__file__).parent / "config/mini.yaml").read_text())
    agent = {key: value for key, value in config["agent"].items() if key in ("system_template", "instance_template")}
    told = config["model"]["model_kwargs"] | {"api_base": url, "api_key": "none"}
    # This litellm looks for tools of MCP servers in each call, with a package that it does not require.
    told["_skip_mcp_handler"] = True
    given = config["model"] | {"model_kwargs": told, "model_name": "openai/bench", "cost_tracking": "ignore_errors"}
    environment = LocalEnvironment(cwd=os.getcwd(), **config["environment"])
    DefaultAgent(LitellmModel(**given), environment, **agent, cost_limit=0.0).run("Do what the page says.")


def seconds_of_a_step(steps: int) -> float:
    """On its own deterministic model."""
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models import test_models  # type: ignore[import-not-found]

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
