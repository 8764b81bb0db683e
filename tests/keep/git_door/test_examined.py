"""What main may move to: with a verdict of the keep's, or without one where nothing of the agent changes."""

from __future__ import annotations

import json
import os

import pytest
from structlog import get_logger

from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.examine import examine
from infra.keep.settings import Settings
from infra.keep.verdicts.refs import MOST_WAITING, REQUESTS, VERDICTS, ask, is_asked, requests
from infra.keep.verdicts.trees import key_of
from infra.shared.door import Failure
from infra.shared.repository.git import Git
from infra.shared.requests import Examination, Examine
from tests.keep.git_door.world import World


def body(world: World) -> Git:
    """Main with the parts of an agent, and the agent's clone at it."""
    world.pm.commit({"infra/a.py": "a = 1\n", "tests/test_a.py": "def test_a():\n    pass\n", "SYSTEM.md": "You.\n"})
    world.pm.push("main")
    world.agent.git("pull", "--quiet")
    return Git(world.places.remote)


def verdict(git: Git, commit: str, passed: bool = True, why: str = "", word: tuple[str, ...] = ()) -> None:
    """What the keep would write down for this commit's tree."""
    key = key_of(git, commit)
    main = git("rev-parse", "refs/heads/main")
    text = json.dumps({"key": key, "passed": passed, "why": why, "needs_word": word, "main": main})
    blob = git("hash-object", "-w", "--stdin", stdin=text.encode())
    git("update-ref", f"{VERDICTS}{key}", blob)


def test_the_agent_itself_changes_only_after_an_examination(world: World) -> None:
    """Whatever of a version the runner or its tests are made of: refused with words on what to do. Removing is a change
    as well; what nothing of the agent reads lands."""
    body(world)
    for path, text in (
        ("infra/a.py", "a = 2\n"),
        ("infra/new.py", "b = 1\n"),
        ("spec/SPEC_X.md", "x\n"),
        ("SYSTEM.md", "You are free.\n"),
        ("requirements.txt", "x\n"),
        ("tests/test_a.py", "def test_a():\n    assert True\n"),
        ("tests/conftest.py", "\n"),
        ("tests/helper.py", "\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\n"),
        ("tests/pytest.ini", "[pytest]\n"),
        ("structlog.py", "takes_the_place_of = 'a library'\n"),
    ):
        world.agent.commit({path: text})
        assert "the keep has not examined this version" in world.agent.refused("main"), path
        world.agent.git("reset", "--quiet", "--hard", "origin/main")
    world.agent.remove("tests/test_a.py")
    assert "the keep has not examined this version" in world.agent.refused("main")
    world.agent.git("reset", "--quiet", "--hard", "origin/main")
    for path in ("src/b.py", "tests/test_b.py", "tests/mine/helper.py", "notes.md"):
        work = world.agent.commit({path: "b = 1\n"})
        world.agent.push("main")
        assert world.main == work, path


def test_a_verdict_opens_main_for_exactly_its_tree(world: World) -> None:
    """The page does not count; anything else beside it does."""
    git = body(world)
    work = world.agent.commit({"infra/a.py": "a = 2\n"})
    world.agent.push("main:refs/heads/better")
    verdict(git, work)
    world.agent.write({"src/b.py": "b = 1\n"})
    world.agent.git("add", "--all")
    world.agent.git("commit", "--quiet", "--amend", "-m", "more")
    assert "has not examined" in world.agent.refused("main")
    world.agent.git("reset", "--quiet", "--hard", work)
    world.agent.push("main")
    assert world.main == work


@pytest.mark.parametrize(
    ("passed", "why", "word", "said"),
    [
        (False, "tests/test_a.py::test_a failed", (), "did not pass: tests/test_a.py::test_a failed"),
        (True, "", ("tests/test_a.py is removed",), "needs the PM's word: tests/test_a.py is removed"),
    ],
)
def test_a_verdict_that_does_not_open_main(
    world: World, passed: bool, why: str, word: tuple[str, ...], said: str
) -> None:
    """The refusal says what the verdict says."""
    git = body(world)
    work = world.agent.commit({"infra/a.py": "a = 2\n"})
    world.agent.push("main:refs/heads/better")
    verdict(git, work, passed, why, word)
    assert said in world.agent.refused("main")


def test_a_verdict_says_nothing_of_what_main_has_got_since(world: World) -> None:
    """An examined tree pushed again takes away what the PM added after it, a test perhaps: that is examined anew."""
    git = body(world)
    work = world.agent.commit({"infra/a.py": "a = 2\n"})
    world.agent.push("main:refs/heads/better")
    verdict(git, work)
    world.agent.push("main")
    world.pm.git("pull", "--quiet", "origin", "main")
    world.pm.commit({"infra/a.py": "a = 3\n", "tests/test_b.py": "def test_b():\n    pass\n"})
    world.pm.push("main")
    world.agent.git("fetch", "--quiet")
    made = world.agent.git("commit-tree", f"{work}^{{tree}}", "-p", "origin/main", "-m", "x")
    assert "has not examined" in world.agent.refused(f"{made}:refs/heads/main")
    world.agent.push(f"{made}:refs/heads/back")
    door = DoorContext(world.places, Settings(), get_logger())
    assert examine(door, Examine("back", made)) == Examination("waiting")
    verdict(git, made)
    world.agent.push(f"{made}:refs/heads/main")


def test_main_goes_through_nothing_that_was_not_examined(world: World) -> None:
    """A commit in between would be one that a rollback could name, so its end's verdict does not cover it."""
    git = body(world)
    world.agent.commit({"infra/a.py": "a = 'evil'\n"})
    work = world.agent.commit({"infra/a.py": "a = 2\n"})
    world.agent.push("main:refs/heads/better")
    verdict(git, work)
    assert "before the last commit of this push" in world.agent.refused("main")


def test_what_main_only_merged_in_is_no_first_parent_of_it(world: World) -> None:
    """A push whose first parent lies there would put a commit that was taken back again onto main's own line."""
    body(world)
    before = world.agent.head
    evil = world.agent.commit({"infra/a.py": "a = 'evil'\n"})
    good = world.agent.commit({"infra/a.py": "a = 1\n", "src/b.py": "b = 1\n"})
    world.agent.git("checkout", "--quiet", "-B", "main", before)
    world.agent.git("merge", "--quiet", "--no-ff", good)
    world.agent.push("main")
    tree = world.agent.git("rev-parse", "HEAD^{tree}")
    made = world.agent.git("commit-tree", tree, "-p", evil, "-p", "HEAD", "-m", "x")
    said = world.agent.refused(f"{made}:refs/heads/main")
    assert f"{evil[:12]} changes 'infra/a.py' before the last commit of this push" in said


def test_a_merge_that_nobody_examined_is_asked_for(world: World) -> None:
    """An agent of an earlier version pushes its own merge: it reads why not, and the PM finds a verdict."""
    git = body(world)
    world.agent.git("checkout", "--quiet", "-b", "better")
    work = world.agent.commit({"infra/a.py": "a = 2\n"})
    world.agent.push("better")
    world.agent.git("checkout", "--quiet", "main")
    world.agent.git("merge", "--quiet", "--no-ff", "better")
    assert not is_asked(world.places.remote)
    assert "an examination is asked for" in world.agent.refused("main")
    assert is_asked(world.places.remote)
    assert requests(git) == [("better", work)]
    assert world.ref(f"{REQUESTS}better") == work


def test_the_agents_requests_keep_nobody_elses_waiting(world: World) -> None:
    """What was asked for first comes first, whatever its name, and the agent has few of them waiting."""
    git = body(world)
    commit = world.agent.commit({"infra/a.py": "a = 2\n"})
    branches = [f"a{number}" for number in range(MOST_WAITING + 1)]
    world.agent.push(*(f"main:refs/heads/{branch}" for branch in ["z", *branches]))
    door = DoorContext(world.places, Settings(), get_logger())
    ask(git, "z", commit)
    os.utime(f"{world.places.remote}/{REQUESTS}z", (1, 1))
    said = [examine(door, Examine(branch, commit)) for branch in branches]
    assert [type(each) for each in said] == [Examination] * (MOST_WAITING - 1) + [Failure] * 2
    assert requests(git)[0] == ("z", commit)
    assert len(requests(git)) == MOST_WAITING
    assert examine(door, Examine("a0", commit)) == Examination("waiting")


def test_a_verdict_of_the_agents_own_lands_nowhere(world: World) -> None:
    """These refs are the keep's."""
    body(world)
    work = world.agent.commit({"infra/a.py": "a = 2\n"})
    key = key_of(Git(str(world.agent.path)), work)
    assert "the keep's own records" in world.agent.refused(f"main:{VERDICTS}{key}")
