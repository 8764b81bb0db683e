"""A rollback that the agent asks for goes to a good version, or to what was examined, and nowhere else."""

from __future__ import annotations

import pytest

from infra.keep.git_door.rollback import roll_back
from infra.keep.repository.bare_tip import KNOWN_GOOD
from infra.keep.verdicts import refs, trees
from infra.keep.verdicts.verdict import Verdict
from infra.shared.people import Person
from infra.shared.repository.git import Git
from tests.keep.git_door.world import World

PM = Person("PM", "pm@example.invalid")


def pushed(world: World, branch: str, text: str, path: str = "infra/a.py") -> str:
    world.pm.commit({path: text})
    world.pm.push(f"+HEAD:refs/heads/{branch}")
    return world.pm.git("rev-parse", "HEAD")


@pytest.mark.attack("S49")
def test_what_nobody_examined_is_nothing_to_return_to(world: World) -> None:
    """It would be a way onto main past the git door; with a verdict it is none, unless that needs the PM's word."""
    git = Git(world.places.remote, PM)
    first = pushed(world, "main", "one")
    other = pushed(world, "other", "two")
    key = trees.key_of(git, other)
    for number, verdict in enumerate((None, Verdict(key, "other", other, first, True, needs_word=("a test is gone",)))):
        if verdict:
            refs.keep(git, verdict)
        with pytest.raises(PermissionError, match=r"'infra/a\.py'; it is no good version, and .* no verdict"):
            roll_back(world.places, other, "merge", f"1:{number}")
    refs.keep(git, Verdict(key, "other", other, first, passed=True))

    assert git("rev-parse", "main") == first
    assert roll_back(world.places, other, "merge", "2") == git("rev-parse", "main")


def test_a_good_version_may_lead_again(world: World) -> None:
    """Whatever the commit that has it: reports and the agent's own projects are no part of a version."""
    good = pushed(world, "main", "one")
    same = pushed(world, "main", "x", "src/x.py")
    pushed(world, "main", "two")
    with pytest.raises(PermissionError):
        roll_back(world.places, same, "merge", "1")
    git = Git(world.places.remote)
    git("update-ref", f"{KNOWN_GOOD}/0123", good)

    roll_back(world.places, same, "merge", "2")

    assert git("show", "main:infra/a.py") == "one"


def test_main_as_it_was_may_be_gone(world: World) -> None:
    """The PM can rewrite main; then a verdict from before says nothing of it."""
    first, second = pushed(world, "main", "one"), pushed(world, "main", "x", "src/x.py")
    git = Git(world.places.remote, PM)
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
    bare = Git(world.places.remote)
    first = roll_back(world.places, "main~1", "merge", "1:2:3")
    assert bare("show", "main:src/x.py") == "good"
    assert roll_back(world.places, "main~1", "merge", "1:2:3") == first
    assert bare("show", "main:src/x.py") == "good"
    assert roll_back(world.places, "main~1", "merge", "1:2:33") != first
    assert bare("show", "main:src/x.py") == "bad", "the control: another signal is another rollback"
