"""`minifram logs`: one stream, in order of time."""

from __future__ import annotations

import json
import os
import signal
import tracemalloc
from pathlib import Path

from host.agent import logs
from host.agent.logs import Line
from host.display import LINE_CHARS
from infra.shared.boot_log import SUCCESS, BootLine, format_line
from tests.host.desk import Desk, wait_for


def _time(second: int) -> str:
    return f"2026-01-31T10:42:{second:02d}.000Z"


def _watcher(desk: Desk, second: int, event: str, **fields: object) -> None:
    with open(f"{desk.home().state}/watcher.log", "a", encoding="utf-8") as file:
        stamp = f"2026-01-31T10:42:{second:02d}.000000Z"
        file.write(json.dumps({"event": event, **fields, "level": "info", "timestamp": stamp}) + "\n")


def _some_logs(desk: Desk) -> None:
    _watcher(desk, 1, "watcher.started", pid=7)
    _watcher(desk, 5, "runner.died", how="exit status 1", branch="main", boot_id="b" * 32)
    desk.log("main", "bootstrap.log", format_line(BootLine(_time(2), SUCCESS, "main", "a" * 40, "b" * 32)))
    desk.log("main", "errors.log", f"{_time(3)} hello\nTraceback\n  boom\n")
    desk.log("deep/er", "errors.log", json.dumps({"time": _time(4), "event": "unit.begun", "unit": "a b"}) + "\n")


def test_all_logs_are_merged_by_time(desk: Desk) -> None:
    """Lines without a time stay behind the one above them."""
    _some_logs(desk)

    found = logs.last_lines(desk.home().places, "all", 100)

    assert [(line.time[17:19], line.source, line.branch) for line in found] == [
        ("01", "watcher", ""),
        ("02", "boot", "main"),
        ("03", "runner", "main"),
        ("03", "runner", "main"),
        ("03", "runner", "main"),
        ("04", "runner", "deep/er"),
        ("05", "watcher", ""),
    ]
    assert [line.text for line in found[2:5]] == [f"{_time(3)} hello", "Traceback", "  boom"]


def test_no_key_is_shown(desk: Desk) -> None:
    """Whoever wrote it: an earlier version redacted nothing."""
    key = "ghp_" + "aB3xZ9qW7kL2mN8pR4tY6vD1fG5hJ0sC1u2E"
    fields = {"event": "unit.finished", "words": f"done with {key}", "password": "hunter2"}
    desk.log("main", "errors.log", json.dumps(fields) + f"\nTraceback\nValueError: {key}\n")

    shown = desk.done("logs").out + desk.done("logs", "--json").out

    assert shown.count("done with [secret]") >= 2
    assert key not in shown
    assert "hunter2" not in shown


def test_many_long_logs_are_never_all_in_memory(desk: Desk) -> None:
    """An agent may have a great many checkouts; what is asked for is a few lines."""
    for number in range(8):
        desk.log(f"b{number}", "errors.log", "a\n" * 5_000)
    places = desk.home().places
    tracemalloc.start()
    try:
        assert len(logs.last_lines(places, "runner", 5)) == 5
        one = next(iter(logs.follow_lines(places, "runner", 5)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert one.text == "a"
    assert peak < 4 * 5_000 * 200, "the lines of one log are 1.5 MB"


def test_a_source_and_a_number_choose(desk: Desk) -> None:
    """The last ones of one source; none is none."""
    _some_logs(desk)
    places = desk.home().places

    assert [line.source for line in logs.last_lines(places, "boot", 9)] == ["boot"]
    assert [line.text for line in logs.last_lines(places, "runner", 2)][1].startswith("{")
    assert logs.last_lines(places, "all", 0) == []


def test_people_and_programs_read_the_same_lines(desk: Desk) -> None:
    """Structured lines become words; --json gives the fields."""
    _some_logs(desk)

    out = desk.done("logs").out
    assert 'runner.died how="exit status 1" branch=main boot_id=bbbbbbbbbbbb\n' in out
    assert out.count(_time(2)) == 1
    assert 'unit.begun unit="a b"' in out

    found = desk.done("logs", "--json", "-n", "1").json
    assert found["schema"] == "minifram.logs/1"
    (line,) = found["lines"]
    assert line.keys() == {"time", "source", "branch", "text", "event"}
    assert line["event"]["how"] == "exit status 1"
    assert desk.done("logs", "--source", "boot", "-n", "5").out.count("\n") == 1


def test_the_doors_have_a_log_of_their_own(desk: Desk) -> None:
    """It is the keep's, like the watcher's."""
    line = {"event": "call.settled", "usd": 0.5, "level": "info", "timestamp": "2026-01-31T10:42:01.000000Z"}
    Path(desk.home().state, "doors.log").write_text(json.dumps(line) + "\n")

    assert "call.settled usd=0.5" in desk.done("logs", "--source", "doors").out
    assert desk.done("logs", "--source", "watcher").out == ""


def test_no_logs_yet_is_said_on_stderr(desk: Desk) -> None:
    """Nothing is a result, too."""
    ended = desk.done("logs")
    assert ended.out == ""
    assert "minifram up" in ended.err


def test_agent_text_is_data(desk: Desk) -> None:
    """No escape sequence of the agent's reaches the terminal, and none of its fields breaks the screen."""
    desk.log("main", "errors.log", "\x1b[2J\x1b[31mred\x1b[0m \x07bell \x9b1m\n")
    desk.log("main", "errors.log", json.dumps({"event": "\x1b[H", "timestamp": 5, "level": ["x"]}) + "\n")
    desk.log("main", "errors.log", "[" * 100_000 + "\n")
    desk.log("main", "errors.log", '{"event": ' * 2000 + "\n")
    desk.log("main", "errors.log", "\u3164" * 3900 + "\n")
    desk.log("main", "errors.log", json.dumps({"event": "\u00ad" * 600}) + "\n")

    out = desk.done("logs").out

    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\\x1b[2Jred \\x07bell" in out
    assert "(cut" in out
    for line in out.splitlines():
        assert len(line) < LINE_CHARS + 200


def test_links_pipes_and_strange_trees_are_passed_over(desk: Desk, tmp_path: Path) -> None:
    """Only regular files on plain paths are logs."""
    _some_logs(desk)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "errors.log").write_text(f"{_time(6)} a secret of the PM's\n")
    bot = Path(desk.home().places.bot)
    (bot / "linked" / "minifram").mkdir(parents=True)
    (bot / "linked" / "minifram" / "logs").symlink_to(secret)
    (bot / "outside").symlink_to(tmp_path)
    pipe = desk.log("pipe", "errors.log", "")
    pipe.unlink()
    os.mkfifo(pipe)

    found = logs.last_lines(desk.home().places, "all", 100)

    assert len(found) == 7
    assert not [line for line in found if "secret" in line.text]


def _taken(desk: Desk, rounds: list[None], act: dict[int, object]) -> list[Line]:
    """Follow the logs; before the Nth pause does `act[N]`, and ends after the last."""

    class Enough(Exception):
        pass

    def pause(_: float) -> None:
        rounds.append(None)
        step = act.get(len(rounds))
        if step is None:
            raise Enough
        assert callable(step)
        step()

    found: list[Line] = []
    try:
        for line in logs.follow_lines(desk.home().places, "all", 2, pause):
            found.append(line)
    except Enough:
        pass
    return found


def test_follow_gives_each_line_once_and_whole(desk: Desk) -> None:
    """New lines, new checkouts, halves of lines, and files that were moved aside or cut."""
    _some_logs(desk)
    log = Path(desk.home().state) / "watcher.log"

    def half() -> None:
        desk.log("main", "errors.log", f"{_time(10)} ha")

    def other_half() -> None:
        desk.log("main", "errors.log", "lf\n")
        desk.log("new", "errors.log", f"{_time(11)} first words\n")

    def rotate() -> None:
        _watcher(desk, 12, "last.of.the.old")
        log.rename(f"{log}.1")
        _watcher(desk, 13, "first.of.the.new")

    def cut() -> None:
        log.write_text("")
        _watcher(desk, 14, "cut")

    found = _taken(desk, [], {1: half, 2: other_half, 3: rotate, 4: cut})

    texts = [line.event["event"] if line.event else line.text for line in found]
    assert texts == [
        "unit.begun",
        "runner.died",
        f"{_time(10)} half",
        f"{_time(11)} first words",
        "last.of.the.old",
        "first.of.the.new",
        "cut",
    ]


def test_following_as_json_is_one_object_a_line_and_ends_with_130(desk: Desk) -> None:
    """NDJSON for programs; Ctrl-C is how it ends."""
    _watcher(desk, 1, "one")
    with desk.spawn("logs", "-f", "--json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        _watcher(desk, 2, "two")
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert first["schema"] == second["schema"] == "minifram.log-line/1"
    assert [first["event"]["event"], second["event"]["event"]] == ["one", "two"]
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_has_enough_is_no_trouble(desk: Desk) -> None:
    """`minifram logs -f | head -1` ends quietly."""
    for second in range(3):
        _watcher(desk, second, "again")
    with desk.spawn("logs", "-f") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()

        def ended() -> bool:
            _watcher(desk, 5, "more")
            return process.poll() is not None

        wait_for(ended)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_log_of_a_gigabyte_is_read_from_its_end(desk: Desk) -> None:
    """A sparse file stands for a huge one: only the tail is looked at, and its first part of a line is left out."""
    path = desk.log("main", "errors.log", "")
    with path.open("r+b") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + f"{_time(9)} the end\n".encode())

    found = logs.last_lines(desk.home().places, "runner", 5)

    assert [line.text for line in found] == [f"{_time(9)} the end"]


def test_plain_output_without_a_terminal(desk: Desk) -> None:
    """A pipe gets no colours."""
    _some_logs(desk)
    ended = desk.call("logs")
    assert ended.code == 0
    assert "\x1b" not in ended.out


def test_no_lines_asked_for_is_no_lack_of_lines(desk: Desk) -> None:
    """Only a log that is empty is told of."""
    assert "no log lines yet" in desk.done("logs").err
    _some_logs(desk)
    assert desk.done("logs", "-n", "0") == (0, "", "")
