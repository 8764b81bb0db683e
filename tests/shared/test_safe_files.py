"""`Below`: no link followed on any step, no wait, a bound on everything, and all of it as the cell; and what it is to
act as somebody else: what the cell may not read, the keep does not read for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.users import user_named
from infra.shared.identity import OURS, Identity
from infra.shared.safe_files import Below, Entry, NotPlain, Unseen

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")


def open_to_all(place: Path) -> None:
    """Others may enter it, as far as it is ours."""
    for path in (place, *place.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)


@pytest.fixture
def bot(tmp_path: Path) -> Path:
    """The cell's directory, with links out of it, a pipe and a file; the keep's secret lies beside."""
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep/secret").write_text("secret")
    bot = tmp_path / "bot"
    (bot / "main/logs").mkdir(parents=True)
    (bot / "main/logs/words").write_text("0123456789")
    (bot / "main/logs/link").symlink_to(tmp_path / "keep/secret")
    (bot / "out").symlink_to(tmp_path / "keep")
    os.mkfifo(bot / "main/pipe")
    return bot


NOT_FILES = ("main/logs/link", "out/secret", "main/pipe", "main/logs", "../keep/secret", "none")
VERBS: dict[str, Callable[[Below, str], object]] = {
    "whole": lambda files, path: files.whole(path),
    "opened": lambda files, path: files.opened(path),
    "append": lambda files, path: files.open_to_append(f"{path}/new" if path == "out/secret" else path),
}


@pytest.mark.parametrize("name", VERBS)
def test_what_is_no_file_below_the_root_is_refused_at_once(bot: Path, name: str) -> None:
    """Links on any step, pipes, directories, the way out and what is missing; what a link leads to stays as it was."""
    taken = []
    for path in NOT_FILES:
        try:
            VERBS[name](Below(str(bot)), path)
        except OSError:
            continue
        taken.append(path)
    assert taken == (["none"] if name == "append" else []), "appending makes a file that is missing"
    assert (bot / "../keep/secret").read_text() == "secret"


def test_reading_without_an_error_gives_nothing_for_all_of_them(bot: Path) -> None:
    """The control is the plain file."""
    files = Below(str(bot))
    for path in NOT_FILES:
        assert files.tail(path, 10) == b""
    assert files.tail("main/logs/words", 3) == b"789"
    assert files.tail(f"{bot}/main/logs/words", 30) == b"0123456789"


def test_a_larger_file_than_may_be_read_is_not_read(bot: Path) -> None:
    """The error names the file and the bound."""
    with pytest.raises(NotPlain, match="words has more than 9 bytes"):
        Below(str(bot)).whole("main/logs/words", 9)
    assert Below(str(bot)).whole("main/logs/words", 10) == b"0123456789"


def test_a_walk_has_bounds_and_names_what_it_left_out(bot: Path) -> None:
    """Links are given, never entered; entries, depth and time have an end."""
    files = Below(str(bot))

    def seen(**bounds: float) -> tuple[list[str], list[str]]:
        found = list(files.walk(**{"depth": 5, "most": 100} | bounds))  # type: ignore[arg-type]
        names = sorted(each.path for each in found if isinstance(each, Entry))
        return names, [each.why for each in found if isinstance(each, Unseen)]

    every = ["main", "main/logs", "main/logs/link", "main/logs/words", "main/pipe", "out"]
    assert seen() == (every, [])
    assert seen(depth=1) == (["main", "main/logs", "main/pipe", "out"], ["lies too deep to be looked into"])
    names, why = seen(most=2)
    assert (len(names), len(why)) == (2, 1)
    assert seen(seconds=-1)[0] == []
    for missing in ("none", "none/", f"{bot}/none"):
        assert [each.path for each in files.walk(missing, depth=1, most=9)] == ["none"]
    assert [each.path for each in files.walk("out", depth=1, most=9) if isinstance(each, Entry)] == []


def test_directories_are_made_and_removed_without_following(bot: Path) -> None:
    """What stands in the way is set aside with what it holds; a tree is removed whole, a link alone."""
    files = Below(str(bot))
    (bot / "file").write_text("work")
    aside = files.make_directory("file")
    assert Path(aside).read_text() == "work"
    assert (bot / "file").is_dir()
    assert files.make_directory("file") == ""
    files.remove("out")
    assert not (bot / "out").is_symlink()
    assert (bot / "../keep/secret").read_text() == "secret"
    (bot / "main/closed/inner").mkdir(parents=True)
    (bot / "main/closed").chmod(0)
    files.remove("main")
    files.remove("main")
    assert not (bot / "main").exists()
    assert (files.unlink("none"), files.unlink(".")) == (True, False)


@needs_root
def test_a_directory_that_the_cell_has_closed_is_opened_up(tmp_path: Path) -> None:
    """A bad version could close its logs, or what is installed, to the good one after it; another's stays closed."""
    open_to_all(tmp_path)
    tmp_path.chmod(0o755)
    files = Below(str(tmp_path), Identity(54_321, 54_321))
    for name, owner in (("own", 54_321), ("keeps", 0)):
        (tmp_path / name).mkdir(mode=0)
        os.chown(tmp_path / name, owner, owner)
    assert files.make_directory("own") == ""
    assert files.names("own", 1) == []
    with pytest.raises(PermissionError):
        files.make_directory("keeps")
    assert (tmp_path / "keeps").stat().st_mode & 0o777 == 0
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


@pytest.mark.attack("S18")
@pytest.mark.heavy
def test_a_directory_that_is_swapped_for_a_link_gains_nothing(bot: Path) -> None:
    """However fast: each read gives the cell's own words or nothing, and each write lands in the cell's directory."""
    swap = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("real"); open("real/secret", "w").write("own")
os.symlink("../keep", "fake")
print(flush=True)
while True:
    os.rename("real", "place"); os.rename("place", "real")
    os.rename("fake", "place"); os.rename("place", "fake")
"""
    swapper = subprocess.Popen([sys.executable, "-c", swap, str(bot)], stdout=subprocess.PIPE)
    assert swapper.stdout
    swapper.stdout.readline()
    files = Below(str(bot))
    found: set[bytes] = set()
    written = 0
    until = time.monotonic() + 20
    while time.monotonic() < until and not (len(found) == 2 and written > 20):
        found.add(files.tail("place/secret", 10))
        with contextlib.suppress(OSError):
            files.write("place/written", b"x")
            written += 1
        assert not any(
            "secret" in each.path for each in files.walk("place", depth=2, most=9) if os.path.islink(each.path)
        )
    swapper.kill()
    swapper.communicate()
    assert found == {b"", b"own"}
    assert os.listdir(bot / "../keep") == ["secret"]


@pytest.mark.attack("S18")
@needs_root
def test_every_verb_acts_as_the_cell(bot: Path) -> None:
    """What only the keep may read or change is refused by the kernel, whatever it is called."""
    open_to_all(bot)
    cell = Below(str(bot), Identity(54_321, 54_321))
    os.chmod(bot / "main/logs/words", 0o600)
    assert cell.tail("main/logs/words", 10) == b""
    os.chmod(bot, 0o755)
    for act in (
        lambda: cell.whole("main/logs/words"),
        lambda: cell.write("main/new", b""),
        lambda: cell.rename("main", "other"),
        lambda: cell.make_directory("main/new"),
        lambda: cell.remove("main/logs"),
        lambda: cell.set_aside("main", unless=lambda _: False),
    ):
        with pytest.raises(OSError, match=r"(?i)permission denied"):
            act()
    assert not cell.unlink("main/logs/words")
    assert sorted(os.listdir(bot / "main")) == ["logs", "pipe"]


# Acting as somebody else.


NOBODY = user_named("nobody")


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
    """Within `acting` root reads what the user may read and nothing else, and is root again afterwards, whatever
    happened inside."""
    ours, theirs = files
    assert readable(ours)
    with NOBODY.acting():
        assert (readable(ours), readable(theirs)) == (False, True)
    with pytest.raises(PermissionError), NOBODY.acting():
        theirs.with_name("made").touch()
    assert readable(ours)


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
