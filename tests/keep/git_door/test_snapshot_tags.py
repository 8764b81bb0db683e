"""The keep's snapshots are the keep's."""

from __future__ import annotations

from tests.keep.git_door.world import World


def test_no_tag_of_the_agents_looks_like_the_keeps(world: World) -> None:
    """Nor does one stand in the way of the keep's."""
    for name in ("daily/2026-01-31T10-42-12Z", "weekly", "Monthly/1", "pre-modification/1", "post-failure/1"):
        assert "the keep alone makes them" in world.agent.refused(f"HEAD:refs/tags/snapshot/{name}")
    world.agent.push("HEAD:refs/tags/snapshot/my-daily/1")
    assert world.agent.refused(":refs/tags/snapshot/my-daily/1")
