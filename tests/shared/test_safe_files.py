"""`Below`: no link followed on any step, no wait, a bound on everything, and all of it as the cell; logs cut under
their writers' hands."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.identity import Identity
from infra.shared.safe_files import MOST_KEPT, Below, Entry, Unseen
from infra.shared.safe_steps import NotPlain

Start = Callable[..., "subprocess.Popen[bytes]"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else or mount a small disk")
WRITER = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while os.fstat(log).st_size < 50_000_000:
    os.write(log, b"x" * 10_000)
print(flush=True)
for line in sys.stdin:
    os.write(log, line.encode())
    print(flush=True)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a Python program with arguments; it is ended with the test."""
    with contextlib.ExitStack() as ended:

        def begin(program: str, *words: str, **streams: int) -> subprocess.Popen[bytes]:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-c", program, *words],
                **streams,  # type: ignore[call-overload]
            )
            ended.enter_context(process)
            ended.callback(process.kill)
            return process

        yield begin


def test_an_endless_line_is_cut_and_its_writer_goes_on(tmp_path: Path, start: Start) -> None:
    """The end is kept beside; what is written next is at the log's beginning."""
    log = tmp_path / "errors.log"
    writer = start(WRITER, str(log), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdin
    assert writer.stdout
    writer.stdout.readline()
    writer.stdin.write(b"why it happened\n")
    writer.stdin.flush()
    writer.stdout.readline()
    size = log.stat().st_size
    assert Below(str(tmp_path)).cut("errors.log", 1000) == size >= 50_000_000
    kept = (tmp_path / "errors.log.1").read_bytes()
    assert len(kept) == 1000
    assert kept.endswith(b"xxxwhy it happened\n")
    writer.stdin.write(b"and on\n")
    writer.stdin.flush()
    writer.stdout.readline()
    assert log.read_bytes() == b"and on\n"


def test_a_log_can_be_cut_while_it_is_being_written(tmp_path: Path, start: Start) -> None:
    """Again and again: each time it is smaller afterwards than all that was written."""
    log = tmp_path / "a.log"
    program = "import os, sys\nf = os.open(sys.argv[1], 1025 | 64)\nwhile True: os.write(f, b'y' * 65536)"
    start(program, str(log))
    for _ in range(5):
        until = time.monotonic() + 20
        while not (log.exists() and log.stat().st_size > 4_000_000):
            assert time.monotonic() < until, "the log does not grow"
            time.sleep(0.001)
        before = log.stat().st_ino
        assert Below(str(tmp_path)).cut("a.log", 5000) > 4_000_000
        assert log.stat().st_ino == before
        assert (tmp_path / "a.log.1").read_bytes() == b"y" * 5000


@given(st.binary(max_size=200), st.integers(0, 300))
def test_exactly_the_end_is_kept(tmp_path_factory: pytest.TempPathFactory, content: bytes, most: int) -> None:
    """Of any content; a short one whole."""
    directory = tmp_path_factory.mktemp("trim")
    (directory / "x.log").write_bytes(content)
    (directory / "x.log.1").write_bytes(b"older")
    assert Below(str(directory)).cut("x.log", most) == len(content)
    assert (directory / "x.log").read_bytes() == b""
    assert (directory / "x.log.1").read_bytes() == (content[-most:] if most else b"")
    assert sorted(os.listdir(directory)) == ["x.log", "x.log.1"]


def test_what_is_kept_has_a_bound(tmp_path: Path) -> None:
    """However much is asked for."""
    with open(tmp_path / "x.log", "wb") as file:
        file.truncate(1 << 33)
    assert Below(str(tmp_path)).cut("x.log", 1 << 40) == 1 << 33
    assert (tmp_path / "x.log.1").stat().st_size == MOST_KEPT


def test_only_a_plain_file_is_cut(tmp_path: Path) -> None:
    """A link, a pipe, a directory and nothing are refused, without waiting; what a link leads to is left alone."""
    bot = tmp_path / "bot"
    (bot / "logs").mkdir(parents=True)
    (tmp_path / "pm.txt").write_text("the PM's")
    (bot / "logs/link").symlink_to(tmp_path / "pm.txt")
    os.mkfifo(bot / "logs/pipe")
    (bot / "logs/directory").mkdir()
    (bot / "outside").symlink_to(tmp_path)
    for name in ("logs/link", "logs/pipe", "logs/directory", "logs/none", "outside/pm.txt", "none/none"):
        with pytest.raises(OSError, match=r"."):
            Below(str(bot)).cut(name, 10)
    assert (tmp_path / "pm.txt").read_text() == "the PM's"
    assert sorted(os.listdir(bot / "logs")) == ["directory", "link", "pipe"]


def test_what_stands_where_the_end_is_kept_does_not_matter(tmp_path: Path) -> None:
    """A link there is replaced itself; a directory is moved aside, never deleted."""
    (tmp_path / "pm.txt").write_text("the PM's")
    (tmp_path / "a.log").write_text("aaa")
    (tmp_path / "a.log.1").symlink_to(tmp_path / "pm.txt")
    Below(str(tmp_path)).cut("a.log", 2)
    assert (tmp_path / "a.log.1").read_text() == "aa"
    assert not (tmp_path / "a.log.1").is_symlink()
    assert (tmp_path / "pm.txt").read_text() == "the PM's"
    (tmp_path / "b.log").write_text("bbb")
    (tmp_path / "b.log.1").mkdir()
    (tmp_path / "b.log.1/work").write_text("kept")
    Below(str(tmp_path)).cut("b.log", 2)
    assert (tmp_path / "b.log.1").read_text() == "bb"
    (aside,) = tmp_path.glob("b.log.1.aside-*")
    assert (aside / "work").read_text() == "kept"


@needs_root
def test_on_a_full_disk_the_log_is_cut_first(tmp_path: Path) -> None:
    """Its own end then has the room that it gave up."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=True)
    try:
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "x.log").write_bytes(b"z" * (2 << 20))
        Below(str(tmp_path)).cut("x.log", 10_000)
        assert (tmp_path / "x.log.1").read_bytes() == b"z" * 10_000
        assert (tmp_path / "x.log").stat().st_size == 0
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@needs_root
def test_as_the_cell_only_its_own_logs_are_cut(tmp_path: Path) -> None:
    """The kernel refuses another's; its own goes."""
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path != Path("/"):
            os.chmod(path, path.stat().st_mode | 0o011)
    cell = Identity(54_321, 54_321)
    logs = tmp_path / "logs"
    logs.mkdir()
    os.chown(logs, 54_321, 54_321)
    (logs / "keeps.log").write_text("keep")
    (logs / "own.log").write_text("own")
    os.chown(logs / "own.log", 54_321, 54_321)
    files = Below(str(logs), cell)
    files.cut("own.log", 2)
    with pytest.raises(PermissionError):
        files.cut("keeps.log", 2)
    assert (logs / "keeps.log").read_text() == "keep"
    assert (logs / "own.log.1").read_text() == "wn"
    assert (logs / "own.log.1").stat().st_uid == 54_321


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
    "cut": lambda files, path: files.cut(path),
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
    """The control is the plain file: its end, and a part from an offset."""
    files = Below(str(bot))
    for path in NOT_FILES:
        assert (files.tail(path, 10), files.piece(path, 10, 0)) == (b"", None)
    assert files.tail("main/logs/words", 3) == b"789"
    assert files.tail(f"{bot}/main/logs/words", 30) == b"0123456789"
    piece = files.piece("main/logs/words", 3, 2)
    assert piece
    assert (piece.content, piece.end) == (b"234", 5)
    beginning = files.piece("main/logs/words", 3, 11)  # the file is shorter than that by now
    assert beginning
    assert beginning.content == b"012"


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
    assert [each.path for each in files.walk("none", depth=1, most=9)] == ["none"]
    assert [each.path for each in files.walk("out", depth=1, most=9) if isinstance(each, Entry)] == []


def test_directories_are_made_and_removed_without_following(bot: Path) -> None:
    """What stands in the way is set aside with what it holds; a tree is removed whole, a link alone."""
    files = Below(str(bot))
    (bot / "file").write_text("work")
    aside = files.make_directory("file")
    assert Path(aside).read_text() == "work"
    assert (bot / "file").is_dir()
    assert files.make_directory("file") == ""
    with pytest.raises(FileExistsError):
        files.make_directory("file", new=True)
    files.remove("out")
    assert not (bot / "out").is_symlink()
    assert (bot / "../keep/secret").read_text() == "secret"
    (bot / "main/closed/inner").mkdir(parents=True)
    (bot / "main/closed").chmod(0)
    files.remove("main")
    files.remove("main")
    assert not (bot / "main").exists()
    assert (files.unlink("none"), files.remove_empty("file"), files.unlink(".")) == (True, True, False)


@needs_root
def test_a_directory_that_the_cell_has_closed_is_opened_up(tmp_path: Path) -> None:
    """A bad version could close its logs, or what is installed, to the good one after it; another's stays closed."""
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path != Path("/"):
            os.chmod(path, path.stat().st_mode | 0o011)
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


def test_a_directory_that_is_swapped_for_a_link_gains_nothing(bot: Path, start: Start) -> None:
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
    swapper = start(swap, str(bot), stdout=subprocess.PIPE)
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
    assert found == {b"", b"own"}
    assert os.listdir(bot / "../keep") == ["secret"]


@needs_root
def test_every_verb_acts_as_the_cell(bot: Path) -> None:
    """What only the keep may read or change is refused by the kernel, whatever it is called."""
    for path in (bot, *bot.parents):
        if path.owner() == "root" and path != Path("/"):
            os.chmod(path, path.stat().st_mode | 0o011)
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
