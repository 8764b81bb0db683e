"""Files between the watcher and the agent: what rings the watcher, and what it takes out of the directory of signals;
and what is prepared for each boot, whatever the boot before left there: logs, git's configuration, and HOME."""

from __future__ import annotations

import os
import select
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from infra.keep import boot_files
from infra.keep.cut_logs import MOST_KEPT
from infra.keep.git_door.setup import write_door_files
from infra.keep.services import children
from infra.keep.settings.schema import Settings
from infra.keep.supervision.inbox import Inbox
from infra.keep.supervision.wake import Wake
from infra.shared.boot import BOOTSTRAPPING, FAILED, SUCCESS, Boot, BootLine, Limits, format_line
from infra.shared.clock import timestamp
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.safe_files import Below
from infra.shared.signals import Signal, SignalName, write_signal
from tests.shared.test_safe_files import open_to_all


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    made = Paths(f"{tmp_path}/bot", f"{tmp_path}/remote.git", f"{tmp_path}/run", f"{tmp_path}/var")
    os.makedirs(f"{made.main_checkout}/logs")
    return made


def _link(path: Path) -> None:
    path.symlink_to("/nonexistent")


@pytest.mark.fault("F28")
@pytest.mark.parametrize("make", [_link, Path.mkdir, os.mkfifo, Path.touch])
def test_whatever_stands_in_the_way_of_a_boot_is_moved_aside(places: Paths, make: Callable[[Path], object]) -> None:
    """In the place of the logs, of their directory, and of git's configuration."""
    bot, line = Below(places.bot), BootLine("t", FAILED, "main", "-", "0" * 32, {})
    checkout = Path(places.main_checkout)
    for name in ("logs", "logs/errors.log", "logs/bootstrap.log"):
        shutil.rmtree(checkout / name, ignore_errors=True)
        (checkout / name).unlink(missing_ok=True)
        make(checkout / name)
        boot_files.add_to_boot_log(bot, places.main_checkout, line)
        os.close(boot_files.open_error_log(bot, places.main_checkout, 1000)[0])
        found = [checkout / "logs/errors.log", checkout / "logs/bootstrap.log"]
        assert [each.is_file() and not each.is_symlink() for each in found] == [True, True], name
    make(Path(places.cell_git_config))
    write_door_files(places, Settings())
    assert "user" in Path(places.cell_git_config).read_text()


BOOT, COMMIT = "b" * 32, "c" * 40


def said(*words: str, boot_id: str = BOOT) -> str:
    return "".join(format_line(BootLine(timestamp(0.0), word, "main", COMMIT, boot_id, {})) for word in words)


GOOD = said(BOOTSTRAPPING, SUCCESS)
NOT_GOOD = {
    "missing": "rm $1",
    "a FIFO": "rm $1; mkfifo $1",
    "a link to /dev/zero": "ln -sf /dev/zero $1",
    "no SUCCESS": f"echo '{said(BOOTSTRAPPING)}' >$1",
    "SUCCESS first": f"echo '{said(SUCCESS, BOOTSTRAPPING)}' >$1",
    "of another boot": f"echo '{said(BOOTSTRAPPING, SUCCESS, boot_id='d' * 32)}' >$1",
    "cut in its last line": "truncate -s -1 $1",
    "of ten gigabytes": "truncate -s 10G $1",
}


@pytest.mark.fault("F27", "F28")
@pytest.mark.parametrize("damage", NOT_GOOD.values(), ids=NOT_GOOD)
def test_a_boot_log_that_is_not_good(places: Paths, damage: str) -> None:
    """Of a log that is missing, of another kind, endless, or does not say what it has to no SUCCESS is read, and at
    once; the control: a good one behind as much else as that is read."""
    log, bot = Path(places.main_checkout, "logs/bootstrap.log"), Below(places.bot)
    log.write_text("x" * 1000 + "\n" + GOOD)
    assert SUCCESS in boot_files.boot_words(bot, "main/minifram", BOOT, "main", COMMIT)
    subprocess.run(["sh", "-c", damage, "sh", str(log)], check=True)
    assert SUCCESS not in boot_files.boot_words(bot, "main/minifram", BOOT, "main", COMMIT)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_the_agents_directory_is_opened_up_before_a_launch(tmp_path: Path) -> None:
    """A version that closed it, and ended, must not keep every version after it from being started."""
    open_to_all(tmp_path)
    bot, cell = tmp_path / "bot", Identity(54_321, 54_321)
    places = Paths(str(bot), str(tmp_path / "remote"), str(tmp_path / "run"), str(tmp_path / "var"))
    bot.mkdir()
    os.chown(bot, 54_321, 54_321)
    for mode in (0o000, 0o300):
        bot.chmod(mode)
        write_door_files(places, Settings(), cell)
        with cell.acting():
            assert os.listdir(bot) == [".gitconfig"]


@pytest.mark.fault("F58")
def test_only_the_end_of_a_flooded_log_is_kept_at_the_next_start(tmp_path: Path) -> None:
    """However much a runner wrote before it died, the older part takes 1 MiB at most and ends with its last words."""
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs/errors.log"
    log.write_bytes(b"x" * 40_000_000 + b"why it died\n")
    descriptor, size = boot_files.open_error_log(Below(str(tmp_path)), ".", 1_000_000)
    os.close(descriptor)
    kept = (tmp_path / "logs/errors.log.1").read_bytes()
    assert (size, len(kept), kept.endswith(b"why it died\n")) == (0, MOST_KEPT, True)


def test_last_words_are_plain_and_the_telling_ones(tmp_path: Path) -> None:
    """Colours and control characters of an error log do not reach the PM's page, and entries of a structured log below
    a warning do not push out what explains the end."""
    (tmp_path / "logs").mkdir()
    entry = '{{"event": "step.done", "level": "{}", "step": {}}}'
    lines = ["MemoryError", entry.format("warning", 1), *(entry.format("info", step) for step in range(40))]
    (tmp_path / "logs/errors.log").write_text("\x1b[31m" + "\a\n".join(lines) + "\x1b[0m\n")
    assert boot_files.last_words(Below(str(tmp_path)), ".", 0).splitlines() == lines[:2]


# HOME: empty at each start, so that no version acts through what another one left there.

LEFT = {".config/pip/pip.conf": "[global]\nindex-url = https://host.example/\n", ".profile": "exit 3\n"}
SHOW = "import os, site; print(os.environ['HOME'], sorted(os.listdir(os.environ['HOME'])), site.getusersitepackages())"


def boot_of(places: Paths, id: str) -> Boot:
    return Boot(id, "main", "1" * 40, "birth", places.remote, "merge", places, Limits(10.0, 10, 10.0))


def started(places: Paths, id: str, log: Path) -> list[str]:
    """What a runner of this boot is shown of its HOME."""
    with log.open("wb") as output:
        assert not children.spawn(boot_of(places, id), [sys.executable, "-c", SHOW], output.fileno()).wait()
    return log.read_text().split(maxsplit=1)


def test_each_start_has_an_empty_home(places: Paths, tmp_path: Path) -> None:
    """Nothing of an earlier one is read: neither pip's settings nor a shell's, nor a user site."""
    homes = [places.bot]
    for id in ("a" * 32, "b" * 32):
        for name, text in LEFT.items():
            Path(homes[-1], name).parent.mkdir(parents=True, exist_ok=True)
            Path(homes[-1], name).write_text(text)
        home, shown = started(places, id, tmp_path / "log")
        assert shown.startswith(f"[] {home}/.local/")
        homes.append(home)
    assert homes[1] != homes[2]
    assert not os.path.lexists(homes[1])


def test_a_home_that_somebody_made_first_is_not_used(places: Paths) -> None:
    """A link or a directory at the new name is moved away, and what cannot be moved stays unread."""
    os.symlink("/etc", places.home("c" * 32))
    boot_files.make_home(Below(places.bot), places.home("c" * 32))
    assert os.listdir(places.home("c" * 32)) == []
    assert not os.path.islink(places.home("c" * 32))


def test_pip_and_git_of_the_cell(places: Paths, tmp_path: Path) -> None:
    """pip reads no settings of anybody's, and git commits as the agent whatever a clone's configuration says."""
    env = children.cell_environment(boot_of(places, "d" * 32))
    assert env["PIP_CONFIG_FILE"] == "/dev/null"

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=tmp_path, env=env, capture_output=True, text=True).stdout

    git("init", "--quiet")
    git("config", "user.name", "PM")
    git("config", "user.email", "pm@example.invalid")
    git("commit", "--quiet", "--allow-empty", "-m", "x")
    assert git("log", "-1", "--format=%cn <%ce>").strip() == f"{AGENT.name} <{AGENT.email}>"


def rings(wake: Wake, seconds: float) -> bool:
    level = bool(select.select([wake.fd], [], [], seconds)[0])
    wake.quiet()
    return level


@pytest.mark.fault("F22")
def test_a_signal_rings_and_nothing_else_does(tmp_path: Path) -> None:
    """However many files of other names come into the directory; without a directory the looks have to do."""
    wake = Wake()
    with capture_logs() as logs:
        wake.on_signals_in(str(tmp_path / "gone"), structlog.get_logger())
    assert [entry["event"] for entry in logs] == ["watch.unavailable"]
    wake.on_signals_in(str(tmp_path), structlog.get_logger())
    for number in range(100):
        (tmp_path / f"x{number}").touch()
    assert not rings(wake, 0.2)
    write_signal(str(tmp_path), Signal(SignalName.BOOTSTRAP, "main"))
    assert rings(wake, 30.0)


KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK),
    "directory": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path),
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a terabyte of nothing": lambda path: subprocess.run(["truncate", "--size=1T", path], check=True),
}


@pytest.mark.fault("F23")
@pytest.mark.attack("S18")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_small_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """One refusal, nobody waits, and the next signal counts."""
    box, path = Inbox(str(tmp_path)), tmp_path / "bootstrap"
    KINDS[kind](path)
    [claimed] = box.take(0.0, 0.0)
    assert (claimed.request, bool(claimed.refusal), box.forget(claimed)) == (None, True, True)
    path.write_text("better\n")
    [claimed] = box.take(0.0, 2.0)
    assert claimed.request
    assert claimed.request.target == "better"


@pytest.mark.fault("F26")
def test_a_signal_file_that_stays_is_handed_out_once(tmp_path: Path) -> None:
    """What cannot be deleted is not acted on at every look; what was not decided upon is handed out by the next."""
    box = Inbox(str(tmp_path))
    (tmp_path / "bootstrap").write_text("better\n")
    assert [claimed.request.target for claimed in box.take(0.0, 1.0) if claimed.request] == ["better"]
    (tmp_path / ".claimed-bootstrap").rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / ".claimed-bootstrap")
    assert box.take(0.0, 2.0) == []
    assert os.listdir(tmp_path) == [], "its deletion was tried again"
    (tmp_path / "bootstrap").write_text("other\n")
    assert [claimed.request.target for claimed in box.take(0.0, 3.0) if claimed.request] == ["other"]
    assert len(Inbox(str(tmp_path)).take(0.0, 0.0)) == 1


@pytest.mark.fault("F26")
def test_directories_as_signals_are_all_taken_away(tmp_path: Path) -> None:
    """However many there were: each goes, and none is refused twice."""
    box = Inbox(str(tmp_path))
    for number in range(120):
        (tmp_path / "rollback").mkdir()
        (tmp_path / "rollback/inside").touch()
        claims = box.take(0.0, 10.0 * number)
        assert [bool(claimed.refusal) for claimed in claims] == [True]
        assert box.forget(claims[0])
        assert box.take(0.0, 10.0 * number + 2.0) == []


@pytest.mark.fault("F21")
def test_of_a_flood_one_is_taken_each_second_the_newest(tmp_path: Path) -> None:
    """And what else lies there is never looked at."""
    box, taken = Inbox(str(tmp_path)), []
    for number in range(100):
        (tmp_path / f"x{number}").touch()
        (tmp_path / "bootstrap").write_text(f"b{number}\n")
        claims = box.take(0.0, 10.0 + number / 20)
        taken += [claimed.request.target for claimed in claims if claimed.request and box.forget(claimed)]
    assert taken == ["b0", "b20", "b40", "b60", "b80"]


@pytest.mark.fault("F19")
def test_two_signals_within_a_tick_of_the_clock_are_two(tmp_path: Path) -> None:
    """A file that takes the number of the one before, in the same tick: its content tells it apart. The control: with
    the same content it is the one that could not be deleted."""
    box = Inbox(str(tmp_path))
    signal_file, other_name = tmp_path / "bootstrap", tmp_path / "same-number"
    taken = []
    for number, target in enumerate(("better", "best", "best")):
        if other_name.exists():
            other_name.rename(signal_file)
        signal_file.write_text(f"{target}\n")
        os.utime(signal_file, ns=(1, 1))
        os.link(signal_file, other_name)
        for claimed in box.take(10.0, 10.0 * number):
            assert claimed.request
            taken.append(claimed.request.target)
            assert box.forget(claimed)
    assert taken == ["better", "best"]


def test_what_stands_in_the_place_of_the_directory_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / ".signal"
    path.symlink_to("/nonexistent")
    Inbox(str(path)).make()
    assert path.is_dir()
    assert not path.is_symlink()
