"""What main may move to: with a verdict of the keep's, or without one where nothing of the agent changes."""

from __future__ import annotations

import contextlib
import os

import pytest

from infra.keep.door_server import Refusal
from infra.keep.git_door.examine import examine
from infra.keep.verdicts.refs import MOST_WAITING, REQUESTS, ask, keep, requests
from infra.keep.verdicts.trees import key_of
from infra.keep.verdicts.verdict import Verdict
from infra.shared.repository.git import Git
from infra.shared.requests import Examination, Examine
from tests.keep.git_door.world import World


def body(world: World) -> Git:
    """Main with the parts of an agent, and the agent's clone at it."""
    world.pm.commit(
        {"infra/a.py": "a = 1\n", "tests/cell/test_a.py": "def test_a():\n    pass\n", "SYSTEM.md": "You.\n"}
    )
    world.pm.push("main")
    world.agent.git("pull", "--quiet")
    return Git(world.places.remote)


def proposed(world: World) -> tuple[Git, str]:
    """A change of the agent that is on main of its clone, and on a branch of the repository."""
    git, work = body(world), world.agent.commit({"infra/a.py": "a = 2\n"})
    world.agent.push("main:refs/heads/better")
    return git, work


def verdict(git: Git, commit: str, passed: bool = True, why: str = "", word: tuple[str, ...] = ()) -> None:
    """What the keep would write down for this commit's tree."""
    main = git("rev-parse", "refs/heads/main")
    keep(git, Verdict(key_of(git, commit), "better", commit, main, passed, why, needs_word=word))


@pytest.mark.attack("S49")
def test_the_agent_itself_changes_only_after_an_examination(world: World) -> None:
    """Whatever a version is made of (each path: examination/test_selection) is refused with words on what to do; what
    nothing of the agent reads lands."""
    body(world)
    for tip in world.agent.commits({path: "x = 1\n"} for path in ("infra/new.py", "tests/cell/test_a.py")):
        world.judges({f"{tip}:refs/heads/main": "the keep has not examined this version"})
    free = ("src/b.py", "tests/test_b.py", "tests/mine/conftest.py", "notes.md")
    work = world.agent.commit(dict.fromkeys(free, "b = 1\n"))
    world.agent.push("main")
    assert world.main == work


def test_a_verdict_opens_main_for_what_was_examined(world: World) -> None:
    """Not for anything else that the agent is made of; where its own projects have moved meanwhile does not matter."""
    git, work = proposed(world)
    verdict(git, work)
    world.agent.commit({"infra/b.py": "b = 1\n"})
    world.agent.git("reset", "--quiet", "--soft", "HEAD~2")
    world.agent.git("commit", "--quiet", "-m", "more")
    assert "has not examined" in world.agent.refused("main")
    world.agent.git("reset", "--quiet", "--hard", "origin/main")
    world.agent.commit({"src/b.py": "b = 1\n"})
    world.agent.push("main")
    door = world.context()
    assert examine(door, Examine("better", work)).passed, "main has moved, and what was examined is the same"
    world.agent.git("merge", "--quiet", "--no-ff", work)
    world.agent.push("main")
    assert world.main == world.agent.head


def test_a_verdict_that_does_not_open_main(world: World) -> None:
    """The refusal says what the verdict says."""
    git, work = proposed(world)
    verdict(git, work, passed=False, why="tests/cell/test_a.py::test_a failed")
    world.judges({"main:refs/heads/main": "did not pass: tests/cell/test_a.py::test_a failed"})
    verdict(git, work, word=("tests/cell/test_a.py is removed",))
    world.judges({"main:refs/heads/main": "needs the PM's word: tests/cell/test_a.py is removed"})


def test_a_verdict_says_nothing_of_what_main_has_got_since(world: World) -> None:
    """An examined tree pushed again takes away what the PM added after it, a test perhaps: that is examined anew."""
    git, work = proposed(world)
    verdict(git, work)
    world.agent.push("main")
    world.pm.git("pull", "--quiet", "origin", "main")
    world.pm.commit({"infra/a.py": "a = 3\n", "tests/test_b.py": "def test_b():\n    pass\n"})
    world.pm.push("main")
    world.agent.git("fetch", "--quiet")
    made = world.agent.git("commit-tree", f"{work}^{{tree}}", "-p", "origin/main", "-m", "x")
    assert "has not examined" in world.agent.refused(f"{made}:refs/heads/main")
    world.agent.push(f"{made}:refs/heads/back")
    door = world.context()
    assert examine(door, Examine("back", made)) == Examination("waiting")
    verdict(git, made)
    world.agent.push(f"{made}:refs/heads/main")


def test_the_agents_requests_keep_nobody_elses_waiting(world: World) -> None:
    """What was asked for first comes first, whatever its name, and the agent has few of them waiting."""
    git = body(world)
    commit = world.agent.commit({"infra/a.py": "a = 2\n"})
    branches = [f"a{number}" for number in range(MOST_WAITING + 1)]
    world.agent.push(*(f"main:refs/heads/{branch}" for branch in ["z", *branches]))
    door = world.context()
    ask(git, "z", commit)
    os.utime(f"{world.places.remote}/{REQUESTS}z", (1, 1))
    for number, branch in enumerate(branches, 1):
        with contextlib.nullcontext() if number < MOST_WAITING else pytest.raises(Refusal):
            examine(door, Examine(branch, commit))
    assert requests(git)[0] == ("z", commit)
    assert len(requests(git)) == MOST_WAITING
    assert examine(door, Examine("a0", commit)) == Examination("waiting")
