"""What the agent's pushes to the mind take out is counted over a day: real pushes, real snapshots of the keep."""

from __future__ import annotations

import time

import pytest

from infra.keep.mind.snapshot_tags import SnapshotKind, snapshot_of
from infra.keep.mind.snapshots import make
from infra.shared.clock import timestamp
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git
from tests.keep.git_door.test_mind import MindWorld
from tests.keep.git_door.world import World

HOUR = 3600.0


def beliefs(*numbers: int) -> dict[str, str]:
    return {"memory/beliefs.md": "# Beliefs\n\n" + "".join(f"## B-{at:06d}\nClaim: {at}\n\n" for at in numbers)}


class Kept(MindWorld):
    """Its branch holds ten beliefs."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.pm.commit(beliefs(*range(10)))
        self.pm.push("mind")
        self.agent.git("pull", "--quiet", "origin", "mind")

    def snapshot(self, hours_ago: float, kind: SnapshotKind = SnapshotKind.DAILY) -> None:
        """The keep's, of the branch as it is, as if it had been made then."""
        git = Git(self.world.places.remote, WATCHER, {"GIT_DIR": self.world.places.remote})
        at = time.time() - hours_ago * HOUR
        make(git, [snapshot_of(kind, timestamp(at), git("rev-parse", "refs/heads/mind"))], at)

    def drops(self, *left: int) -> None:
        self.agent.commit(beliefs(*left))
        self.agent.push("mind")


@pytest.fixture
def mind(world: World) -> Kept:
    return Kept(world)


@pytest.mark.parametrize("hours_ago", [30.0, 1.0, -48.0])
def test_pushes_of_a_day_are_counted_together(mind: Kept, hours_ago: float) -> None:
    """From the newest snapshot that is a day old; from the first where none is; also when the clock was set back since.
    What takes nothing out is taken all the same, and so is what comes anew."""
    mind.snapshot(hours_ago)
    mind.drops(*range(3, 10))
    mind.snapshot(0.5)  # a later one moves nothing
    mind.snapshot(0.1, SnapshotKind.PRE_MODIFICATION)
    said = mind.tries(beliefs(*range(4, 10)))
    assert "4 of 10 beliefs in memory/beliefs.md would be gone since snapshot/daily/20" in said
    assert "with what went before, and at most a third may go in a day" in said
    assert "ask the PM to take it out" in said
    mind.drops(*range(3, 12))
    assert "4 of 12 beliefs" not in mind.tries(beliefs(*range(12, 20)))
    mind.drops(*range(3, 11))  # four of twelve are a third


def test_after_a_day_a_third_may_go_again(mind: Kept) -> None:
    mind.snapshot(60)
    mind.drops(*range(3, 10))
    mind.snapshot(30)
    mind.drops(*range(5, 10))
    assert "3 of 7 beliefs in memory/beliefs.md would be gone since" in mind.tries(beliefs(*range(6, 10)))


def test_what_the_pm_took_out_is_not_the_agents(mind: Kept) -> None:
    mind.snapshot(30)
    mind.pm.commit(beliefs(*range(4, 10)))
    mind.pm.push("mind")
    mind.agent.git("pull", "--quiet", "origin", "mind")
    mind.drops(*range(6, 10))  # two of the six that the PM left
    assert "3 of 6 beliefs" in mind.tries(beliefs(*range(7, 10)))


def test_a_skill_that_is_moved_first_and_dropped_then_is_gone_as_well(mind: Kept) -> None:
    mind.snapshot(30)
    for name in ("s0", "s1"):
        mind.agent.write({f"skills/deprecated/{name}/SKILL.md": f"skill {name[1]}\n"})
        mind.agent.git("rm", "--quiet", "-r", f"skills/learned/{name}")
    mind.agent.commit({}, "they are deprecated")
    mind.agent.push("mind")
    said = mind.tries({}, "skills/deprecated/s0", "skills/deprecated/s1")
    assert "2 of 3 learned skills in skills/learned would be gone since" in said


def test_without_a_snapshot_of_this_branch_each_push_is_counted_by_itself(mind: Kept) -> None:
    """A new agent has none yet, and the PM may have begun the branch anew."""
    mind.drops(*range(3, 10))
    mind.snapshot(30)
    mind.pm.git("checkout", "--quiet", "--orphan", "anew")
    mind.pm.commit(beliefs(*range(3, 10)))
    mind.pm.push("+anew:mind")
    mind.agent.git("fetch", "--quiet", "origin")
    mind.agent.git("reset", "--quiet", "--hard", "origin/mind")
    mind.drops(*range(5, 10))
    assert "2 of 5 beliefs in memory/beliefs.md would be gone at once" in mind.tries(beliefs(*range(7, 10)))


def test_what_is_added_first_lets_no_more_go(mind: Kept) -> None:
    """Ids that hold nothing worth keeping are quickly made."""
    mind.snapshot(30)
    mind.drops(*range(60))
    said = mind.tries(beliefs(*range(10, 60)))
    assert "10 of 10 beliefs in memory/beliefs.md would be gone since snapshot/daily/20" in said
    mind.drops(*range(3, 50))


def test_a_merge_of_the_pms_takes_nothing_out_that_the_agent_took_out(mind: Kept) -> None:
    mind.snapshot(30)
    mind.drops(*range(3, 10))
    mind.pm.commit({"memory/working.md": "the PM's\n"})
    mind.pm.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "mind")
    mind.pm.push("mind")
    mind.agent.git("pull", "--quiet", "origin", "mind")
    assert "5 of 10 beliefs" in mind.tries(beliefs(*range(5, 10)))


def test_a_learned_skill_without_its_page_is_gone(mind: Kept) -> None:
    mind.agent.write({f"skills/learned/s{at}/empty.txt": "" for at in range(3)})
    assert "3 of 3 learned skills" in mind.tries({}, *(f"skills/learned/s{at}/SKILL.md" for at in range(3)))
