"""What a runner asks the keep of the mind, and tells it."""

from __future__ import annotations

from pathlib import Path

import structlog

from infra.keep.git_door.app import answer
from infra.keep.git_door.context import DoorContext
from infra.keep.mind.kept import BaselineChange, MindKept, encode_kept
from infra.keep.settings import Settings
from infra.shared.door import Failure
from infra.shared.files import write_whole
from infra.shared.mind.heads import read_heads
from infra.shared.paths import Paths
from infra.shared.requests import AskDrift, Done, Drift, NoteHead


def test_the_keeps_word_on_the_mind_fits_into_one_reply(tmp_path: Path) -> None:
    """None without a mind; else each line, cut, also when there are very many; a spoiled state is no answer to fail
    over. Heads are taken without a look at the repository."""
    places = Paths(f"{tmp_path}/bot", f"{tmp_path}/none.git", f"{tmp_path}/run", str(tmp_path))
    door = DoorContext(places, Settings(), structlog.get_logger())
    assert answer(door, AskDrift()) == Drift()
    change = BaselineChange("2026-01-31T10:42:12.000Z", "a" * 40, ("boot/identity.md",), 0.9)
    write_whole(
        f"{tmp_path}/mind.json", encode_kept(MindKept(changes=(change,) * 20, drift=("\U0001f40b" * 999,) * 99))
    )

    reply = answer(door, AskDrift())

    assert isinstance(reply, Drift)
    assert len(reply.drift) == 30
    assert reply.changes[0].endswith("changed 90% of the words of boot/identity.md")
    write_whole(f"{tmp_path}/mind.json", b"\xff")
    assert answer(door, AskDrift()) == Drift()
    assert answer(door, NoteHead("run", 1, "a" * 64, 1)) == Done("")
    assert isinstance(answer(door, NoteHead("run", 1, "b" * 64, 1)), Failure)
    assert len(read_heads((tmp_path / "mind-heads.jsonl").read_bytes())) == 1
