"""A thousand pages, while processes of the browser are killed at random: nothing of them is left, and nothing grows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.keep.eye.messages import Look
from infra.keep.web_door.proxy import Errand
from infra.keep.web_door.refusal import WebRefusal
from tests.keep.eye.test_eye import Eye, browsers, eye_at, in_time, looking

pytestmark = pytest.mark.long
PAGES, KILL_EVERY, MIB = 1000, 20, 1 << 20
MOST_MIB = 512
"""As much as the eye's container gives a browser."""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the browsers have their files; a socket's name is to be short."""
    with tempfile.TemporaryDirectory(prefix="s") as found:
        monkeypatch.setenv("TMPDIR", found)
        yield Path(found)


@pytest.mark.timeout(1800)
def test_a_thousand_pages_leave_nothing(place: Path) -> None:
    dice, door = random.Random(29), psutil.Process()

    async def run(eye: Eye) -> None:
        failed, held = 0, list[tuple[int, int]]()
        async with looking(eye) as (pool, at):
            for number in range(PAGES):
                look = asyncio.ensure_future(pool.look(Look(f"{at}/shell", seconds=8.0), Errand("site.example")))
                if number % KILL_EVERY == KILL_EVERY - 1:
                    await asyncio.sleep(dice.uniform(0.0, 0.3))
                    kill(dice, eye)
                try:
                    assert "filled" in (await look).html
                except WebRefusal:
                    failed += 1
                if number % 100 == 50:
                    held.append((memory(eye), door.memory_info().rss))
        assert failed <= 2 * PAGES / KILL_EVERY
        assert max(browser for browser, _ in held) < MOST_MIB * MIB
        assert held[-1][1] < held[0][1] + 10 * MIB

    with eye_at(place / "e.sock") as eye:
        before = door.num_fds(), len(door.children())
        asyncio.run(run(eye))
        assert in_time(lambda: not browsers(eye) and os.listdir(place) == ["e.sock"])
        assert (door.num_fds(), len(door.children())) == before
        assert psutil.Process(eye.pid).num_fds() < 16


def kill(dice: random.Random, eye: Eye) -> None:
    """One of all processes of its browsers, the first of them as often as all others."""
    firsts = browsers(eye)
    others = [each for first in firsts for each in first.children(recursive=True)]
    if found := firsts if dice.random() < 0.5 else others:
        with contextlib.suppress(psutil.Error):
            dice.choice(found).kill()


def memory(eye: Eye, word: str = "") -> int:
    """Of all processes of its browsers, or of those with this word; what several share is shared out among them."""
    found = 0
    for first in browsers(eye):
        for each in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                found += each.memory_full_info().pss if not word or word in each.cmdline() else 0
    return found
