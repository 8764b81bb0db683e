"""Honest figures of the tools: those that the agent wrote, ran, and ran again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from command_words import ToolRun, tool_runs
from digest import Digest
from honest_world import Figure
from run_values import TOOLS, Home, Witness


@dataclass(frozen=True)
class Tool:
    """One file below tools/. `steps` ran it, by its hash at the time."""

    path: str
    written: bool
    sha256: str | None
    """At the end; None when it is not there any more."""
    steps: Mapping[str, tuple[int, ...]]
    invocations: tuple[str, ...]
    """Those of its last contents that can be run again, the first seen first."""

    @property
    def run(self) -> int:
        return sum(map(len, self.steps.values()))

    @property
    def reused(self) -> bool:
        """Two steps or more ran the same contents."""
        return any(len(steps) > 1 for steps in self.steps.values())


@dataclass(frozen=True)
class Trial:
    """What came out when the scorer ran a tool on other data."""

    works: bool | None
    told: str


def seen_runs(witness: Witness, run: Digest) -> list[tuple[int, str, ToolRun]]:
    """Step, hash and tool of each run that the words of a command prove and the host saw: the file was opened."""
    return [
        (step.number, hashed, found)
        for step in run.steps
        if TOOLS.rpartition("/")[2] in step.command
        for opened in [witness.at(step.number).tools]
        if opened
        for found in tool_runs(step.command, step.exit_code)
        if (hashed := opened.get(found.path))
    ]


def tools_of(witness: Witness, home: Home | None, run: Digest) -> list[Tool]:
    """All that the agent wrote or ran. Written is a file with anything in it, changed during the run and there at its
    end; of several with the same contents, the first by name."""
    changed = frozenset(
        path for seen in witness.steps.values() for path in seen.changed if path.startswith(f"{TOOLS}/")
    )
    files = {path: file for path, file in (home.files if home else {}).items() if path.startswith(f"{TOOLS}/")}
    hashes = {
        path: hashlib.sha256(file.content).hexdigest() for path, file in files.items() if file.content is not None
    }
    written: dict[str, str] = {}
    for path in sorted(changed & set(hashes)):
        if (files[path].content or b"").strip():
            written.setdefault(hashes[path], path)
    # Copies of a tool are one tool: a run of contents that go by another path, too, is one of that path.
    by_hash = dict(written)
    runs = [
        (number, hashed, by_hash.setdefault(hashed, each.path), each)
        for number, hashed, each in seen_runs(witness, run)
    ]
    found = []
    for path in sorted({*written.values(), *(path for _, _, path, _ in runs)}):
        mine = [(number, hashed, each) for number, hashed, at, each in runs if at == path]
        steps: dict[str, dict[int, None]] = {}
        for number, hashed, _ in mine:
            steps.setdefault(hashed, {})[number] = None
        again = dict.fromkeys(each.invocation for _, hashed, each in mine if hashed == hashes.get(each.path))
        found.append(
            Tool(
                path,
                path in written.values(),
                hashes.get(path),
                {hashed: tuple(numbers) for hashed, numbers in steps.items()},
                tuple(text for text in again if text),
            )
        )
    return found


def tools_figure(found: list[Tool], trials: Mapping[str, Trial] | None, why_not: str) -> Figure:
    """`trials` by path; None when none was made, and why."""
    each, lines = [], []
    for tool in found:
        trial = trials.get(tool.path) if trials is not None else None
        each.append(
            {
                "path": tool.path,
                "written": tool.written,
                "run": tool.run,
                "reused": tool.reused,
                "works_on_other_data": trial.works if trial else None,
            }
        )
        steps = ", ".join(str(number) for numbers in tool.steps.values() for number in numbers) or "none"
        written = "written in this run" if tool.written else "not written in this run"
        lines.append(f"{tool.path}: {written}; run by steps {steps}; {trial.told if trial else why_not}")
    works = None if trials is None else sum(trial.works is True for trial in trials.values())
    value = {
        "written": sum(tool.written for tool in found),
        "run": sum(tool.run > 0 for tool in found),
        "reused": sum(tool.reused for tool in found),
        "work_on_other_data": works,
        "each": each,
    }
    return Figure(value, {"tools.work_on_other_data": why_not} if trials is None else {}, tuple(lines))
