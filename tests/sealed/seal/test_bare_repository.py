"""A repository with something planted in it is not sealed in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.repository.bare_config import MARKER, SETTINGS
from infra.keep.seal.bare_repository import problems
from infra.shared.branches import MAIN


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository as the container has it."""
    path = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "--template=", "-b", MAIN, path], check=True)
    for key, value in (*SETTINGS, (MARKER, "agent")):
        subprocess.run(["git", "-C", path, "config", key, value], check=True)
    return path


def a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/x")


def configure(at: Path, more: str) -> None:
    config = at / "config"
    config.write_text(config.read_text() + more)


PLANTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a hooks path": (lambda at: configure(at, "[core]\n\thooksPath = /x\n"), "core.hookspath"),
    "an included file": (lambda at: configure(at, "[include]\n\tpath = /x\n"), "include.path"),
    "no config": (lambda at: (at / "config").write_text("[["), "cannot be read"),
    "another HEAD": (lambda at: (at / "HEAD").write_text("ref: ../../x\n"), "does not name refs/heads/main"),
    "a HEAD elsewhere": (lambda at: a_link(at / "HEAD"), "HEAD is not a regular"),
    "other objects": (lambda at: (at / "objects/info/alternates").write_text("/x\n"), "objects/info/alternates"),
    "replaced objects": (lambda at: (at / "refs/replace").mkdir(), "refs/replace"),
    "hooks of the host's": (lambda at: (at / "hooks").mkdir(), "hooks can be reached"),
    "a link for a branch": (lambda at: (at / "refs/heads/x").symlink_to("/x"), "refs/heads/x"),
    "a link for a folder": (lambda at: (at / "refs/heads/d").symlink_to("/"), "refs/heads/d"),
    "a FIFO": (lambda at: os.mkfifo(at / "refs/heads/fifo"), "refs/heads/fifo"),
}


def test_a_newborn_repository_is_in_order(remote: Path) -> None:
    """What init makes has no problem."""
    assert list(problems(str(remote))) == []


@pytest.mark.attack("S23")
@pytest.mark.parametrize(("plant", "words"), PLANTS.values(), ids=PLANTS)
def test_what_was_planted_is_named(remote: Path, plant: Callable[[Path], object], words: str) -> None:
    """Each thing by its name, and without waiting or following."""
    plant(remote)
    found = list(problems(str(remote)))
    assert len(found) == 1
    assert words in found[0]
