"""Before the agent becomes another version of itself: who it is can be read, what it does can be recorded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cell.mind import preflight
from infra.shared.mind.layout import DAILY, EVENTS, IDENTITY, INVARIANTS
from tests.cell.mind.one_mind import OneMind


def spoiled(mind: OneMind, path: str, content: bytes | None = None) -> None:
    os.unlink(f"{mind.root}/{path}")
    if content is None:
        os.symlink("/etc/passwd", f"{mind.root}/{path}")
    else:
        mind.write(path, content)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda mind: None, ""),
        (lambda mind: os.unlink(f"{mind.root}/{IDENTITY}"), "cannot read boot/identity.md: No such file"),
        (lambda mind: spoiled(mind, IDENTITY), "cannot read boot/identity.md"),
        (lambda mind: spoiled(mind, IDENTITY, b" \n"), "it is empty, or no text; 'git checkout"),
        (
            lambda mind: spoiled(mind, INVARIANTS, b"\xff\xfe\x00"),
            "boot/invariants.md: it is empty, or no text",
        ),
        (lambda mind: Path(mind.places.events).write_text("a file"), f"cannot write events ({EVENTS}/)"),
        (lambda mind: mind.write(DAILY, "a file"), f"cannot write a daily summary ({DAILY}/)"),
        (lambda mind: shutil.rmtree(mind.root), ""),
    ],
)
def test_each_lack_is_named(tmp_path: Path, spoil: Callable[[OneMind], object], words: str) -> None:
    """A file that is gone, empty, binary or a link; a directory that is a file. Without a clone nothing is looked at,
    and nothing is left behind by the look."""
    mind = OneMind(str(tmp_path), 1_769_856_132.0)
    mind.write(IDENTITY, "I am.\n")
    mind.write(INVARIANTS, "Log.\n")
    spoil(mind)
    said = preflight.problem(mind.cell())
    assert (words in said and "Mend that first" in said) if words else not said
    assert not os.path.isdir(f"{mind.root}/{DAILY}") or os.listdir(f"{mind.root}/{DAILY}") == []
