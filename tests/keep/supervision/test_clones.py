"""The clone that main works in: its own as long as only main led, otherwise a new one, with nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.supervision.clones import ASIDES_KEPT, Cell, CloneError, problem_with_clone, ready_main
from tests.keep.supervision.agents import Agent, within

MakeAgent = Callable[..., Agent]
WALL = 1_700_000_000.0


class Main:
    """Main's clone of an agent that has no watcher."""

    def __init__(self, agent: Agent) -> None:
        self.cell = Cell(agent.places, agent.places.remote)
        self.path = Path(agent.places.main_checkout)
        os.makedirs(agent.places.bot)
        assert ready_main(self.cell, False, WALL) == ""
        (self.path / "logs").mkdir()
        (self.path / "logs/bootstrap.log").write_text("once\n")
        (self.path / "work").write_text("half a thought")

    def ready(self, fresh: bool = False, later: int = 0) -> str:
        return ready_main(self.cell, fresh, WALL + later)

    def asides(self) -> list[str]:
        return sorted(name for name in os.listdir(self.path.parent) if name != self.path.name)


@pytest.fixture
def main(make_agent: MakeAgent) -> Main:
    return Main(make_agent())


@pytest.mark.fault("F33")
def test_a_clone_that_git_can_read_stays(main: Main) -> None:
    """With what is not committed, on whatever branch; only the locks of dead git processes go."""
    main.cell.git(str(main.path))("checkout", "-q", "-b", "elsewhere")
    locks = [main.path / ".git/index.lock", main.path / ".git/refs/remotes/origin/main.lock"]
    for lock in locks:
        lock.touch()
    assert main.ready() == ""
    assert (main.path / "work").read_text() == "half a thought"
    assert [lock for lock in locks if lock.exists()] == []


def test_a_new_one_takes_its_place_with_the_logs(main: Main) -> None:
    """The old one lies beside it under its time, and the newest three stay; halves are never used, and go."""
    (main.path.parent / "minifram.half-1").mkdir()
    aside = main.ready(fresh=True)
    assert aside == f"{main.path.parent}/minifram.aside-20231114T221320000Z"
    assert Path(aside, "work").read_text() == "half a thought"
    assert (main.path / "logs/bootstrap.log").read_text() == "once\n"
    assert not (main.path / "work").exists()
    for later in range(1, 5):
        main.ready(fresh=True, later=later)
    newest = [f"minifram.aside-20231114T22132{number}000Z" for number in (2, 3, 4)]
    within(30.0, lambda: main.asides() == newest, "the older ones gone")
    assert len(newest) == ASIDES_KEPT


def test_logs_that_are_a_link_are_left_behind(main: Main) -> None:
    shutil.rmtree(main.path / "logs")
    (main.path / "logs").symlink_to("/etc")
    main.ready(fresh=True)
    assert not os.path.lexists(main.path / "logs")


def test_what_a_killed_watcher_left_in_between_is_put_right(main: Main) -> None:
    """Between the two renames there is no clone."""
    os.rename(main.path, f"{main.path}.aside-20231114T000000000Z")
    assert main.ready() == ""
    assert (main.path / "logs/bootstrap.log").read_text() == "once\n"


@pytest.mark.fault("F48")
@pytest.mark.parametrize(
    "damage",
    [
        "rm -r .git",
        ": >.git/HEAD",
        "ln -sf /nonexistent .git/HEAD",
        'here=$PWD; cd ..; rm -r "$here"; printf "half a thought" >"$here"',
    ],
)
def test_what_git_cannot_read_is_set_aside(main: Main, damage: str) -> None:
    subprocess.run(["sh", "-c", damage], cwd=main.path, check=True)
    aside = main.ready()
    assert main.asides() == [os.path.basename(aside)]
    assert (Path(aside) if os.path.isfile(aside) else Path(aside, "work")).read_text() == "half a thought"
    assert problem_with_clone(main.cell, "main") == ""


def test_an_agent_that_has_closed_its_own_directories_is_let_in(main: Main) -> None:
    for closed in (main.path / ".git", main.path.parent, main.path.parent.parent):
        closed.chmod(0)
    main.ready()
    assert problem_with_clone(main.cell, "main") == ""


@pytest.mark.fault("F37")
def test_without_a_repository_to_clone_it_works_in_what_it_has(main: Main) -> None:
    """A damaged repository must not keep safe mode from coming up."""
    os.rename(main.cell.remote_url, f"{main.cell.remote_url}-away")
    assert main.ready(fresh=True) == ""
    assert (main.path / "work").exists()
    shutil.rmtree(main.path / ".git")
    with pytest.raises(CloneError, match="a new one cannot be made"):
        main.ready()
    assert (main.path / "work").exists()
