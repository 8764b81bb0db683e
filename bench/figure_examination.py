"""From the request for an examination to the verdict, for ordinary changes that an agent makes of itself.

The agent is the body that `minifram init` gives one. The three programs that the watcher starts run one after the
other, as it starts them, on the machine as it is: the load is told, and beside the wall's time the processors'."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.scene import born, places_in
from bench.stamps import progress
from bench.tables import Figure, Table, Verdict
from infra.shared.people import AGENT
from infra.shared.programs import keep_command, keep_environment
from infra.shared.repository.git import Git
from infra.shared.verdicts import records, trees
from infra.shared.verdicts.verdict import Verdict as Examined

GOAL_SECONDS = 60.0
"""The median, on two processors that have nothing else to do."""
ROUNDS = 1

TOOL = '''\
"""A tool of the agent's own: how many words a text has."""

from __future__ import annotations


def count(text: str) -> int:
    return len(text.split())
'''
TOOL_TEST = '''\
from infra.cell.loop.word_tool import count


def test_words_are_counted() -> None:
    """Whatever stands between them."""
    assert count("one  two\\nthree") == 3
'''
ADDED_LINE = "\n# Looked at again.\n"
CHANGES: dict[str, dict[str, str]] = {
    "a tool": {"infra/cell/loop/word_tool.py": TOOL, "tests/cell/loop/test_word_tool.py": TOOL_TEST},
    "a report's line": {"infra/cell/runner/run.py": ADDED_LINE},
    "a file read at the start": {"infra/cell/runner/briefing.py": ADDED_LINE},
    "an edit of SYSTEM.md": {"SYSTEM.md": "\nBe brief.\n"},
    "a fix in the loop": {"infra/cell/loop/loop.py": ADDED_LINE},
}
"""What is added to which files."""


def run(directory: Path, rounds: int | None) -> Figure:
    places = places_in(directory)
    born(places)
    clone = directory / "work"
    subprocess.run(["git", "clone", "--quiet", places.remote, str(clone)], check=True)
    rows: list[tuple[str, ...]] = []
    walls: list[float] = []
    for name, files in CHANGES.items():
        for number in range(rounds or ROUNDS):
            progress("examination", f"{name}, {number + 1}")
            commit = _push(clone, f"bench{len(rows)}x{number}", files)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.time()
            found = _examine(places.remote, f"bench{len(rows)}x{number}", commit)
            wall = time.time() - began
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if not found.opens_main:
                raise RuntimeError(f"{name} does not open main: {found.why or found.needs_word}")
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            walls.append(wall)
            tests = f"{found.mains.passed} + {found.own.passed}"
        rows.append((name, f"{wall:.1f} s", f"{used:.1f} s", tests, f"{os.getloadavg()[0]:.1f}"))
    median = statistics.median(walls)
    table = Table(
        "from the request to the verdict",
        ("change", "wall", "user + sys", "tests: main's + own", "load"),
        tuple(rows),
        (
            f"Median {median:.1f} s; the goal is {GOAL_SECONDS:.0f} s on two processors without other work. "
            f"This machine has {os.cpu_count()}.",
        ),
    )
    return Figure((table,), (Verdict(median <= GOAL_SECONDS, f"the median of the examinations is {median:.1f} s"),))


def _push(clone: Path, branch: str, files: dict[str, str]) -> str:
    git = Git(str(clone), AGENT)
    git("checkout", "--quiet", "-b", branch, "origin/main")
    for path, text in files.items():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        with open(clone / path, "a", encoding="utf-8") as file:
            file.write(text)
    git("add", "--all")
    git("commit", "--quiet", "--message", branch)
    git("push", "--quiet", "origin", branch)
    return git("rev-parse", "HEAD")


def _examine(remote: str, branch: str, commit: str) -> Examined:
    began = time.time()
    given = (f"--remote={remote}", f"--branch={branch}", f"--commit={commit}")
    with tempfile.TemporaryFile() as plan, tempfile.TemporaryFile() as answer:
        _start("prepare", *given, "--rehearsal-seconds=20", "--seconds=900", stdout=plan.fileno())
        plan.seek(0)
        _start("examine", stdin=plan.fileno(), stdout=answer.fileno())
        words = (f"--remote={remote}", f"--began={began!r}", f"--plan={plan.fileno()}", f"--answer={answer.fileno()}")
        _start("conclude", *words, more=(plan.fileno(), answer.fileno()))
    git = Git(remote)
    found = records.find(git, trees.key_of(git, trees.merged(git, git("rev-parse", "refs/heads/main"), commit)))
    if found is None:
        raise RuntimeError(f"no verdict on {branch}")
    return found


def _start(*words: str, stdin: int = subprocess.DEVNULL, stdout: int | None = None, more: tuple[int, ...] = ()) -> None:
    command = keep_command("infra.keep.examination", *words)
    subprocess.run(command, cwd="/", env=keep_environment(), stdin=stdin, stdout=stdout, pass_fds=more, check=True)
