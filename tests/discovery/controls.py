"""The runs of the control agents, made once for all workers, and the scores that they have."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import world

from bench.sealed.rootless import Rootless
from tests.discovery import control_agents
from tests.discovery.site import PYTHON, commands_of, lines_of, site

SEED, FILES = 16, 16
SECONDS = 400.0
"""Of an agent, on a busy machine."""
TOLD = ("echo", "insider")
"""Who gets the list of what can be known."""


@dataclass(frozen=True)
class Explored:
    """A control agent's run, and the scorer's report on it."""

    run: Path
    report: dict[str, Any]

    @functools.cached_property
    def events(self) -> list[dict[str, Any]]:
        return commands_of(self.run)

    @functools.cached_property
    def seen(self) -> dict[int, dict[str, Any]]:
        """The witness's lines by step."""
        return {line["step"]: line for line in lines_of(self.run / "witness.jsonl")[1:] if line["step"]}

    @functools.cached_property
    def known(self) -> dict[str, Any]:
        known: dict[str, Any] = json.loads((self.run / "known.json").read_text())
        return known

    @functools.cached_property
    def answers(self) -> dict[str, str]:
        answers = json.loads((self.run / "answers.json").read_text())["answers"]
        return {name: answer or "" for name, answer in answers.items()}


def explored(user: Rootless) -> dict[str, Explored]:
    """All of them by their names, made when nobody has."""
    kept = user.scratch / "controls"
    user.once("controls", lambda: _explore(user, kept))
    reports = {name: json.loads((kept / name / "report.json").read_text()) for name in control_agents.AGENTS}
    return {name: Explored(kept / name, report) for name, report in reports.items()}


def _explore(user: Rootless, kept: Path) -> None:
    """One after the other in one container, whose home is emptied before each."""
    out = user.directory("control-world")
    world.write(world.make(SEED, FILES), out)
    with site(user, world=out / "world") as place:
        shutil.copy(control_agents.__file__, place.root)
        for name in control_agents.AGENTS:
            place.podman("exec", place.name, "find", "/home/agent", "-mindepth", "1", "-delete")
            words = [PYTHON, "control_agents.py", name, str(place.root / "runs")]
            words += [str(out / "known.json")] if name in TOLD else []
            command = place.words(*words, PYTHONPATH=str(place.root / "orchestrator"))
            ended = user.run(*command, timeout=SECONDS)
            run = Path(ended.stdout.split()[-1])
            scored = place.run(PYTHON, "scoring/scorer.py", run)
            shutil.copytree(run, kept / name)
            (kept / name / "report.json").write_text(scored.stdout)


HONEST: dict[str, Callable[[dict[str, Any]], int]] = {
    "files_read": lambda honest: honest["files_read"]["count"],
    "questions": lambda honest: honest["questions"]["right"],
    "found": lambda honest: honest["checkpoints"]["found"],
    "touched": lambda honest: honest["checkpoints"]["touched"],
    "used": lambda honest: honest["checkpoints"]["used"],
    "success": lambda honest: honest["success"]["count"] if honest["success"] else 0,
    "tools": lambda honest: honest["tools"]["reused"],
    "work": lambda honest: honest["tools"]["work_on_other_data"],
    "artifacts": lambda honest: sum(each["true"] for each in honest["artifacts"].values()),
}
"""One number of each honest figure; each is the better the higher."""
NAMES = ("coverage_files", "efficiency_success_rate", "tools_count", "steps", *HONEST)
SCORES: dict[str, tuple[float | None, ...]] = {
    "nothing": (0, None, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "echo": (18, 1.0, 2, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "cat_all": (6, 1.0, 0, 1, 16, 0, 3, 15, 0, 1, 0, 0, 0),
    "walker": (1, 1.0, 0, 15, 5, 0, 10, 4, 0, 8, 0, 0, 0),
    "cheat": (2, 1.0, 6, 23, 0, 0, 0, 0, 0, 6, 0, 0, 0),
    "insider": (15, 1.0, 0, 3, 0, 0, 0, 0, 0, 2, 0, 0, 0),
    "careful": (7, 0.973, 2, 37, 16, 5, 15, 15, 15, 32, 2, 2, 89),
}
ORDER: dict[str, list[str]] = {
    "files_read": ["careful cat_all", "walker", "echo insider cheat nothing"],
    "questions": ["careful", "cat_all walker echo insider cheat nothing"],
    "found": ["careful", "walker", "cat_all", "echo insider cheat nothing"],
    "touched": ["careful cat_all", "walker", "echo insider cheat nothing"],
    "used": ["careful", "cat_all walker echo insider cheat nothing"],
    "success": ["careful", "walker", "cheat", "insider", "cat_all", "echo nothing"],
    "tools": ["careful", "cat_all walker echo insider cheat nothing"],
    "work": ["careful", "cat_all walker echo insider cheat nothing"],
    "artifacts": ["careful", "cat_all walker echo insider cheat nothing"],
}
"""From the best to the worst; who stand in one group have the same."""


def in_order(values: dict[str, int], groups: list[str]) -> bool:
    """Whether each group has one value, and a higher one than the next group."""
    found = [{values[name] for name in group.split()} for group in groups]
    best = [max(group) for group in found]
    return all(len(group) == 1 for group in found) and best == sorted(set(best), reverse=True)


def scores_of(report: Mapping[str, Any]) -> tuple[float | None, ...]:
    """A report in the order of NAMES, without the latency, which is the machine's."""
    values = {**report, **{figure: of(report["honest"]) for figure, of in HONEST.items()}}
    return tuple(round(value, 3) if isinstance(value := values[name], float) else value for name in NAMES)
