"""The scorer: the customer's five figures as he describes them, and bad input, of which the rest is scored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import read_run
import run_files
from scorer import score, scored

from tests.discovery.runs_made import TABLE, RunMade
from tests.shared.rows import each_row

SCORER = Path(__file__).parents[2] / "discovery/scoring/scorer.py"
KEYS = ["coverage_files", "efficiency_success_rate", "latency_median_s", "tools_count", "tools", "steps"]


def score_by_command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCORER, *words], capture_output=True, text=True, timeout=60)


def customers_figures(tmp_path: Path, made: RunMade) -> dict[str, Any]:
    report = score(made.write(tmp_path), tools=False)
    return {key: report[key] for key in KEYS}


def test_the_customers_figures_are_those_of_his_heuristics(tmp_path: Path) -> None:
    """Paths are counted in stdout, tools in commands and outputs, the rate over commands, the median of latencies."""
    made = RunMade()
    made.step("find /world", "/world\n/world/README.md\n/world/data.csv\n/world/data.csv\n", latency_s=0.5)
    made.note()
    made.step("/home/agent/tools/parse_csv.sh /world/hidden.txt", "grep: /etc/passwd", 1, latency_s=0.1)
    made.step("ls", "/home/agent/tools/find_text.py: text\n", latency_s=0.2)
    made.step("cat x", stderr="/home/agent/tools/parse_csv.sh: no such file", latency_s=0.4)
    assert customers_figures(tmp_path, made) == {
        "coverage_files": 3,
        "efficiency_success_rate": 0.75,
        "latency_median_s": pytest.approx(0.3),
        "tools_count": 2,
        "tools": ["/home/agent/tools/parse_csv.sh", "/home/agent/tools/find_text.py"],
        "steps": 4,
    }


@each_row(
    "stdout, paths",
    [
        ("/world/a.txt:12: hit\n/world/b.txt:3:x", 2),
        ("/world/a.txt, (/world/a.txt) '/world/a.txt'.", 1),
        ("/world/puzzles:\nhidden.txt", 1),
        ("/worldwide/x /mnt/world/x /home/agents/x /home/agent", 0),
        ("/world/ /world /home/agent/", 0),
        ("/home/agent/MAP.md /home/agent/tools/", 1),
        ("/world/a\x00b", 1),
        ("", 0),
    ],
)
def test_a_path_is_what_lies_below_the_world_or_the_home(stdout: str, paths: int) -> None:
    """As a listing, a search or a sentence prints it."""
    from digest import digest
    from run_values import Command

    assert len(digest([Command(1, "x", stdout, "", 0, 0.1)]).paths) == paths


def test_an_echo_moves_the_customers_coverage_and_no_honest_figure(tmp_path: Path) -> None:
    """This is why there are honest figures."""
    made = RunMade()
    paths = "\n".join(f"/world/file{number}" for number in range(30))
    made.step(f"echo '{paths}'", paths)
    report = score(made.write(tmp_path), tools=False)
    honest = report["honest"]
    assert report["coverage_files"] == 30
    assert honest["files_read"]["count"] == honest["checkpoints"]["found"] == honest["success"]["count"] == 0


def test_the_customers_own_schema_is_scored(tmp_path: Path) -> None:
    """Without a version, or without meta.json at all, the five figures are there and each honest one says why not."""
    for number, meta in enumerate(({"container": "a", "mode": "manual", "prompt": "", "started_at": "x"}, None)):
        made = RunMade(meta=meta, witness=None, known=None, answers=None, home=None)
        made.events = [
            {"t": 1.5, "plan": "", "command": "ls", "stdout": "", "stderr": "", "exit_code": 0, "latency_s": 1}
        ]
        report = score(made.write(tmp_path / str(number)))
        assert [report["steps"], report["latency_median_s"]] == [1, 1]
        honest = report["honest"]
        figures = [name for name in honest if name != "why"]
        assert [honest[name] for name in figures] == [None] * 6
        assert set(honest["why"]) == set(figures)


def test_a_run_of_no_commands_has_figures_without_numbers(tmp_path: Path) -> None:
    """A ratio of nothing is null, not a perfect one."""
    report = score(RunMade().write(tmp_path))
    assert [report[key] for key in KEYS] == [0, None, None, 0, [], 0]
    assert report["honest"]["success"] is None


def test_a_cut_last_line_is_told_and_the_rest_is_scored(tmp_path: Path) -> None:
    """kill -9 leaves half a line."""
    made = RunMade()
    made.step("ls")
    made.step("pwd")
    run = made.write(tmp_path)
    events = run / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-30])
    ended = score_by_command(run)
    report = json.loads(ended.stdout)
    assert (ended.returncode, report["steps"]) == (0, 1)
    assert report["warnings"] == ["events.jsonl line 2 is cut: the run ended while it was written; the rest is scored"]
    assert "line 2 is cut" in ended.stderr


@each_row(
    "line, said",
    [
        (b"{broken", "is broken"),
        (b'{"command": "ls", "exit_code": 0, "latency_s": NaN}', "NaN"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b'{"command": "ls", "n": ' + b"9" * 5000 + b"}", "a number of 5000 digits"),
        (b'\xff{"command": "ls"}', "is broken"),
        (b'{"t": 1}', "neither a command nor a note"),
        (b"3", "neither a command nor a note"),
        (b'{"command": ["ls"]}', "neither a command nor a note"),
    ],
)
def test_a_line_that_is_no_event_is_told_by_its_number(line: bytes, said: str) -> None:
    """The lines around it are scored."""
    import tempfile

    made = RunMade()
    made.step("ls")
    with tempfile.TemporaryDirectory() as place:
        run = made.write(Path(place))
        events = (run / "events.jsonl").read_bytes()
        (run / "events.jsonl").write_bytes(events + line + b"\n" + events)
        report = score(run, tools=False)
    assert report["steps"] == 2
    [told] = report["warnings"]
    assert told.startswith("events.jsonl line 2 ")
    assert said in told


def test_numbers_beyond_all_numbers_are_unknown(tmp_path: Path) -> None:
    """1e999 is infinite in many readers: here it is no latency, and a truth value is no exit code."""
    run = RunMade().write(tmp_path)
    (run / "events.jsonl").write_text(
        '{"command": "a", "exit_code": 0, "latency_s": 1e999}\n{"command": "b", "exit_code": false, "latency_s": 2}\n'
    )
    report = score(run, tools=False)
    assert [report["latency_median_s"], report["efficiency_success_rate"]] == [2.0, 0.5]
    assert len(report["warnings"]) == 2


@each_row("version", [2, 0, "1", 1.5, True, [1]])
def test_another_version_is_refused_with_what_to_do(version: Any) -> None:
    """And nothing of it is read by rules that are not its own."""
    import tempfile

    made = RunMade()
    assert made.meta is not None
    made.meta["version"] = version
    with (
        tempfile.TemporaryDirectory() as place,
        pytest.raises(read_run.Refused, match=r"version .* this scorer reads version 1\. Score it with"),
    ):
        score(made.write(Path(place)))


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """By the command: status 1, and a line that says what to name."""
    for place in (tmp_path / "none", tmp_path, SCORER):
        ended = score_by_command(place)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"scorer.py: {place}")
        assert "below runs/" in ended.stderr


def test_a_broken_part_is_told_and_the_rest_is_scored(tmp_path: Path) -> None:
    """A figure is null whose file cannot be read."""
    made = RunMade()
    made.step("ls /world", "README.md\n", listed=["/world"])
    run = made.write(tmp_path)
    (run / "known.json").write_text('{"version": 9}')
    (run / "answers.json").write_text("[")
    (run / "home.tar").write_bytes(b"no tar" * 1000)
    report = score(run)
    honest = report["honest"]
    assert honest["success"]["count"] == 1
    assert [honest[name] for name in ("files_read", "questions", "checkpoints", "artifacts")] == [None] * 4
    assert "version 9; expected 1" in honest["why"]["files_read"]
    assert "home.tar is no tar archive" in honest["why"]["tools.written"]
    assert len(report["warnings"]) == 3


def test_links_pipes_and_devices_in_a_run_directory_are_not_opened(tmp_path: Path) -> None:
    """A run directory may come from a stranger."""
    made = RunMade()
    made.step("ls")
    run = made.write(tmp_path)
    for name in ("witness.jsonl", "known.json", "home.tar"):
        (run / name).unlink()
    (run / "witness.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(run / "known.json")
    (run / "home.tar").symlink_to("/dev/zero")
    report = score(run)
    assert report["steps"] == 1
    assert "it is a link" in report["honest"]["why"]["success"]
    assert "known.json is no regular file" in report["honest"]["why"]["checkpoints"]


def test_a_witness_that_lost_a_line_says_so(tmp_path: Path) -> None:
    """Of a cut witness the rest counts, and the report warns that figures may be too low."""
    made = RunMade()
    made.step("cat x", read=[TABLE])
    made.step("cat y", overflow=True)
    run = made.write(tmp_path)
    with open(run / "witness.jsonl", "a") as file:
        file.write('{"step": 3, "re')
    report = score(run, tools=False)
    assert report["honest"]["files_read"]["count"] == 1
    assert [text.split(":")[0] for text in report["warnings"]] == [
        "the witness lost events in step 2",
        "witness.jsonl line 4 cannot be read (Unterminated string starting at",
    ]


def test_a_line_too_long_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its bytes are never all in memory, and the lines after it are scored."""
    made = RunMade()
    made.step("ls")
    run = made.write(tmp_path)
    with open(run / "events.jsonl", "r+b") as file:
        first = file.read()
        file.seek(run_files.LINE_BYTES + 10, os.SEEK_CUR)  # a hole: no disk is used
        file.write(b"\n" + first)
    report = score(run, tools=False)
    assert report["steps"] == 2
    assert "line 2 has more than" in report["warnings"][0]


def test_explained_evidence_cannot_steer_a_terminal(tmp_path: Path) -> None:
    """The report is ASCII; in the evidence, whatever would steer, hide or reorder is spelled out."""
    made = RunMade()
    evil = "\x1b[2J\x1b]0;owned\x07\u202egpj\u200b\x9b\r"
    made.step("ls /world", f"{evil}\n/world/{evil}\n")
    made.answer(q1=evil)
    assert made.home is not None
    made.home["LOG.md"] = f"`rm {evil}`\n/world/{evil}\n"
    ended = score_by_command(made.write(tmp_path), "--explain")
    assert ended.stdout.isascii()
    assert json.loads(ended.stdout)["steps"] == 1
    assert all(char == "\n" or char.isprintable() for char in ended.stderr)
    assert "\\x1b[2J" in ended.stderr
    assert "\\u202egpj" in ended.stderr


def test_evidence_names_the_step(tmp_path: Path) -> None:
    """Line by line, under the figure that it is for."""
    made = RunMade()
    made.step(f"cat {TABLE}", "id,value\n", read=[TABLE])
    result = scored(made.write(tmp_path), tools=False)
    assert result.evidence["files_read"] == (f"{TABLE}: read in step 1",)
    assert result.evidence["success"] == (f"step 1: read {TABLE} for the first time",)


@pytest.mark.heavy
def test_time_grows_with_the_length_alone(tmp_path: Path) -> None:
    """Outputs and commands that are made to be slow to search cost no more than others of their size."""
    nasty = [
        "a" * 200_000,
        "/world/" * 30_000,
        "/home/agent/tools/" * 11_000,
        '"' * 200_000,
        "$(" * 60_000,
        "(" * 60_000,
    ]
    nasty += ["\n".join(str(number) for number in range(40_000)), "echo '" + "x;" * 30_000, '"$(' * 20_000]
    made = RunMade()
    assert made.home is not None
    for text in nasty:
        made.step(text[:65_000], text, opened={"x": "x"})
        made.step(text, text)
    made.home |= {name: "\n".join(nasty) for name in ("MAP.md", "LOG.md", "TOOLS.md", "PLAN.md")}
    run = made.write(tmp_path)
    began = time.process_time()
    score(run, tools=False)
    assert time.process_time() - began < 10
