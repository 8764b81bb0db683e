"""Main's clone holds what the shared repository says, whatever its own index, objects and bytecode say of it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.repository.git import Git, GitError
from infra.supervision import genuine, rescue
from tests.supervision.agents import Agent
from tests.supervision.test_checkouts import Main, new_main

MakeAgent = Callable[..., Agent]
EVIL = "EVIL"


@pytest.fixture
def main(make_agent: MakeAgent) -> Main:
    return Main(make_agent())


def assumed_unchanged(main: Main) -> None:
    main.git("update-index", "--assume-unchanged", "behaviour")
    (main.path / "behaviour").write_text(EVIL)


def skipped(main: Main) -> None:
    main.git("update-index", "--skip-worktree", "behaviour")
    (main.path / "behaviour").write_text(EVIL)


def of_the_size_and_time_that_the_index_says(main: Main) -> None:
    path = main.path / "behaviour"
    path.write_text(EVIL + "#" * (path.stat().st_size - len(EVIL)))
    _say_it_is_up_to_date(main.path, "behaviour")


def _say_it_is_up_to_date(checkout: Path, name: str) -> None:
    """Write the file's own times, inode and size into its entry of the index (gitformat-index(5), version 2)."""
    index = checkout / ".git/index"
    content = bytearray(index.read_bytes())
    assert content[:8] == b"DIRC" + struct.pack(">I", 2)
    at = content.index(name.encode() + b"\0") - 62
    found = os.stat(checkout / name)
    times = [part for each in (found.st_ctime_ns, found.st_mtime_ns) for part in divmod(each, 10**9)]
    content[at : at + 24] = struct.pack(">6I", *times, found.st_dev & 0xFFFFFFFF, found.st_ino & 0xFFFFFFFF)
    content[at + 36 : at + 40] = struct.pack(">I", found.st_size & 0xFFFFFFFF)
    content[-20:] = hashlib.sha1(content[:-20]).digest()
    index.write_bytes(content)
    later = found.st_mtime + 5  # an index as old as the file would be looked at twice
    os.utime(index, (later, later))


@pytest.mark.parametrize("spoil", [assumed_unchanged, skipped, of_the_size_and_time_that_the_index_says])
def test_a_change_that_git_is_told_not_to_see_is_seen(main: Main, spoil: Callable[[Main], None]) -> None:
    """Main has not moved, and git says that the clone is clean: what leads is the shared main all the same."""
    good = (main.path / "behaviour").read_text()
    spoil(main)
    assert main.is_right(), "git itself is deceived"
    assert EVIL in (main.path / "behaviour").read_text()
    evil = (main.path / "behaviour").read_text()
    ready = main.bring()
    assert (main.path / "behaviour").read_text() == good
    assert "rescue/" in ready.rescued
    assert main.kept(evil)
    assert not rescue.has_hidden_changes(main.git)
    assert main.bring(1_700_000_001.0).rescued == ""


def test_an_object_with_another_content_than_its_name_says_is_not_led(main: Main) -> None:
    """Whoever knows what main will hold can put something else into the clone's objects beforehand."""
    coming, evil = b"good\n", b"EVIL\n"
    name = hashlib.sha1(b"blob 5\0" + coming).hexdigest()
    planted = main.path / ".git/objects" / name[:2] / name[2:]
    planted.parent.mkdir(exist_ok=True)
    planted.write_bytes(zlib.compress(b"blob 5\0" + evil))
    new_main(main, coming=coming.decode())
    ready = main.bring()
    assert (main.path / "coming").read_bytes() == coming
    assert main.is_right()
    assert ready.commit == Git(main.agent.places.remote)("rev-parse", "main")


def _compiled(source: Path, says: str) -> Path:
    """Bytecode that Python takes for that of `source`, and does something else (PEP 552: its time and size fit)."""
    cache = Path(importlib.util.cache_from_source(str(source)))
    cache.parent.mkdir(exist_ok=True)
    found = source.stat()
    fake = source.with_name("fake.py")
    fake.write_text(says)
    subprocess.run([sys.executable, "-m", "py_compile", fake], check=True)
    made = Path(importlib.util.cache_from_source(str(fake)))
    content = made.read_bytes()
    fake.unlink()
    made.unlink()
    cache.write_bytes(content[:8] + struct.pack("<II", int(found.st_mtime), found.st_size) + content[16:])
    return cache


def test_bytecode_that_is_not_of_its_source_is_not_run(main: Main) -> None:
    module = main.path / "infra/runner.py"
    assert module.is_file()
    kept = main.path / "infra/__pycache__/a note"
    cache = _compiled(module, "print('EVIL')\n")
    kept.write_text("is nobody's bytecode")
    run = [sys.executable, "-E", "-s", "-c", "import infra.runner"]
    before = subprocess.run(run, cwd=main.path, capture_output=True, text=True, check=False)
    assert before.stdout == "EVIL\n", "the control: Python is deceived"
    assert main.bring().rescued == "", "what is ignored and no code is nobody's loss"
    assert not cache.exists()
    assert kept.exists()
    after = subprocess.run(run, cwd=main.path, capture_output=True, text=True, check=False)
    assert "EVIL" not in after.stdout


def test_bytecode_that_main_itself_has_is_left_alone(main: Main) -> None:
    """It is main's content like any other file."""
    main.agent.git("pull", "-q", "--ff-only", "origin", "main")
    (main.agent.clone / "infra/tracked.pyc").write_bytes(b"of main's own")
    main.agent.git("add", "--force", "infra/tracked.pyc")
    new_main(main)
    main.bring()
    assert (main.path / "infra/tracked.pyc").read_bytes() == b"of main's own"
    assert main.is_right()


def test_a_shared_repository_that_lost_objects_is_led_from_the_clone(main: Main) -> None:
    """The clone has objects of its own; nobody but a disk can take the shared ones away."""
    shared = Git(main.agent.places.remote)
    tree = shared("rev-parse", "main^{tree}")
    lost = Path(main.agent.places.remote, "objects", tree[:2], tree[2:])
    assert lost.is_file()
    lost.unlink()
    assert main.bring().commit == shared("rev-parse", "main")
    with pytest.raises(GitError):
        genuine.listing(shared, "main")


def test_bytecode_without_a_source_goes_too(tmp_path: Path) -> None:
    """In every directory that main has, and nowhere else."""
    for path in ("a/stray.pyc", "a/__pycache__/b.cpython-311.pyc", "a/.mine.py", "theirs/x.pyc", "of_mains_own.pyc"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"")
    genuine.remove_bytecode(str(tmp_path), b"100644 blob 00\ta/b.py\x00100644 blob 00\tof_mains_own.pyc\x00")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"a/.mine.py", "theirs/x.pyc", "of_mains_own.pyc"}


def test_a_listing_is_of_the_shared_repository(main: Main) -> None:
    shared = Git(main.agent.places.remote)
    listed = genuine.listing(shared, shared("rev-parse", "main"))
    assert b"\tbehaviour\0" in listed
    assert genuine.is_genuine(main.git, rescue.status(main.git), listed)
    (main.path / "behaviour").write_text("another")
    assert not genuine.is_genuine(main.git, rescue.status(main.git)._replace(dirty=False), listed)
