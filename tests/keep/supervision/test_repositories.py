"""The shared repository in the watcher's hands, and what the PM is told there: in order, together, once, never without
end; and main's clone, its own as long as only main led, otherwise a new one, with nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from infra.keep.repository.bare_tip import KNOWN_GOOD, RETRY_REF
from infra.keep.supervision.clones import ASIDES_KEPT, Cell, CloneError, problem_with_clone, ready_main
from infra.keep.supervision.decide.events import MainSeen, RetryAsked, Tell
from infra.keep.supervision.main import LOCK_SECONDS, SharedMain
from infra.keep.supervision.reports import AGAIN_SECONDS, TOGETHER, Reports
from infra.keep.watcher_file import Instant, Version
from infra.shared.paths import ARCHIVE
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from tests.keep.supervision.agents import Agent, within

LOCKS = ("refs/heads/main.lock", "refs/heads/a/b.lock", "refs/minifram/good/1.lock", "packed-refs.lock", "HEAD.lock")


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def test_refs_are_the_list_of_good_versions(agent: Agent) -> None:
    """The watcher adds; what the PM takes away meanwhile stays away; main's tip is seen once."""
    git, main = Git(agent.places.remote), SharedMain(agent.places.remote, structlog.get_logger())
    main.settle((Version("0" * 40, "0" * 16),))
    assert git("for-each-ref", KNOWN_GOOD) == "", "nobody has looked yet"
    (seen,) = main.look()
    assert isinstance(seen, MainSeen)
    assert (seen.main.commit, seen.goods, main.look()) == (agent.git("rev-parse", "main"), (), [])
    one, two = (Version(seen.main.commit, name) for name in ("1" * 16, "2" * 16))
    main.settle((two, one), retried=False)
    assert main.look() == [MainSeen(seen.main, (one, two))]
    git("update-ref", "-d", f"{KNOWN_GOOD}/{two.id}")
    main.settle((two, one), retried=False)
    assert main.look() == [MainSeen(seen.main, (one,))]
    main.settle((), retried=False)
    assert git("for-each-ref", KNOWN_GOOD) == ""


def test_retry_is_asked_until_it_was_remembered(agent: Agent) -> None:
    main = SharedMain(agent.places.remote, structlog.get_logger())
    main.look()
    Git(agent.places.remote)("update-ref", RETRY_REF, "refs/heads/main")
    assert (main.look(), main.look()) == ([RetryAsked()], [RetryAsked()])
    main.settle((), retried=True)
    assert main.look() == []


def test_a_disk_that_does_not_take_it_ends_no_watcher(agent: Agent) -> None:
    """What cannot be put onto the disk is logged: an agent without its watcher is worse."""
    main = SharedMain(agent.places.remote, structlog.get_logger())
    main.look()
    shutil.rmtree(agent.places.remote)
    with structlog.testing.capture_logs() as logged:
        main.settle((Version("0" * 40, "0123456789abcdef"),), retried=False)
    assert [entry["event"] for entry in logged] == ["repository.not_settled"]


@pytest.mark.fault("F33")
def test_an_old_lock_of_a_ref_goes(tmp_path: Path) -> None:
    """One of a git that was killed, or of a time to come; a fresh one, and what is no ref's lock, stay."""
    for each in (*LOCKS, "refs/heads/main", "objects/1.lock"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
        os.utime(tmp_path / each, (1000.0, 1000.0))
    (tmp_path / "refs/heads/directory.lock").mkdir()
    main = SharedMain(str(tmp_path), structlog.get_logger())
    main.remove_stale_locks(1000.0 + LOCK_SECONDS)
    assert all((tmp_path / each).exists() for each in LOCKS)
    main.remove_stale_locks(1000.1 + LOCK_SECONDS)
    assert not any((tmp_path / each).exists() for each in LOCKS)
    assert (tmp_path / "refs/heads/main").exists()
    assert (tmp_path / "objects/1.lock").exists()


def reports(agent: Agent) -> Reports:
    return Reports(agent.places, structlog.stdlib.get_logger())


def at(seconds: float) -> Instant:
    return Instant(seconds, 1_700_000_000.0 + seconds)


def commits(agent: Agent) -> int:
    return int(Git(agent.places.remote)("rev-list", "--count", "main"))


def told(agent: Agent) -> list[str]:
    git = Git(agent.places.remote)
    archive = read_file(git, "refs/heads/main", ARCHIVE) or ""
    return re.findall(r"-number-(\d+)-", archive + agent.comms())


def test_what_waits_is_told_in_one_commit_and_in_order(agent: Agent) -> None:
    """A push each would take too long where many wait."""
    mine, before = reports(agent), commits(agent)
    for number in range(TOGETHER + 2):
        mine.add(Tell(f"x {number}", f"-number-{number}-"), at(0))
    mine.send(at(0))
    assert told(agent) == [str(number) for number in range(TOGETHER + 2)]
    assert (commits(agent), mine.untold) == (before + 2, ())


def test_after_a_death_only_what_was_not_told_is(agent: Agent) -> None:
    """The first watcher told some and did not live to note it; the second goes on with all that it had noted."""
    first = reports(agent)
    for number in range(3):
        first.add(Tell(f"x {number}", f"-number-{number}-"), at(0))
    noted = first.untold
    first.send(at(0))
    second = reports(agent)
    second.take_up(noted)
    second.add(Tell("x 3", "-number-3-"), at(1))
    second.send(at(1))
    assert told(agent) == ["0", "1", "2", "3"]
    before = commits(agent)
    third = reports(agent)
    third.take_up(noted)
    third.send(at(2))
    assert (commits(agent), third.untold) == (before, ())


def test_a_repository_that_is_away_is_asked_again_after_a_while(agent: Agent) -> None:
    """Nothing is lost, and no second is spent on an attempt that was made a moment ago."""
    mine = reports(agent)
    mine.add(Tell("x", "-number-0-"), at(0))
    os.rename(agent.places.remote, f"{agent.places.remote}.away")
    mine.send(at(0))
    os.rename(f"{agent.places.remote}.away", agent.places.remote)
    mine.send(at(0.5))
    assert (told(agent), len(mine.untold)) == ([], 1)
    mine.send(at(AGAIN_SECONDS))
    assert (told(agent), mine.untold) == (["0"], ())


@pytest.mark.fault("F85")
def test_the_same_trouble_is_counted(agent: Agent) -> None:
    """It is told the 1st, 2nd, 4th, 8th … time: a flood of bad signals costs a few commits and a few lines."""
    mine, before = reports(agent), commits(agent)
    size = len(agent.comms())
    for number in range(500):
        mine.add(Tell("a signal was refused", "its text is not a branch"), at(number / 20))
        mine.send(at(number / 20))
    assert commits(agent) - before == 9
    assert len(agent.comms()) - size < 2000
    assert "for the 256th time since 2023-11-14T22:13:20.000Z" in agent.comms()
    mine.add(Tell("a signal was refused", "once more"), at(100_000))
    mine.send(at(100_000))
    assert agent.comms().count("once more") == 1, "after a quiet time it is news"


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
