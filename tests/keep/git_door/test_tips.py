"""Where main and the mind are, and who moves them: read from files that anybody may write to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.git_door.tips import Unreadable, Watch, read_tip
from infra.shared.requests import Tips, Where
from tests.keep.git_door.world import START_SECONDS, World

POLL_SECONDS = 0.01


def bare(world: World, *words: str) -> str:
    return world.pm.git("--git-dir", world.places.remote, *words)


def a_commit(world: World) -> str:
    return bare(world, "commit-tree", "main^{tree}", "-m", "x")


def ref_is_written_by_hand(world: World) -> None:
    Path(f"{world.places.remote}/refs/heads/main").write_text(a_commit(world) + "\n")


def ref_moves_in_packed_refs(world: World) -> None:
    bare(world, "pack-refs", "--all")
    packed = Path(f"{world.places.remote}/packed-refs")
    text = packed.read_text().replace(str(world.main), a_commit(world))
    packed.with_name("packed-refs.lock").write_text(text)
    os.rename(packed.with_name("packed-refs.lock"), packed)


def mind_is_born(world: World) -> None:
    bare(world, "update-ref", "refs/heads/mind", a_commit(world))


def main_goes(world: World) -> None:
    bare(world, "update-ref", "-d", "refs/heads/main")


def where(world: World) -> Where:
    return Where(*(bare(world, "for-each-ref", "--format=%(objectname)", f"refs/heads/{name}") for name in MINDED))


MINDED = ("main", "mind")


@pytest.mark.fault("F22")
@pytest.mark.parametrize("move", [ref_is_written_by_hand, ref_moves_in_packed_refs, mind_is_born, main_goes])
def test_whoever_moves_it_is_noticed(world: World, move: Callable[[World], None]) -> None:
    """Git in the bare repository, and files under its hands."""
    before = where(world)

    async def told() -> Where:
        watch = Watch(world.places.remote, POLL_SECONDS)
        assert await watch.news(Tips("elsewhere")) == before, "at once"
        waits = asyncio.ensure_future(watch.news(Tips(before.main, before.mind), START_SECONDS))
        await asyncio.sleep(0.05)
        assert not waits.done()
        await asyncio.to_thread(move, world)
        return await waits

    assert asyncio.run(told()) == where(world) != before


def test_packing_and_other_branches_are_no_news(world: World) -> None:
    bare(world, "update-ref", "refs/heads/work", a_commit(world))
    bare(world, "pack-refs", "--all")
    seen = where(world)
    watch = Watch(world.places.remote, POLL_SECONDS)
    assert asyncio.run(watch.news(Tips(seen.main, seen.mind), 0.05)) == seen
    assert read_tip(world.places.remote, "work-2") == ""


@pytest.mark.parametrize("garbage", ["", "garbage\n", "1" * 39, "a fifo"])
def test_damage_is_said_and_survived(world: World, garbage: str) -> None:
    """Until it is repaired."""
    main, beside = Path(f"{world.places.remote}/refs/heads/main"), world.root / "main"
    before = main.read_text()
    watch = Watch(world.places.remote, POLL_SECONDS)
    os.mkfifo(beside) if garbage == "a fifo" else beside.write_text(garbage)
    os.rename(beside, main)
    for _ in range(2):
        with pytest.raises(Unreadable):
            asyncio.run(watch.news(Tips(before.strip()), 0))
    beside.write_text(before)
    os.rename(beside, main)
    assert asyncio.run(watch.news(Tips(), 0)).main == before.strip()
