"""Acting as somebody else on files, as root can: what the cell may not read, the keep does not read for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infra.keep.users import user_named
from infra.shared.identity import OURS
from tests.shared.test_safe_files import open_to_all

NOBODY = user_named("nobody")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")


def readable(path: Path) -> bool:
    try:
        path.read_text()
    except PermissionError:
        return False
    return True


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A file of ours alone and one of nobody's alone, in a place that all can enter."""
    open_to_all(tmp_path)
    files = tmp_path / "ours", tmp_path / "theirs"
    for file in files:
        file.write_text("words")
        file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(files[1], NOBODY.uid or 0, NOBODY.gid or 0)
    return files


@needs_root
def test_files_are_reached_with_the_others_rights(files: tuple[Path, Path]) -> None:
    """Within `acting` root reads what the user may read and nothing else, and is root again afterwards."""
    ours, theirs = files
    assert readable(ours)
    with NOBODY.acting():
        assert (readable(ours), readable(theirs)) == (False, True)
        made = theirs.with_name("made")
        with pytest.raises(PermissionError):
            made.touch()
    assert readable(ours)


@needs_root
def test_it_ends_with_an_error_inside(files: tuple[Path, Path]) -> None:
    """Whatever happens inside, the rights come back."""
    with pytest.raises(ZeroDivisionError), NOBODY.acting():
        raise ZeroDivisionError
    assert readable(files[0])


@needs_root
def test_other_threads_stay_who_they_are(files: tuple[Path, Path]) -> None:
    """The change is this thread's alone: one that was there before keeps its own rights."""
    go, seen = threading.Event(), list[bool]()

    def look() -> None:
        go.wait(10)
        seen.append(readable(files[0]))

    waiting = threading.Thread(target=look)
    waiting.start()
    with NOBODY.acting():
        go.set()
        waiting.join()
    assert seen == [True]


@needs_root
def test_a_child_is_wholly_the_other(files: tuple[Path, Path]) -> None:
    """All three user ids, all three group ids, and no other group."""
    words = ["sh", "-c", "grep -E '^(Uid|Gid|Groups|CapEff)' /proc/self/status"]
    said = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, cwd="/", **NOBODY.for_child).stdout
    status = {name: rest.split() for name, _, rest in (line.partition(":") for line in said.splitlines())}
    assert status["Uid"] == [str(NOBODY.uid)] * 4
    assert status["Gid"] == [str(NOBODY.gid)] * 4
    assert status["Groups"] == []
    assert int(status["CapEff"][0], 16) == 0


def test_ours_changes_nothing(files: tuple[Path, Path]) -> None:
    """Where there is one user only, acting is nothing and a child is who we are."""
    with OURS.acting():
        assert readable(files[0])
    assert OURS.for_child == {}


def test_an_unknown_user_is_named() -> None:
    """A missing user is an error with its name."""
    with pytest.raises(LookupError, match="no such user: 'agent-that-is-not'"):
        user_named("agent-that-is-not")


@pytest.mark.heavy
def test_without_the_right_it_says_so() -> None:
    """Who may not become somebody else is told, and stays who it is."""
    code = (
        "import ctypes, os; from infra.shared.identity import Identity\n"
        "os.geteuid() or (os.setgroups([]), os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534))\n"
        "try:\n    with Identity(1, 1).acting(): print('became')\n"
        "except PermissionError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "was refused; expected CAP_SETUID" in said
