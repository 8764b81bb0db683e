"""What main may move to: with a verdict of the keep's, or without one where nothing of the agent changes."""

from __future__ import annotations

import os

import pytest

from infra.keep.door_server import Refusal
from infra.keep.git_door.examine import examine
from infra.keep.git_door.rollback import roll_back
from infra.keep.repository.bare_tip import KNOWN_GOOD
from infra.keep.verdicts import trees
from infra.keep.verdicts.refs import MOST_WAITING, REQUESTS, ask, keep, requests
from infra.keep.verdicts.trees import key_of
from infra.keep.verdicts.verdict import Verdict
from infra.shared.repository.git import Git
from infra.shared.requests import Examination, Examine
from tests.keep.git_door.world import World


def body(world: World) -> Git:
    """Main with the parts of an agent, and the agent's clone at it."""
    test = {"tests/cell/test_a.py": "def test_a():\n    pass\n"}
    world.pm.commit({"infra/a.py": "a = 1\n", "SYSTEM.md": "You.\n"} | test, to="main")
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
    """Whatever a version is made of (each path: examination/test_trials) is refused with words on what to do; what
    nothing of the agent reads lands."""
    body(world)
    for tip in world.agent.commits({path: "x = 1\n"} for path in ("infra/new.py", "tests/cell/test_a.py")):
        world.judges({f"{tip}:refs/heads/main": "the keep has not examined this version"})
    free = ("src/b.py", "tests/test_b.py", "tests/mine/conftest.py", "notes.md")
    work = world.agent.commit(dict.fromkeys(free, "b = 1\n"), to="main")
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
    world.agent.commit({"src/b.py": "b = 1\n"}, to="main")
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
    world.pm.commit({"infra/a.py": "a = 3\n", "tests/test_b.py": "def test_b():\n    pass\n"}, to="main")
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
    for branch in branches[:-2]:
        examine(door, Examine(branch, commit))
    for branch in branches[-2:]:
        with pytest.raises(Refusal):
            examine(door, Examine(branch, commit))
    assert requests(git)[0] == ("z", commit)
    assert len(requests(git)) == MOST_WAITING
    assert examine(door, Examine("a0", commit)) == Examination("waiting")


# A rollback that the agent asks for goes to a good version, or to what was examined, and nowhere else.


def pushed(world: World, branch: str, text: str, path: str = "infra/a.py") -> str:
    world.pm.commit({path: text}, to=f"+HEAD:refs/heads/{branch}")
    return world.pm.head


@pytest.mark.attack("S49")
def test_what_nobody_examined_is_nothing_to_return_to(world: World) -> None:
    """It would be a way onto main past the git door; with a verdict it is none, unless that needs the PM's word."""
    git, first, other = Git(world.places.remote), pushed(world, "main", "one"), pushed(world, "other", "two")
    for _ in range(2):
        with pytest.raises(PermissionError, match=r"'infra/a\.py'; it is no good version, and .* no verdict"):
            roll_back(world.places, other, "merge", "1")
        verdict(git, other, word=("a test is gone",))
    verdict(git, other)
    assert world.main == first
    assert roll_back(world.places, other, "merge", "2") == world.main


def test_a_good_version_may_lead_again(world: World) -> None:
    """Whatever the commit that has it: reports and the agent's own projects are no part of a version."""
    good = pushed(world, "main", "one")
    same = pushed(world, "main", "x", "src/x.py")
    pushed(world, "main", "two")
    with pytest.raises(PermissionError):
        roll_back(world.places, same, "merge", "1")
    world.bare("update-ref", f"{KNOWN_GOOD}/0123", good)
    roll_back(world.places, same, "merge", "2")
    assert world.shown("infra/a.py") == "one"


def test_main_as_it_was_may_be_gone(world: World) -> None:
    """The PM can rewrite main; then a verdict from before says nothing of it."""
    first, second = pushed(world, "main", "one"), pushed(world, "main", "x", "src/x.py")
    git = Git(world.places.remote)
    assert trees.are_alike(git, first, second)
    assert not trees.are_alike(git, first, pushed(world, "main", "two"))
    assert not trees.are_alike(git, "0" * 39 + "1", second)


def test_what_changes_nothing_of_the_agent_needs_no_verdict(world: World) -> None:
    """src/ is free, as in a push."""
    pushed(world, "main", "one")
    assert roll_back(world.places, pushed(world, "other", "x", "src/x.py"), "merge", "1")


def test_a_rollback_is_made_once_for_one_signal(world: World) -> None:
    """`main~1` names another commit afterwards, so a repetition after a crash must not go back again."""
    pushed(world, "main", "good", "src/x.py")
    pushed(world, "main", "bad", "src/x.py")
    first = roll_back(world.places, "main~1", "merge", "1:2:3")
    assert world.shown("src/x.py") == "good"
    assert roll_back(world.places, "main~1", "merge", "1:2:3") == first
    assert world.shown("src/x.py") == "good"
    assert roll_back(world.places, "main~1", "merge", "1:2:33") != first
    assert world.shown("src/x.py") == "bad", "the control: another signal is another rollback"
