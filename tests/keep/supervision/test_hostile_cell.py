"""What a cell may do to the files, the signals and the processes that the watcher meets: it goes on all the same."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from infra.keep import boot_files
from infra.keep.cut_logs import MOST_KEPT
from infra.keep.git_door import rollback
from infra.keep.git_door.setup import write_door_files
from infra.keep.services import children, processes
from infra.keep.settings.check import parse_settings
from infra.keep.supervision import inbox
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.repository.git import Git
from infra.shared.safe_files import Below
from infra.shared.signals import SignalName
from tests.keep.supervision.agents import HOPELESS, PYTHON, Agent, within

MakeAgent = Callable[..., Agent]
heavy = pytest.mark.heavy


@pytest.mark.fault("F03")
@heavy
def test_any_signal_may_end_a_runner(make_agent: MakeAgent) -> None:
    """Also one that has no name: it is told by its number and main leads again."""
    agent = make_agent()
    agent.start()
    state = agent.serving()
    for number, words in ((signal.SIGSEGV, "SIGSEGV"), (signal.SIGRTMIN + 1, f"signal {signal.SIGRTMIN + 1}")):
        os.kill(state.active.pid, number)
        state = agent.serving(but=state.active.boot_id)
        assert state.boots[-2].detail.endswith(words)


def _link(path: Path) -> None:
    path.symlink_to("/nonexistent")


OBSTACLES: list[tuple[str, Callable[[Path], object]]] = [
    ("logs", Path.touch),
    ("logs", _link),
    ("logs/errors.log", _link),
    ("logs/errors.log", Path.mkdir),
    ("logs/errors.log", os.mkfifo),
    ("logs/bootstrap.log", _link),
    ("logs/bootstrap.log", Path.mkdir),
    ("logs/bootstrap.log", os.mkfifo),
    ("../../.gitconfig", Path.mkdir),
    ("../../.gitconfig", os.mkfifo),
]


def _with_logs_of_any_name(agent: Agent) -> None:
    (agent.clone / ".gitignore").write_text("logs*\n__pycache__/\n")
    agent.commit("serve()")
    agent.git("push", "-q", "origin", "main")
    agent.branch("better", "serve()")


def _put_in_place_of(path: Path, make: Callable[[Path], object]) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    make(path)


@pytest.mark.fault("F28")
@heavy
def test_main_starts_whatever_stands_in_its_way(make_agent: MakeAgent) -> None:
    """A file, link, directory or FIFO in the place of what main needs is moved aside; signals work afterwards."""
    agent = make_agent()
    _with_logs_of_any_name(agent)
    agent.start()
    main = agent.serving()
    for name, make in OBSTACLES:
        agent.ask(SignalName.BOOTSTRAP, "better")
        better = agent.serving("better", but=main.active.boot_id)
        _put_in_place_of(Path(agent.places.main_checkout, name), make)
        agent.ask(SignalName.BOOTSTRAP, "main")
        main = agent.serving(but=better.active.boot_id)
        assert not agent.state().failures, (name, make)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_the_agents_directory_is_opened_up_before_a_launch(tmp_path: Path) -> None:
    """A version that closed it, and ended, must not keep every version after it from being started."""
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    bot, cell = tmp_path / "bot", Identity(54_321, 54_321)
    places = Paths(str(bot), str(tmp_path / "remote"), str(tmp_path / "run"), str(tmp_path / "var"))
    bot.mkdir()
    os.chown(bot, 54_321, 54_321)
    for mode in (0o000, 0o300):
        bot.chmod(mode)
        write_door_files(places, parse_settings(""), cell)
        with cell.acting():
            assert os.listdir(bot) == [".gitconfig"]


@heavy
def test_main_starts_without_a_directory_for_signals(make_agent: MakeAgent) -> None:
    """What stands in its place is moved aside when the next runner starts; signals work afterwards."""
    agent = make_agent()
    _with_logs_of_any_name(agent)
    agent.start()
    for make in (Path.touch, _link):
        first = agent.serving()
        _put_in_place_of(Path(agent.places.signals), make)
        os.kill(first.active.pid, signal.SIGKILL)
        second = agent.serving(but=first.active.boot_id)
        real = lambda: os.path.isdir(agent.places.signals) and not os.path.islink(agent.places.signals)  # noqa: E731
        within(30.0, real, "signals")
        agent.ask(SignalName.BOOTSTRAP, "better")
        better = agent.serving("better", but=second.active.boot_id)
        agent.ask(SignalName.BOOTSTRAP, "main")
        agent.serving(but=better.active.boot_id)


@pytest.mark.fault("F16")
@heavy
def test_when_memory_is_short_the_cell_goes_first(make_agent: MakeAgent) -> None:
    """The runner and what it starts have the kernel's highest score; the control: the watcher and its doors do not."""
    agent = make_agent("""child = subprocess.Popen(["sleep", "1000"])
open("logs/child", "w").write(str(child.pid))
serve()
""")
    agent.start()
    served = agent.serving()
    assert agent.watcher
    child = int((Path(agent.places.main_checkout) / "logs/child").read_text())
    ours = psutil.Process(agent.watcher.pid)
    doors = [each.pid for each in ours.children() if each.pid != served.active.pid]
    assert [_score(pid) for pid in (served.active.pid, child)] == [1000, 1000]
    assert doors
    assert {_score(pid) for pid in (ours.pid, *doors)} == {_score(os.getpid())}
    assert _score(os.getpid()) < 1000


def _score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@heavy
def test_a_signal_directory_that_was_removed_is_no_matter(served: Agent) -> None:
    """It is made again by whoever signals, and its signals are noticed by the poll."""
    shutil.rmtree(served.places.signals)
    served.ask(SignalName.BOOTSTRAP, "better")
    served.serving("better")


@pytest.mark.fault("F18")
@heavy
def test_a_signal_in_the_making_is_not_acted_on(served: Agent) -> None:
    """Written in place, bit by bit: only the whole is acted on, never its beginning."""
    served.branch("bet", "serve()")
    with open(f"{served.places.signals}/bootstrap", "w") as file:
        for part in ("", "bet", "ter\n"):
            file.write(part)
            file.flush()
            time.sleep(0.3)  # the watcher has looked at it by then
    state = served.serving("better")
    assert "bet" not in [boot.branch for boot in state.boots]


@pytest.mark.fault("F14", "F61")
@heavy
def test_without_a_free_descriptor_a_launch_is_tried_again(make_agent: MakeAgent) -> None:
    """EMFILE: the watcher lives, says so, and launches when it can again; no runner is left unfollowed."""
    agent = make_agent()
    watcher = agent.start()
    first = agent.serving()
    me = psutil.Process(watcher.pid)
    usual = me.rlimit(resource.RLIMIT_NOFILE)
    me.rlimit(resource.RLIMIT_NOFILE, (max(int(name) for name in os.listdir(f"/proc/{watcher.pid}/fd")), usual[1]))
    os.kill(first.active.pid, signal.SIGKILL)
    time.sleep(1.5)  # it fails at all that it tries meanwhile
    assert watcher.poll() is None
    me.rlimit(resource.RLIMIT_NOFILE, usual)
    second = agent.serving(but=first.active.boot_id, seconds=20.0)
    alive = [child for child in me.children() if child.pid == second.active.pid]
    assert len(alive) == 1
    assert len(me.children()) == 3, "two doors and one runner"


@heavy
def test_a_signal_that_comes_with_the_stop_is_kept_for_the_next_start(make_agent: MakeAgent) -> None:
    """The stop is decided first; the signal's file is only deleted once the signal itself was decided upon."""
    agent = make_agent(*HOPELESS)
    agent.branch("better", "serve()")
    watcher = agent.start()
    within(30.0, lambda: agent.state().phase == "waiting" and agent.state().failures >= 5, "a wait")
    watcher.send_signal(signal.SIGSTOP)
    agent.ask(SignalName.BOOTSTRAP, "better")
    watcher.send_signal(signal.SIGTERM)
    watcher.send_signal(signal.SIGCONT)
    assert watcher.wait(20) == 0
    agent.settings.write_text("timing: {rehearse: false}\n")  # with time to come up
    agent.start()
    agent.serving("better")


@heavy
def test_a_report_outlives_the_watcher_that_could_not_make_it(make_agent: MakeAgent) -> None:
    """No repository to write to: the report is kept, and made by the next watcher."""
    agent = make_agent()
    agent.start()
    agent.serving()
    os.rename(agent.places.remote, f"{agent.places.remote}.away")
    Path(agent.places.signals, "bootstrap").write_text("-b\n")
    within(30.0, lambda: "report.failed" in agent.log(), "a failed report")
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    os.rename(f"{agent.places.remote}.away", agent.places.remote)
    agent.start()
    comms = agent.told("a signal was refused")
    assert comms.count("a signal was refused") == 1
    within(30.0, lambda: not agent.state().untold, "nothing left to tell")


@pytest.mark.fault("F33", "F53")
@heavy
def test_a_lock_that_a_killed_push_left_does_not_silence_the_watcher(make_agent: MakeAgent) -> None:
    """refs/heads/main.lock of a git that is gone goes, and what was to be told is, in its order; the same kind of
    trouble is counted in between."""
    agent = make_agent(settings="timing: {rehearse: false, check_seconds: 1}\n")
    lock = Path(agent.places.remote, "refs/heads/main.lock")
    lock.touch()
    agent.start()
    agent.serving()
    request = Path(agent.places.signals, "bootstrap")
    for number, told in enumerate((1, 2, 2, 3)):
        request.write_text(f"-refused-{number}-\n")
        within(30.0, lambda n=told: len(agent.state().untold) == n and not request.exists(), "kept for later")  # type: ignore[misc]
    assert lock.exists()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    within(30.0, lambda: not agent.state().untold, "told")
    assert re.findall(r"-refused-(\d)-", agent.comms()) == ["0", "1", "3"]
    agent.ask(SignalName.ROLLBACK, "no-such-ref")
    agent.told("rollback to no-such-ref failed")


def test_a_rollback_is_made_once_for_one_signal(make_agent: MakeAgent) -> None:
    """`main~1` names another commit afterwards, so a repetition after a crash must not go back again."""
    agent = make_agent("good")
    agent.commit("bad")
    agent.git("push", "-q", "origin", "main")
    bare = Git(agent.places.remote)
    first = rollback.roll_back(agent.places, "main~1", "merge", "1:2:3")
    assert bare("show", "main:behaviour") == "good"
    assert rollback.roll_back(agent.places, "main~1", "merge", "1:2:3") == first
    assert bare("show", "main:behaviour") == "good"
    assert rollback.roll_back(agent.places, "main~1", "merge", "1:2:33") != first
    assert bare("show", "main:behaviour") == "bad", "the control: another signal is another rollback"


@pytest.mark.fault("F26")
def test_a_signal_file_that_stays_is_handed_out_once(tmp_path: Path) -> None:
    """What cannot be deleted is not acted on at every look; what was not decided upon is handed out by the next."""
    box = inbox.Inbox(str(tmp_path))
    (tmp_path / "bootstrap").write_text("better\n")
    assert [claimed.request.target for claimed in box.take(0.0, 1.0) if claimed.request] == ["better"]
    (tmp_path / ".claimed-bootstrap").rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / ".claimed-bootstrap")
    assert box.take(0.0, 2.0) == []
    assert os.listdir(tmp_path) == [], "its deletion was tried again"
    (tmp_path / "bootstrap").write_text("other\n")
    assert [claimed.request.target for claimed in box.take(0.0, 3.0) if claimed.request] == ["other"]
    assert len(inbox.Inbox(str(tmp_path)).take(0.0, 0.0)) == 1


@pytest.mark.fault("F26")
def test_directories_as_signals_are_all_taken_away(tmp_path: Path) -> None:
    """However many there were: each goes, and none is refused twice."""
    box = inbox.Inbox(str(tmp_path))
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
    box, taken = inbox.Inbox(str(tmp_path)), []
    for number in range(100):
        (tmp_path / f"x{number}").touch()
        (tmp_path / "bootstrap").write_text(f"b{number}\n")
        claims = box.take(0.0, 10.0 + number / 20)
        taken += [claimed.request.target for claimed in claims if claimed.request and box.forget(claimed)]
    assert taken == ["b0", "b20", "b40", "b60", "b80"]


FLOOD = """
import os, sys
number = 0
while True:
    number += 1
    with open(f"{sys.argv[1]}/.tmp", "w") as file:
        file.write(f"no such ref {number} !\\n")
    os.rename(f"{sys.argv[1]}/.tmp", f"{sys.argv[1]}/rollback")
"""


@pytest.mark.fault("F85")
@heavy
def test_a_flood_of_signals_is_told_once(make_agent: MakeAgent) -> None:
    """Fault: refused signals come without end; expected: a killed runner is replaced in the midst of them, a valid
    signal is carried out after them, and the page holds a few of them."""
    agent = make_agent()
    agent.branch("better", "serve()")
    agent.start()
    first = agent.serving()
    with subprocess.Popen([PYTHON, "-c", FLOOD, agent.places.signals]) as flood:
        try:
            agent.told("a signal was refused")
            os.kill(first.active.pid, signal.SIGKILL)
            agent.serving(but=first.active.boot_id, seconds=10.0)
        finally:
            flood.kill()
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.serving("better", seconds=20.0)
    assert agent.comms().count("a signal was refused") <= 8


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


def test_last_words_are_plain(tmp_path: Path) -> None:
    """Colours and control characters of an error log do not reach the PM's page."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/errors.log").write_text("\x1b[31mred\x1b[0m\a\n")
    assert boot_files.last_words(Below(str(tmp_path)), ".", 0) == "red"


def test_last_words_are_the_telling_ones(tmp_path: Path) -> None:
    """Entries of a structured log below a warning do not push out what explains the end."""
    (tmp_path / "logs").mkdir()
    entry = '{{"event": "step.done", "level": "{}", "step": {}}}'
    lines = ["MemoryError", entry.format("warning", 1), *(entry.format("info", step) for step in range(40))]
    (tmp_path / "logs/errors.log").write_text("\n".join(lines) + "\n")
    assert boot_files.last_words(Below(str(tmp_path)), ".", 0).splitlines() == lines[:2]


def test_gits_of_a_killed_watcher_are_ended(make_agent: MakeAgent) -> None:
    """What the watcher itself had begun in a clone is known by its environment; other people's processes are not."""
    agent = make_agent()
    command = [PYTHON, "-c", "import time; time.sleep(300)"]
    ours = subprocess.Popen(command, env={children.KEEPS: agent.places.var})
    others = subprocess.Popen(command, env={children.KEEPS: "/another"})
    try:
        within(30.0, lambda: children.KEEPS in psutil.Process(ours.pid).environ(), "its environment")
        assert len(processes.end_strays(agent.places)) == 1
        assert ours.wait(30) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        for process in (ours, others):
            process.kill()
            process.wait()


@pytest.mark.fault("F19")
def test_two_signals_within_a_tick_of_the_clock_are_two(tmp_path: Path) -> None:
    """A file that takes the number of the one before, in the same tick: its content tells it apart. The control: with
    the same content it is the one that could not be deleted."""
    box = inbox.Inbox(str(tmp_path))
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
