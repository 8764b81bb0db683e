"""What the PM had forgotten does not come back through the door, and the keep's snapshots are the keep's."""

from __future__ import annotations

from infra.shared.mind.forgotten import add_forgotten, read_forgotten
from tests.keep.git_door.world import World


def test_a_forgotten_commit_does_not_come_back(world: World) -> None:
    """Neither as a branch or tag of its own, nor as a parent of what is new; other work lands as before."""
    old = world.agent.commit({"a.md": "the secret\n"})
    world.agent.git("checkout", "--quiet", "-b", "again", "origin/main")
    world.agent.git("merge", "--quiet", "--no-ff", "-m", "both", old)
    add_forgotten(world.places.var, "2026-01-31T10:42:12.000Z", ["f" * 40])
    add_forgotten(world.places.var, "2026-02-01T10:42:12.000Z", [old])

    assert read_forgotten(world.places.var) == {"f" * 40, old}
    for refspec in (f"{old}:refs/heads/old", f"{old}:refs/tags/snapshot/old", "again:refs/heads/again"):
        assert f"commit {old[:12]} is of the mind as it was" in world.agent.refused(refspec)
    world.agent.git("checkout", "--quiet", "-b", "fresh", "origin/main")
    world.agent.commit({"b.md": "mine\n"})
    world.agent.push("fresh")


def test_no_tag_of_the_agents_looks_like_the_keeps(world: World) -> None:
    """Nor does one stand in the way of the keep's."""
    for name in ("daily/2026-01-31T10-42-12Z", "weekly", "Monthly/1", "pre-modification/1", "post-failure/1"):
        assert "the keep alone makes them" in world.agent.refused(f"HEAD:refs/tags/snapshot/{name}")
    world.agent.push("HEAD:refs/tags/snapshot/my-daily/1")
    assert world.agent.refused(":refs/tags/snapshot/my-daily/1")
