"""Which changes in the agent's clones count as an effect."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cell.runner.file_effects import MOST_CHANGED, FileEffects
from infra.cell.runner.watched_directories import WatchedDirectories
from tests.cell.loop.replies import bash, calls
from tests.cell.runner.cell import Cell, limits
from tests.cell.runner.test_run import work

CLONE = "main/minifram"


@pytest.fixture
def bot(tmp_path: Path) -> Path:
    """A clone with a commit, of a while ago."""
    clone = tmp_path / CLONE
    clone.mkdir(parents=True)
    script = (
        "git init -q -b main . && mkdir -p src logs && echo a > src/a && git add -A && "
        "git -c user.name=a -c user.email=a@b commit -qm one"
    )
    subprocess.run(["bash", "-c", script], cwd=clone, check=True)
    time.sleep(0.05)  # beyond the clock's slack
    return tmp_path


def effect_of(bot: Path, *commands: str) -> list[bool]:
    """Of each command, as a step."""
    effects = FileEffects(str(bot))
    found = []
    for command in commands:
        effects.mark()
        subprocess.run(["bash", "-c", command], cwd=bot / CLONE, check=True, capture_output=True)
        found.append(effects.changed())
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("before", [(), ("true",)])
@pytest.mark.parametrize(
    "command",
    [
        "echo b > src/b",
        "echo b > src/a",
        "rm src/a",
        "mkdir src/empty",
        "chmod 755 src/a",
        "ln -s a src/link",
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two",
        "git tag one",
        "git checkout -q -b other",
        f"mkdir src/many; cd src/many; touch $(seq {MOST_CHANGED + 1})",
    ],
)
def test_files_and_commits_are_effects(bot: Path, command: str, before: tuple[str, ...]) -> None:
    """Of whatever kind; in the first step, which looks at all files, and in later ones, which the kernel tells of."""
    assert effect_of(bot, *before, command)[-1]


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "cat src/a",
        "git status",
        "echo x > logs/x",
        "mkdir -p __pycache__ && echo x > __pycache__/x.pyc && rm -r __pycache__",
        "git update-ref refs/remotes/origin/main HEAD",
        "echo x > ../../.runner.json",
    ],
)
def test_looking_logs_and_caches_are_none(bot: Path, command: str) -> None:
    """Nor what the runner writes itself."""
    assert effect_of(bot, command, command, command)[1:] == [False, False]


def test_the_same_again_is_none(bot: Path) -> None:
    """A file that is written as it was."""
    assert effect_of(bot, "echo b > src/b", "echo b > src/b", "echo c > src/b") == [True, False, True]


def test_what_is_made_later_is_watched_too(bot: Path) -> None:
    """A directory that is new or has moved, and a clone beside."""
    steps = [
        "true",
        "mkdir -p new/deep && echo a > new/deep/a",
        "echo b > new/deep/a",
        "mv new old",
        "echo c > old/deep/a",
    ]
    steps += [
        "git clone -q . ../other",
        "echo d > ../other/src/a",
        "echo d > ../other/src/a",
        "git -C ../other tag two",
    ]
    assert effect_of(bot, *steps) == [False, True, True, True, True, True, True, False, True]


def test_events_that_the_kernel_dropped_cost_no_effect(bot: Path) -> None:
    """More than its queue holds: all files are looked at again, and what follows is seen as before."""
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        most = int(file.read())
    flood = (
        f'python3 -c \'import os\nfor n in range({most}): os.chmod("src/a", 0o600 + n % 2 * 0o44); os.utime("src")\''
    )
    assert effect_of(bot, "true", flood + "; mkdir src/new", "echo a > src/new/a", "true") == [False, True, True, False]


def test_a_link_where_a_directory_was_is_not_followed(bot: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It may lead to the root of all files; what changes behind it is no effect."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "sub").mkdir()
    steps = ["mkdir src/gone", f"rmdir src/gone && ln -s {elsewhere} src/gone", f"echo a > {elsewhere}/sub/a"]
    assert effect_of(bot, "true", *steps) == [False, True, True, False]


def test_a_home_behind_a_link_is_watched(bot: Path) -> None:
    """What lies in it itself, too."""
    (bot / "home").symlink_to(CLONE)
    effects = FileEffects(str(bot / "home"))
    assert not effects.changed()
    (bot / CLONE / "new").touch()
    assert effects.changed()


class CountedLooks(FileEffects):
    """It knows how often it has gone through directories."""

    looks = 0

    def _below(self, *given: Any) -> Iterator[tuple[str, os.stat_result, bool]]:
        self.looks += 1
        return super()._below(*given)


def test_a_directory_that_was_made_again_and_again_is_gone_through_once(bot: Path) -> None:
    """Else a large one, made a thousand times, holds the runner for minutes."""
    effects = CountedLooks(str(bot))
    assert (effects.changed(), effects.looks) == (False, 1)
    for _ in range(20):
        (bot / "again").mkdir()
        (bot / "again").rmdir()
    (bot / "again").mkdir()
    assert (effects.changed(), effects.looks) == (True, 2)


def test_changes_without_an_end_are_not_read_for_ever(tmp_path: Path) -> None:
    """A service may make them as fast as they are read."""
    watched = WatchedDirectories()
    watched.add(str(tmp_path))
    for name in range(10):
        (tmp_path / str(name)).touch()
    assert watched.changes(most=9) is None
    assert watched.changes() == []
    watched.close()


@pytest.mark.heavy
def test_a_run_without_effects_ends(cell: Cell) -> None:
    """Twelve different commands; with a file in between it goes on."""
    cell.tell("do it")
    turns = [calls(bash(f"true {nth}", id=str(nth))) for nth in range(20)]
    outcome, _ = work(cell, *turns)
    assert (outcome.reason.value, outcome.steps) == ("no_op_loop", 9)
    assert "stopped (no_op_loop): do it" in cell.reports()[-1]
    assert "8 steps in a row changed no file" in cell.reports()[-1]
    turns[8] = calls(bash("echo more >> src/notes.md", id="8"))
    assert work(cell, *turns, limits=limits(run_steps=14))[0].reason.value == "max_steps"
