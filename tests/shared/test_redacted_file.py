"""What others wrote gets into a log or a record through the one writer alone, which leaves keys out."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.cell import logger
from infra.cell.life.start import failed
from infra.cell.loop.record import Acted, Answered, Entered, Line, RunRecord, Told
from infra.cell.mind.record import Recorder
from infra.cell.page import request_of
from infra.cell.run_states import RunState
from infra.cell.state import STATE_FILE, State
from infra.cell.status import WORKING, RunnerStatus, write_status
from infra.cell.tools.command import MOST_KEPT
from infra.cell.tools.spill import TORN_BYTES, Spill
from infra.cell.tools.tool import Position
from infra.shared.boot import Boot, Limits, parse_line
from infra.shared.conversation import ToolUse
from infra.shared.exit_codes import Exit
from infra.shared.log import redact
from infra.shared.paths import BOOT_LOG, CONTAINER
from infra.shared.redacted_file import MOST_HELD, RedactedFile, RedactedStream
from infra.shared.secret_shapes import redacted, redacted_value
from tests.cell.loop.replies import calls
from tests.cell.mind.one_mind import OneMind, places_in
from tests.shared.leaks import Place, counters_stay, examine
from tests.shared.rows import any_text
from tests.shared.test_secret_shapes import MAKERS, ROOT

TELLING = st.sampled_from(
    ["api_key", "API-KEY", "password", "db_password", "X-Auth-Token", "Authorization", "clientSecret", "pwd", "Cookie"]
)
QUIET: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(structlog.ReturnLogger())


class Cell:
    """The places of the cell."""

    def __init__(self, place: Path) -> None:
        self.path = place
        self.transcript = RunRecord(str(place / "run.jsonl"), "run")
        self.spill = Spill(str(place))
        self.state = State(str(place), QUIET)
        self.places: dict[str, Place] = {
            "transcript, told": lambda words, given: self.record(Told("1", words, words, words)),
            "transcript, answered": lambda words, given: self.record(
                Answered("1", calls(ToolUse("1", "bash", {"command": words, **given}), text=words))
            ),
            "transcript, acted": lambda words, given: self.record(
                Acted.of("1.1", ToolCall("1", "bash", {"command": words, **given}), ToolResult(words, facts=given), 0.1)
            ),
            "kept output": lambda words, given: (place / self.spill.keep(words.encode(), "")[0][0]).read_text(),
            "event of an act": self.event,
            "unsent report": self.unsent,
            "life.json": self.life,
            "now.md": self.note,
            "log line": lambda words, given: json.dumps(
                redact(None, "info", {"event": "e", "words": words, "error": OSError(words), "all": [{words: given}]})
            ),
            "printed": self.printed,
            "boot log": self.boot_log,
        }

    def record(self, line: Line) -> str:
        (self.path / "run.jsonl").unlink(missing_ok=True)
        self.transcript.append(line)
        text = (self.path / "run.jsonl").read_text()
        assert json.loads(text)["kind"] in ("told", "answered", "acted"), "what is written is still read"
        return text

    def event(self, words: str, given: Mapping[str, Any]) -> str:
        mind = OneMind.__new__(OneMind)
        places = places_in(str(self.path))
        mind.lies(places, time.time())
        recorder = Recorder(mind.cell(), Position("run"), words, ["0123abcd"])
        recorder.record(Entered("1", RunState.PLAN))
        note = ToolResult(words, facts={"note": {"subject": words, **given}})
        for call, result in (
            ("note", note),
            ("bash", ToolResult(words, facts={"exit": 0})),
            ("x", ToolResult.err("refused", words)),
        ):
            recorder.record(Acted.of("1.1", ToolCall("1", call, {"command": words, **given}), result, 0.1))
        recorder.record(Entered("2", RunState.PLAN))
        [file] = Path(places.events).iterdir()
        text = file.read_text()
        file.unlink()
        return text

    def unsent(self, words: str, given: Mapping[str, Any]) -> str:
        self.state.change(unsent=(request_of("main", "b" * 40, words, words),))
        return (self.path / STATE_FILE).read_text()

    def life(self, words: str, given: Mapping[str, Any]) -> str:
        write_status(str(self.path / "life.json"), RunnerStatus(WORKING, "t", about=words, last_error=words))
        return (self.path / "life.json").read_text()

    def note(self, words: str, given: Mapping[str, Any]) -> str:
        RedactedFile(str(self.path / "now.md")).replace(words)
        return (self.path / "now.md").read_text()

    def printed(self, words: str, given: Mapping[str, Any]) -> str:
        """Line by line, as programs do."""
        written = bytearray()
        stream = RedactedStream(written.extend, 2)
        for line in words.splitlines(keepends=True):
            stream.write(line)
        stream.end()
        return written.decode()

    def boot_log(self, words: str, given: Mapping[str, Any]) -> str:
        path = self.path / BOOT_LOG
        path.unlink(missing_ok=True)
        with contextlib.redirect_stderr(io.StringIO()):
            failed(("main", "b" * 40, "a" * 32), words, Exit.FAILURE, str(self.path))
        line = parse_line(path.read_text())
        assert line is not None
        return line.details["reason"]


@pytest.mark.attack("S15", "S52")
@pytest.mark.heavy
def test_no_place_of_the_cell_shows_a_secret(tmp_path: Path) -> None:
    examine(Cell(tmp_path).places, 1)


def test_counters_of_tokens_are_shown_in_each_place(tmp_path: Path) -> None:
    counters_stay(Cell(tmp_path).places)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_place_of_the_cell_shows_a_secret_in_any_position(tmp_path: Path, seed: int) -> None:
    examine(Cell(tmp_path).places, seed, most=100)


def test_the_runners_log_is_redacted(capfd: pytest.CaptureFixture[str]) -> None:
    """The chain that the runner uses ends with the redacting one; so does the keep's, which is the same."""
    key = MAKERS["GitHub"](random.Random(1))
    limits = Limits(1.0, 1, 1.0)
    log = logger(Boot("b" * 32, "main", "c" * 40, "start", "x", "merge", CONTAINER, limits))
    try:
        raise ValueError(key)
    except ValueError:
        log.exception("unit.finished", words=f"done with {key}", password="hunter2", input_tokens=12)
    written = capfd.readouterr().err
    assert key not in written
    assert "hunter2" not in written
    line = json.loads(written)
    assert (line["words"], line["input_tokens"]) == ("done with [secret]", 12)


@given(st.lists(st.sampled_from(["one ", "two\n", "\n", "KEY", "KEY\n"]), max_size=12))
def test_a_stream_is_redacted_by_lines(pieces: list[str]) -> None:
    """However what is printed is cut into pieces, a key in a line is not seen, and nothing else is lost."""
    key = "sk-ant-api03-" + "aB3xZ9qW7kL2mN8pR4tY6vD1fG5hJ0sC" * 2
    written = bytearray()
    stream = RedactedStream(written.extend, 2)
    for piece in pieces:
        text = piece.replace("KEY", key)
        stream.write(text[: len(text) // 2])
        stream.write(text[len(text) // 2 :])
    stream.end()
    assert written.decode() == redacted("".join(pieces).replace("KEY", key))
    assert key not in written.decode()


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_lines_of_a_private_key_are_not_shown(step: int) -> None:
    """However they come, also of one that never ends; a line that only speaks of keys hides none after it."""
    key = MAKERS["RSA"](random.Random(1))
    begun = key.partition("\n-----END")[0]
    text = f"first\nKEY='{key}'\n{begun}\n{{it broke}}\n'-----BEGIN RSA PRIVATE KEY-----'\nlast\n"
    written = bytearray()
    stream = RedactedStream(written.extend, 2)
    for at in range(0, len(text), step):
        assert stream.write(text[at : at + step]) == len(text[at : at + step])
    stream.end()
    shown = "first\nKEY='[secret]'\n[secret]\n{it broke}\n'-----BEGIN RSA PRIVATE KEY-----'\nlast\n"
    assert written.decode() == shown


def test_a_line_that_does_not_end_is_written_in_parts() -> None:
    """A key that lies across two of them can be seen: not held, as no program of ours prints such a line."""
    written = bytearray()
    stream = RedactedStream(written.extend, 2)
    stream.write("x" * (MOST_HELD + 1))
    assert len(written) == MOST_HELD + 1


@pytest.mark.heavy
def test_a_traceback_shows_no_key() -> None:
    """Of the main thread and of another, in a real process: its last words stand in logs/errors.log."""
    key = "ghp_" + "aB3xZ9qW7kL2mN8pR4tY6vD1fG5hJ0sC1u2E"
    script = """import sys, threading
from infra.shared.redacted_file import guard_stderr
guard_stderr()
print("printed", sys.argv[1], file=sys.stderr)
thread = threading.Thread(target=lambda: [][sys.argv[1]])
thread.start(); thread.join()
print("no end: " + sys.argv[1], end="", file=sys.stderr)
raise ValueError(sys.argv[1])"""
    ended = subprocess.run([sys.executable, "-c", script, key], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("[secret]")) == (1, 3)
    assert key not in ended.stderr
    assert "ValueError: [secret]" in ended.stderr
    assert "TypeError" in ended.stderr
    assert "no end: [secret]" in ended.stderr


@given(TELLING, any_text(max_size=20).filter(lambda text: text and not text.isdecimal()))
def test_what_stands_under_the_name_of_a_secret_is_hidden(name: str, value: str) -> None:
    """Whatever it looks like, at any depth; what counts is shown."""
    counted = {"input_tokens": 12, "max_tokens": "4096", "token": 3, "tokens_before": 1, "name": "x"}
    made = redacted_value({"args": [{name: value, "all": {name: [value, None]}}], **counted})
    assert made == {"args": [{name: "[secret]", "all": {name: ["[secret]", None]}}], **counted}


def test_an_output_that_was_cut_shows_no_part_of_a_key(tmp_path: Path) -> None:
    """Its last bytes may be the first of one."""
    key = b"sk-ant-api03-" + b"aB3xZ9qW7kL2mN8pR4tY6vD1fG5hJ0sC" * 2

    def kept(output: bytes) -> bytes:
        return (tmp_path / Spill(str(tmp_path)).keep(output, "")[0][0]).read_bytes()

    cut = kept(b"." * (MOST_KEPT - 20) + key)
    assert (b"sk-ant" in cut, len(cut)) == (False, MOST_KEPT - TORN_BYTES)
    assert kept(b"." * 100) == b"." * 100
    assert kept(kept(b"a " + key)) == b"a [secret]"


WRITER = "infra/shared/redacted_file.py"
ALLOWED = {
    "infra/cell/bridge.py": "no file: lines to the program that asked, each redacted",
    "infra/shared/safe_files.py": "the step below the writer",
    "infra/cell/life/boot_log.py": "a boot's lines, of words that it chose itself; a reason is redacted",
    "infra/shared/heart.py": "no file: a socket to the watcher, and what is done in the words of the program",
    "infra/shared/signals.py": "the name of a branch or commit",
    "infra/shared/web.py": "pixels of the live picture, which no pattern of a key finds",
    "infra/cell/cell.py": "one constant line",
    "infra/cell/tools/files.py": "what the model writes, byte for byte",
    "infra/cell/services/services.py": "a number, to the kernel; what a redacting stream gives it",
    "infra/shared/repository/": "git objects, and what git reads",
}
WRITES = re.compile(
    r"""(?<!def\ )\b(?:write_whole|os\.(?:p?write|truncate)|tempfile\.mkstemp)\(|\.write_(?:text|bytes)\(
    |\bO_(?:WRONLY|RDWR|APPEND|CREAT)\b|\b(?:fd)?open\((?:[^()]|\([^()]*\))*,\ *(?:mode=)?["'][rbt]*[wax+]""",
    re.VERBOSE,
)


def test_only_the_writer_opens_files_to_write() -> None:
    """In the runner and what it shares with the keep; each exception has its reason, none outlives its file."""
    paths = [ROOT / "infra/runner.py", *(ROOT / "infra/cell").rglob("*.py"), *(ROOT / "infra/shared").rglob("*.py")]
    writing = {str(path.relative_to(ROOT)) for path in paths if WRITES.search(path.read_text())}
    assert WRITER in writing
    assert {name for name in writing - {WRITER} if not name.startswith(tuple(ALLOWED))} == set()
    assert [name for name in ALLOWED if not any(path.startswith(name) for path in writing)] == []


def test_every_chain_of_a_log_ends_with_the_redacting_one() -> None:
    """Nobody renders a line in another way."""
    rendering = [path for path in (ROOT / "infra").rglob("*.py") if "JSONRenderer(" in path.read_text()]
    assert [str(path.relative_to(ROOT)) for path in rendering] == ["infra/shared/log.py"]
    programs = [path for path in (ROOT / "infra").glob("*.py") if "__main__" in path.read_text()]
    serving = {"watcher.py", "git_door.py", "model_door.py", "web_door.py", "runner.py"}
    assert {path.name for path in programs if "guard_stderr()" in path.read_text()} == serving
