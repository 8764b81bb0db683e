"""The peers' environment (`make setup-bench`), and mini-swe-agent in it, where none of our dependencies are:
`python -m bench.peers URL` works in the current directory as that provider says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


def mini(place: Path, url: str) -> None:
    """This module as a program in the peers' environment."""
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
    command = [f"{BIN}/python", "-s", "-P", "-m", "bench.peers", url]
    subprocess.run(command, cwd=place, env=environment, capture_output=True, check=True)


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
    words = ["--yolo", "--exit-immediately", "--task=Do what the page says.", "--model=bench"]
    app([*words, "--model-class=openrouter", *(f"--config={each}" for each in settings)])


if __name__ == "__main__":
    run(sys.argv[1])
