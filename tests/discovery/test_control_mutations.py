"""The scorer with one line changed, on the runs of the control agents: some score is another one then. So the fixed
scores guard each rule as it is written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.sealed.discovery import ROOT
from bench.sealed.rootless import Rootless
from tests.discovery import controls
from tests.discovery.controls import NAMES, SCORES, scores_of

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]

SCORING = ROOT / "discovery/scoring"
SCORE = "import json, scorer, sys; print(json.dumps([scorer.score(run, tools=False) for run in sys.argv[1:]]))"
WORK = NAMES.index("work")
"""Not tried here."""
MUTATIONS: list[tuple[str, str, str, str, str]] = [
    (
        "files_read",
        "a file counts when its directory was listed",
        "honest_world.py",
        "        for path in seen.read:\n            if path in known.files:",
        "        for path in known.files:\n            if posixpath.dirname(path) in seen.listed:",
    ),
    (
        "questions",
        "who answers need not have read",
        "honest_world.py",
        "right += is_so and not unread",
        "right += is_so",
    ),
    (
        "questions",
        "an answer may hold anything",
        "honest_world.py",
        "    if len(answer) > ANSWER_CHARS:\n        return False\n",
        "    if question.answer in answer:\n        return True\n",
    ),
    (
        "found",
        "a command may name what it finds",
        "digest.py",
        " - wanted.found_in(event.command)",
        "",
    ),
    (
        "touched",
        "every file, once any was read",
        "honest_world.py",
        "        for path in witness.steps[number].read:",
        "        for path in of_path if witness.steps[number].read else ():",
    ),
    (
        "used",
        "from the first step on",
        "honest_world.py",
        "for item in known.items if item.content_nonce and item.id in touched}",
        "for item in known.items if item.content_nonce}\n    touched = {item.id: 0 for item in known.items}",
    ),
    (
        "success",
        "whatever the exit code",
        "honest_world.py",
        "    if step.exit_code != 0:\n        return None\n",
        "",
    ),
    (
        "success",
        "what only prints",
        "honest_world.py",
        " and not only_prints(step.command)",
        "",
    ),
    (
        "tools",
        "whatever else opened the file",
        "command_words.py",
        "    if exit_code != 0:\n        return ()\n",
        "    return invocations(command)\n",
    ),
    (
        "tools",
        "other contents at the same place",
        "honest_tools.py",
        "steps.setdefault(hashed, {})",
        'steps.setdefault("", {})',
    ),
    (
        "artifacts",
        "all that is claimed",
        "honest.py",
        "sum(claim.true for claim in claims)",
        "len(claims)",
    ),
]
"""Figure, what the scorer takes for good, file, and what stands there instead."""


def scores(scoring: Path, runs: Sequence[Path]) -> list[tuple[float | None, ...]]:
    """By the scorer that lies there, without trials of tools."""
    ended = subprocess.run(
        [sys.executable, "-c", SCORE, *runs], cwd=scoring, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    reports = json.loads(ended.stdout)
    for report in reports:
        report["honest"]["tools"]["work_on_other_data"] = None
    return [scores_of(report) for report in reports]


def test_a_mutation_of_each_figure_changes_a_score(user: Rootless, tmp_path: Path) -> None:
    """Of that figure. A mutation that finds no place any more has to follow the code."""
    explored = controls.explored(user)
    runs = [each.run for each in explored.values()]
    expected = [tuple(None if at == WORK else value for at, value in enumerate(SCORES[name])) for name in explored]
    assert scores(SCORING, runs) == expected
    for number, (figure, what, name, old, new) in enumerate(MUTATIONS):
        copy = tmp_path / str(number)
        shutil.copytree(SCORING, copy, ignore=shutil.ignore_patterns("__pycache__"))
        text = (copy / name).read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} times {old!r}: this mutation has to follow it"
        (copy / name).write_text(text.replace(old, new))
        column = NAMES.index(figure)
        found = [each[column] for each in scores(copy, runs)]
        assert found != [each[column] for each in expected], f"{figure} does not notice: {what}"
