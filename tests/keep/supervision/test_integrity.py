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
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.supervision import integrity, rescue
from infra.shared.repository.git import Git, GitError
from tests.keep.supervision.agents import Agent
from tests.keep.supervision.test_checkouts import Main, new_main

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
    """Its time and size fit, so Python would believe it: it is removed, and nothing else that is ignored."""
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


def module(path: Path, says: str = "print('EVIL')\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(says)


def hides_itself(main: Main) -> None:
    module(main.path / "json/__init__.py")
    module(main.path / "json/.gitignore", "*\n")


def hides_a_module_of_main_s(main: Main) -> None:
    module(main.path / "infra/runner/__init__.py")
    module(main.path / "infra/runner/.gitignore", "*\n")


def hides_where_main_looks_for_nothing(main: Main) -> None:
    module(main.path / "rich/__init__.py")
    module(main.path / "rich/.gitignore", "*\n")


def changes_how_a_file_is_read(main: Main) -> None:
    """What git takes for the committed bytes, Python takes for others."""
    module(main.path / "infra/.gitignore", "/.gitignore\n/.gitattributes\n")
    module(main.path / "infra/.gitattributes", "runner.py working-tree-encoding=UTF-7\n")
    text = (main.path / "infra/runner.py").read_text()
    (main.path / "infra/runner.py").write_bytes(text.encode("utf-7"))
    main.git("add", "infra/runner.py")


def a_link_to_a_package(main: Main) -> None:
    module(main.path / ".git/info/exclude", "")
    module(main.path / "logs/json/__init__.py")
    (main.path / "infra/shared").symlink_to("../logs/json")
    module(main.path / "infra/.gitignore", "*\n")


@pytest.mark.parametrize(
    "spoil",
    [
        hides_itself,
        hides_a_module_of_main_s,
        hides_where_main_looks_for_nothing,
        changes_how_a_file_is_read,
        a_link_to_a_package,
    ],
)
def test_what_git_is_made_to_ignore_does_not_lead(main: Main, spoil: Callable[[Main], None]) -> None:
    """The clone is clean by its own rules; it is set aside whole, or what was added is."""
    spoil(main)
    assert main.is_right(), "git itself is deceived"
    ready = main.bring()
    assert ready.rescued
    for name in ("json", "rich", "infra/runner", "infra/shared", "infra/.gitignore", "infra/.gitattributes"):
        assert not (main.path / name).exists()
    assert main.bring(1_700_000_001.0).rescued == ""


def test_bytecode_without_a_source_goes_too(main: Main) -> None:
    """In place of a package, where main has no file: its own rules ignore it."""
    main.agent.git("pull", "-q", "--ff-only", "origin", "main")
    (main.agent.clone / ".gitignore").write_text("logs/\n*.pyc\n__pycache__/\n")
    new_main(main)
    main.bring()
    for name in ("json/__init__.pyc", "infra/runner/__init__.pyc", "infra/stray.pyc"):
        (main.path / name).parent.mkdir(exist_ok=True)
        (main.path / name).write_bytes(b"")
    (main.path / "logs").mkdir(exist_ok=True)
    (main.path / "logs/kept.pyc").write_bytes(b"")
    assert main.bring(1_700_000_001.0).rescued == ""
    left = {str(path.relative_to(main.path)) for path in main.path.rglob("*.pyc")}
    assert left == {"logs/kept.pyc"}


def test_a_repository_that_main_names_has_no_content(main: Main) -> None:
    """A clone leaves it empty; what somebody put there is nothing that main says."""
    main.agent.git("pull", "-q", "--ff-only", "origin", "main")
    inner = main.agent.git("rev-parse", "HEAD")
    (main.agent.clone / "json").mkdir()
    main.agent.git("update-index", "--add", "--cacheinfo", f"160000,{inner},json")
    new_main(main)
    main.bring()
    assert main.bring(1_700_000_001.0).rescued == ""
    subprocess.run(["git", "clone", "-q", main.agent.places.remote, main.path / "json"], check=True)
    subprocess.run(["git", "-C", main.path / "json", "checkout", "-q", inner], check=True)
    assert main.is_right(), "git itself finds nothing wrong"
    assert main.bring(1_700_000_002.0).rescued
    assert os.listdir(main.path / "json") == []


def test_a_file_that_main_s_own_attributes_would_write_otherwise_is_no_change(main: Main) -> None:
    """Committed before there were rules for its ends of lines: nothing is saved, and nothing set aside, ever."""
    main.agent.git("pull", "-q", "--ff-only", "origin", "main")
    (main.agent.clone / "old.txt").write_bytes(b"one\r\ntwo\r\n")
    main.agent.git("-c", "core.autocrlf=false", "add", "old.txt")
    new_main(main)
    (main.agent.clone / ".gitattributes").write_text("*.txt text\n")
    main.agent.git("add", ".gitattributes")
    main.agent.git("commit", "-qm", "attributes")
    main.agent.git("push", "-q", "origin", "HEAD:main")
    first = main.bring()
    for number in range(3):
        assert main.bring(1_700_000_001.0 + number).rescued == ""
    assert "set aside" not in first.rescued
    assert (main.path / "old.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_links_and_rights_are_as_main_has_them(main: Main) -> None:
    """Also when the clone's settings tell git not to look at them."""
    main.agent.git("pull", "-q", "--ff-only", "origin", "main")
    (main.agent.clone / "link").symlink_to("behaviour")
    (main.agent.clone / "program").write_text("#!/bin/sh\n")
    (main.agent.clone / "program").chmod(0o755)
    new_main(main)
    main.bring()
    for setting in ("core.symlinks", "core.fileMode"):
        main.git("config", setting, "false")
    (main.path / "link").unlink()
    (main.path / "link").write_text("behaviour")
    (main.path / "program").chmod(0o644)
    assert main.is_right(), "git itself is deceived"
    main.bring(1_700_000_001.0)
    assert (main.path / "link").is_symlink()
    assert os.access(main.path / "program", os.X_OK)


def test_what_an_agent_s_day_leaves_is_no_reason_to_set_anything_aside(main: Main) -> None:
    """Environments, caches with rules of their own, builds and packages that main's own rules ignore."""
    main.agent.git("pull", "-q", "--ff-only", "origin", "main")
    (main.agent.clone / ".gitignore").write_text("logs/\n__pycache__/\n.venv*\nbuild/\nnode_modules/\n.pytest_cache/\n")
    new_main(main)
    main.bring()
    for name in (
        *(".venv/lib/site/json.py", ".venv/.gitignore", ".pytest_cache/.gitignore", ".pytest_cache/x.py"),
        *("build/lib/thing.py", "node_modules/gyp/x.py", "logs/json.py", "logs/outputs/.gitignore", "src/build/y.py"),
        "infra/__pycache__/a note",
    ):
        module(main.path / name, "*\n" if name.endswith("ignore") else "pass\n")
    assert main.bring(1_700_000_001.0) == (main.git("rev-parse", "HEAD"), "")
    assert (main.path / "build/lib/thing.py").exists()


@given(st.lists(st.binary(min_size=1, max_size=12).filter(lambda each: b"\0" not in each), max_size=6))
def test_no_path_makes_the_look_fail(paths: list[bytes]) -> None:
    """Names are the agent's: any bytes but NUL."""
    assert set(integrity.leading(paths, [b"infra/runner.py"])) <= set(paths)
    assert set(integrity.bytecode(paths)) <= set(paths)


@pytest.mark.parametrize(
    ("path", "leads"),
    [
        (b"infra/new.py", True),
        (b"infra/deep/__init__.cpython-311-x86_64-linux-gnu.so", True),
        (b"json/", True),
        (b"secrets.py", True),
        (b"structlog/x.py", True),
        (b"infra/link", True),
        (b"infra/notes.txt", False),
        (b"src/new.py", False),
        (b"new/", False),
        (b"with-dash/json.py", False),
        (b"infra/.hypothesis/x.py", False),
        (b".gitignore", True),
        (b"infra/.gitattributes", True),
        (b"src/.gitignore", False),
    ],
)
def test_what_leads(path: bytes, leads: bool) -> None:
    """A path that main does not have: does git or Python follow it?"""
    assert (integrity.leading([path], [b"infra/runner.py", b"infra/shared/boot.py"]) == [path]) is leads


def test_a_listing_is_of_the_shared_repository(main: Main) -> None:
    """What is held against it is right or not, and no trace is left."""
    shared = Git(main.agent.places.remote)
    commit = shared("rev-parse", "main")
    listed = integrity.listing(shared, commit)
    assert b"\tbehaviour\0" in listed
    assert integrity.is_intact(main.git, commit, listed)
    (main.path / "behaviour").write_text("another")
    assert not integrity.is_intact(main.git, commit, listed), "with the index of before"
    main.git("checkout", "--", "behaviour")
    main.git("rm", "--quiet", "--cached", "behaviour")
    assert not integrity.is_intact(main.git, commit, listed), "what is staged"
    assert integrity.INDEX not in os.listdir(main.path / ".git")


def test_a_main_whose_index_is_not_kept_is_intact(main: Main) -> None:
    """It has over 1 MiB, by the length of its paths, and is made anew for each launch."""
    folder = main.agent.clone.joinpath(*["f" * 200] * 5)
    folder.mkdir(parents=True)
    for number in range(1100):
        (folder / f"{number}").touch()
    new_main(main)
    main.bring()
    shared = Git(main.agent.places.remote)
    commit = shared("rev-parse", "main")
    listed = integrity.listing(shared, commit)
    assert len(listed) > 1 << 20
    for _ in range(2):
        assert integrity.is_intact(main.git, commit, listed)
    (Path(main.git.directory) / folder.relative_to(main.agent.clone) / "7").write_text("another")
    assert not integrity.is_intact(main.git, commit, listed)


def test_a_shared_repository_that_lost_objects_is_led_from_the_clone(main: Main) -> None:
    """The clone has objects of its own; nobody but a disk can take the shared ones away."""
    shared = Git(main.agent.places.remote)
    tree = shared("rev-parse", "main^{tree}")
    lost = Path(main.agent.places.remote, "objects", tree[:2], tree[2:])
    content = lost.read_bytes()
    for damage in (None, b"", b"no object", content[:-3]):
        lost.unlink(missing_ok=True)
        if damage is not None:
            lost.write_bytes(damage)
        with pytest.raises(GitError):
            integrity.listing(shared, "main")
        assert main.bring().commit == shared("rev-parse", "main")
