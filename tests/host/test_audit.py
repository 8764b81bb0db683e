"""What a look into a bare repository finds, how much it looks at, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from host.repository.audit import DEPTH, quick, thorough
from tests.host.desk import Desk

US = os.geteuid()


@pytest.fixture
def remote(desk: Desk) -> Path:
    return Path(desk.home().remote)


def found_by(look: object, remote: Path, **more: int) -> dict[str, str]:
    """Path and what is wrong with it."""
    assert callable(look)
    return {opening.path: opening.what for opening in look(str(remote), US, **more)}


def test_a_repository_at_work_has_no_openings(desk: Desk, remote: Path) -> None:
    """Loose and packed objects, branches, tags, records, logs, and what gc leaves."""
    desk.branch("improve/deep", {"src/a.py": "1\n"})
    git = desk.git()
    git("update-ref", "refs/minifram/rejected/x/0123456789ab", desk.main())
    git("tag", "-m", "m", "snapshot/one", desk.main())
    git("-c", "core.logAllRefUpdates=always", "update-ref", "refs/heads/logged", desk.main())
    git("gc", "--quiet")
    desk.branch("more", {"src/b.py": "1\n"})
    (remote / "info").mkdir(exist_ok=True)
    (remote / "info/exclude").touch()
    for name in ("description", "FETCH_HEAD", "gc.log", "objects/aa/tmp_obj_x1y2z3", "refs/heads/more.lock"):
        (remote / name).parent.mkdir(exist_ok=True)
        (remote / name).touch()
    found = [path for path in found_by(thorough, remote) if not path.startswith("objects/info/commit-graph")]
    assert found == []
    assert found_by(quick, remote) == {}


def test_what_git_does_not_know_is_told_but_stops_nobody(remote: Path) -> None:
    """A file of the PM's, or of a newer git's, is a finding of the doctor's and no more."""
    for name in ("notes.txt", "info/notes", "objects/notes", "objects/aa/notes", "objects/pack/notes", "worktrees/x"):
        (remote / name).parent.mkdir(exist_ok=True)
        (remote / name).touch()
    assert set(found_by(thorough, remote)) == {
        *("notes.txt", "info/notes", "objects/notes", "objects/aa/notes", "objects/pack/notes", "worktrees")
    }
    assert found_by(quick, remote) == {}


def test_the_quick_look_leaves_the_objects_alone(remote: Path) -> None:
    """It sees a link in place of a directory of objects, and not one in place of an object; the thorough look does."""
    (remote / "objects/aa").mkdir(exist_ok=True)
    (remote / "objects/aa/x").symlink_to("/etc/passwd")
    assert found_by(quick, remote) == {}
    assert "symbolic link" in found_by(thorough, remote)["objects/aa/x"]
    (remote / "objects/ab").symlink_to("/etc")
    assert "symbolic link" in found_by(quick, remote)["objects/ab"]


@pytest.mark.parametrize("look", [quick, thorough])
def test_no_look_goes_on_for_ever(remote: Path, look: object) -> None:
    """Beyond so many entries it says that it has not seen all; the quick look then stops the work."""
    for number in range(30):
        (remote / f"refs/heads/x{number}").write_text("0" * 40 + "\n")
    assert not [what for what in found_by(look, remote).values() if "over" in what]
    assert "over 20" in found_by(look, remote, most=20)[""]


def test_links_are_seen_and_not_followed(remote: Path, tmp_path: Path) -> None:
    """What lies behind one is none of the repository's."""
    (tmp_path / "far").mkdir()
    os.mkfifo(tmp_path / "far/fifo")
    (remote / "refs/heads/far").symlink_to(tmp_path / "far")
    (remote / "refs/heads/round").symlink_to(".")
    assert set(found_by(thorough, remote)) == {"refs/heads/far", "refs/heads/round"}


def test_directories_can_be_deeper_than_a_path_can_be_long(remote: Path) -> None:
    """The look goes down to a depth that no branch has; a branch may be as deep as its name may be long."""
    deepest = remote / "refs/heads" / "/".join(["d"] * (DEPTH - 3))
    deepest.mkdir(parents=True)
    assert found_by(quick, remote) == {}
    here = os.open(deepest, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    found = found_by(quick, remote)
    # Python's own way to remove a tree gives up on one like this.
    subprocess.run(["rm", "-rf", deepest], check=True)
    [what] = found.values()
    assert f"over {DEPTH} directories deep" in what


def test_owners_and_modes_are_looked_at(remote: Path) -> None:
    """Whoever else owns or may write something could have put anything into it."""
    others = {opening.path: opening for opening in thorough(str(remote), US + 1)}
    assert {"", "HEAD", "config", "objects/pack", "refs/heads/main"} <= set(others)
    assert {path for path, opening in others.items() if opening.stops} == {"", "HEAD", "config"}
    (remote / "refs/heads/main").chmod(0o666)
    (remote / "refs/heads/main").touch()
    (remote / "objects/pack").chmod(0o777)
    (remote / "config").chmod(0o4644)
    found = found_by(thorough, remote)
    assert set(found) == {"refs/heads/main", "objects/pack", "config"}
    assert "0666" in found["refs/heads/main"]
    assert "4644" in found["config"]


def test_what_cannot_be_opened_is_said(remote: Path) -> None:
    """A look that sees nothing must not pass for one that found nothing."""
    (remote / "refs/tags").chmod(0)
    (remote / "refs/heads/main").chmod(0)
    expected = {"refs/tags", "refs/heads/main"} if US else set()  # root may open everything
    assert set(found_by(quick, remote)) == expected
    (remote / "refs/tags").chmod(0o700)


def test_what_vanishes_meanwhile_is_nobody_s_trouble(remote: Path) -> None:
    """A push that comes to its end moves and removes files while one looks."""
    (remote / "refs/heads/a").write_text("0" * 40 + "\n")
    looking = thorough(str(remote), US)
    (remote / "refs/heads/z").symlink_to("x")
    next(looking)
    for path in (remote / "refs").rglob("*"):
        if path.is_file():
            path.unlink()
    assert [opening.path for opening in looking if "cannot" in opening.what] == []


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("ref: refs/heads/main\n", "stands for another ref"),
        ("ref:" + "x" * 37, "stands for another ref"),
        ("", "expected the id of a commit"),
        ("0" * 39 + "\n", "expected the id of a commit"),
        ("0" * 40 + " and more\n", "expected the id of a commit"),
    ],
)
def test_a_ref_holds_an_id_and_nothing_else(remote: Path, content: str, what: str) -> None:
    """What a dead machine left is for the doctor; a ref that stands for another one stops the work."""
    (remote / "refs/heads/x").write_text(content)
    [opening] = thorough(str(remote), US)
    assert what in opening.what
    assert opening.stops is content.startswith("ref:")
