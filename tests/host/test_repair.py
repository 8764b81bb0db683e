"""What a power cut left is put right where that needs no guess, and is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from host.agent.up import make_ready
from host.repository import open as bare
from host.repository.repair import machine_started, repair
from infra.shared.repository import bare_config
from tests.host.desk import Desk


@pytest.mark.parametrize("left", [b"", b"\0" * 23, None])
@pytest.mark.parametrize("name", ["HEAD", "config"])
def test_an_emptied_file_is_told_and_written_again(desk: Desk, name: str, left: bytes | None) -> None:
    """By `up` and `doctor`; the other commands name these. An empty file may be gone, or have its length of zeros."""
    path = Path(desk.home().remote, name)
    known = bare.configuration(desk.home().remote)
    for verb in ("up", "doctor"):
        path.unlink()
        if left is not None:
            path.write_bytes(left)
        refused = desk.run("tell", "x")
        assert refused.code == 4
        assert f"{path} is empty" in refused.err
        assert "'minifram doctor'" in refused.err
        said: list[str] = []
        if verb == "up":
            make_ready(desk.context(), "process", said.append)
        else:
            said.append(desk.done("doctor").out)
        assert f"{path} was empty, as a power cut can leave it; it is written again" in said[0]
        assert path.read_bytes().startswith(b"ref: refs/heads/main\n" if name == "HEAD" else b"[core]\n")
        assert bare.configuration(desk.home().remote) == known
        assert desk.run("review").code == 0


def test_the_whole_configuration_is_that_of_init(desk: Desk) -> None:
    """So that a file that is written again differs in nothing."""
    assert set(bare.configuration(desk.home().remote)) <= bare_config.EXPECTED_KEYS
    written = desk.root / "config"
    (written).mkdir(exist_ok=True)
    (written / "config").write_text(bare_config.config_text("agent"))
    assert bare.configuration(str(written)) == bare.configuration(desk.home().remote)


def test_locks_of_before_the_start_are_removed_and_others_stay(desk: Desk) -> None:
    """A git that holds one now began after the machine did."""
    remote = Path(desk.home().remote)
    locks = [remote / name for name in ("packed-refs.lock", "config.lock", "refs/heads/main.lock")]
    for lock in locks:
        lock.touch()
    assert list(repair(desk.home(), machine_started())) == []
    for lock in locks:
        os.utime(lock, (0, machine_started() - 60))
    assert "main.lock" in desk.run("tell", "x").err
    said = desk.done("doctor").out
    assert all(f"{lock} was left by a git that ended with the machine" in said for lock in locks)
    assert desk.run("tell", "x").code == 0


def test_what_is_no_repository_is_left_alone(desk: Desk) -> None:
    """Nothing is written into a directory that is something else, or through a link."""
    remote = Path(desk.home().remote)
    (remote / "HEAD").unlink()
    (remote / "HEAD").symlink_to("elsewhere")
    assert list(repair(desk.home(), 0.0)) == []
    (remote / "HEAD").unlink()
    (remote / "refs").rename(remote / "away")
    assert list(repair(desk.home(), 0.0)) == []
    assert not (remote / "HEAD").exists()
