"""Whole runs of mini-swe-agent as `mini` configures it, on a provider that it is given: its agent, its environment and
its own model class, which is litellm over the openai SDK. Runs in the peers' environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from bench.steps import serve_runs


def run(url: str, directory: str) -> str:
    """One run in `directory`; gives its end."""
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
    model = LitellmModel(
        **(config["model"] | {"model_kwargs": told}), model_name="openai/bench", cost_tracking="ignore_errors"
    )
    environment = LocalEnvironment(cwd=directory, **config["environment"])
    end = DefaultAgent(model, environment, **agent, cost_limit=0.0).run("Do what the page says.")
    return str(end.get("exit_status"))


if __name__ == "__main__":
    os.environ.setdefault("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "2")
    serve_runs(sys.argv[1], run)
