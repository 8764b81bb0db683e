"""The watcher's lines in the boot logs: every attempt has its time and its outcome."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infra.keep import boot_files
from infra.keep.supervision.attempts import UNKNOWN_BOOT, lines
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Died, Event, LaunchFailed, LaunchReady, Preparing, Started, TimeIsUp
from infra.keep.supervision.decide.state import Phase, State
from infra.shared.boot_log import BOOTSTRAPPING, ENDED, FAILED, SUCCESS, BootLine, format_line, parse_line
from infra.shared.paths import BOOT_LOG
from infra.shared.safe_files import Below
from tests.keep.supervision.test_decide import PATIENCE, a_request, a_runner, a_state, at

RUNNER = a_runner()
STARTING = State(Phase.STARTING, at(0), PATIENCE)


def told(before: State, event: Event) -> list[BootLine]:
    after, _ = decide(before, event, at(5))
    return lines(before, event, after, at(5))


def booting() -> State:
    return decide(STARTING, LaunchReady(RUNNER, "start"), at(1))[0]


def test_a_boot_that_ends_before_success_failed() -> None:
    """Also one that did not come to its first line; and nothing is said of one that has only begun."""
    attempted = booting()
    assert lines(STARTING, LaunchReady(RUNNER, "start"), attempted, at(1)) == []
    begun = replace(attempted, attempt=None, runner=RUNNER, phase=Phase.BOOTING)
    (line,) = told(begun, Died(RUNNER.boot_id, "exit status 1"))
    assert (line.word, line.branch, line.commit, line.boot_id) == (FAILED, "main", RUNNER.commit, RUNNER.boot_id)
    assert line.time == "2023-11-14T22:13:25.000Z"
    assert line.details["by"] == "watcher"
    assert "exit status 1" in line.details["reason"]


def test_a_later_end_is_told_with_its_cause() -> None:
    """A death, an exit after a signal, and one that no watcher saw."""
    (line,) = told(a_state(), Died(RUNNER.boot_id, "SIGSEGV", served=True))
    assert (line.word, line.details["outcome"]) == (ENDED, "died")
    assert "SIGSEGV" in line.details["reason"]
    (line,) = told(a_state(request=a_request()), Died(RUNNER.boot_id, "exit status 0", served=True))
    assert (line.word, line.details["outcome"]) == (ENDED, "left")
    gone = replace(a_state(runner=None), phase=Phase.STARTING)
    (line,) = told(gone, Started())
    assert (line.word, line.details["outcome"]) == (ENDED, "died")


def test_a_refused_launch_is_told_with_its_commit() -> None:
    """By its rehearsal, by the time that it took, and when there was no process; an answer to nothing is no attempt."""
    branch = a_runner(branch="worse", commit="d" * 40, boot_id="e" * 32)
    preparing, _ = decide(STARTING, Preparing("worse", 3.0), at(1))
    (line,) = told(preparing, LaunchFailed("worse", "it failed its rehearsal: no report", branch, "", branch.commit))
    assert (line.word, line.branch, line.commit, line.boot_id) == (FAILED, "worse", "d" * 40, "e" * 32)
    assert "failed its rehearsal: no report" in line.details["reason"]
    (line,) = told(preparing, LaunchFailed("worse", "an outage", commit="d" * 40))
    assert (line.commit, line.boot_id) == ("d" * 40, UNKNOWN_BOOT)
    (line,) = told(preparing, TimeIsUp())
    assert (line.word, line.branch) == (FAILED, "worse")
    (line,) = told(booting(), LaunchFailed("main", "no such file"))
    assert (line.commit, line.boot_id) == (RUNNER.commit, RUNNER.boot_id)
    assert told(a_state(), LaunchFailed("main", "late")) == []


@given(st.text())
def test_no_words_make_another_line(words: str) -> None:
    """What a runner says before it dies is one value of one line, and never a SUCCESS."""
    text = f"{words}\n2026-01-31T10:42:12.345Z SUCCESS main {'c' * 40} {'a' * 32}\n{words}"
    (line,) = told(a_state(), Died(RUNNER.boot_id, text, served=True))
    written = format_line(line)
    assert written.count("\n") == 1
    read = parse_line(written)
    assert read
    assert read.word == ENDED


def test_the_watchers_lines_are_no_evidence(tmp_path: Path) -> None:
    """They end a line that the cell left torn without completing it, and count as nothing that the runner said."""
    bot = Below(str(tmp_path))
    log = tmp_path / "main/minifram" / BOOT_LOG
    log.parent.mkdir(parents=True)
    mine = BootLine("2026-01-31T10:42:12.345Z", BOOTSTRAPPING, "main", "c" * 40, "a" * 32)
    log.write_text(format_line(mine) + format_line(mine._replace(word=SUCCESS)).rstrip("\n"))
    ended = mine._replace(word=FAILED, details={"by": "watcher", "reason": "x"})
    boot_files.add_to_boot_log(bot, "main/minifram", ended)
    assert log.read_text().endswith(f" (torn)\n{format_line(ended)}")
    assert set(boot_files.boot_words(bot, "main/minifram", "a" * 32, "main", "c" * 40)) == {BOOTSTRAPPING}


def test_a_boot_log_is_set_aside_whole(tmp_path: Path) -> None:
    """It is the record of all attempts: no limit empties it, while other logs keep their end."""
    logs = tmp_path / "main/minifram/logs"
    logs.mkdir(parents=True)
    (logs / "bootstrap.log").write_bytes(b"b" * 2_000_000)
    (logs / "errors.log").write_bytes(b"e" * 2_000_000)
    descriptor, size = boot_files.open_error_log(Below(str(tmp_path)), "main/minifram", 1000)
    os.close(descriptor)
    assert size == 0
    (aside,) = logs.glob("bootstrap.log.aside-*")
    assert aside.stat().st_size == 2_000_000
    assert (logs / "errors.log.1").stat().st_size == 1 << 20
