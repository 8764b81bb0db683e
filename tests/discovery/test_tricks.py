"""Tricks by which an explorer would have moved a figure, or kept its run from being scored."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_words import invocations, tool_runs
from digest import digest
from honest_tools import tools_of
from read_run import Warnings, commands, known_of, read_run
from scorer import score
from tool_trials import ROUNDS, copies
from world_texts import read_world

from tests.discovery.runs_made import CLUE, NOTE, QUESTIONS, TABLE, RunMade, world_directory
from tests.discovery.runs_made import known_of as known_json
from tests.shared.rows import each_row

TOOL = "/home/agent/tools/x.sh"


def honest(place: Path, made: RunMade) -> dict[str, Any]:
    value: dict[str, Any] = score(made.write(place), tools=False)["honest"]
    return value


@pytest.mark.timeout(20)
@each_row(
    "line",
    [
        "find . -exec find tools/x.sh ';'",
        f"find . -exec env find {TOOL} +",
        "find -execdir find -ok find",
        "env " * 5000 + "find -exec find",
    ],
)
def test_a_line_of_wrappers_is_read_to_its_end(line: str) -> None:
    """In TOOLS.md it kept the scorer busy for ever."""
    assert invocations(line) == ()


@each_row(
    "line", [f"for done || {TOOL}", "for done ; -S x || )", "for fi ) && < x", "for fi in a; do x", "for in ; for"]
)
def test_a_loop_that_bash_refuses_is_read_to_its_end(line: str) -> None:
    """In TOOLS.md it ended the scorer."""
    assert invocations(line) == ()


@each_row(
    "line",
    [
        f"command -v {TOOL} && cat {TOOL}",
        f"env -Scat {TOOL}",
        f"env --split-string=cat {TOOL}",
        f"env '-SA=1 cat' {TOOL}",
        f"env --help {TOOL}; cat {TOOL}",
        f"env -u X -Scat {TOOL}",
        f"env 'PA'TH=/home/agent sh {TOOL}",
        f"nohup --version {TOOL}; cat {TOOL}",
        f"nice --help {TOOL}; cat {TOOL}",
        f"stdbuf --help {TOOL}; cat {TOOL}",
        f"timeout --help 1 {TOOL}; cat {TOOL}",
        f"xargs -a {TOOL} {TOOL} < /dev/null",
        f"xargs --help {TOOL}; cat {TOOL}",
    ],
)
def test_an_option_of_a_wrapper_proves_no_run(line: str) -> None:
    """With it the wrapper runs something else, or nothing."""
    assert tool_runs(line, 0) == ()


@each_row(
    "line",
    [
        f"env A=1 B= {TOOL}",
        f"env -i -u HOME A=1 {TOOL}",
        f"nice -n 5 {TOOL}",
        f"nice -n5 bash {TOOL}",
        f"nohup {TOOL}",
        f"command {TOOL}",
        f"stdbuf -oL -e 0 {TOOL}",
        f"timeout -k 1 -s KILL 5 python3 -u {TOOL}",
        f"timeout 5 nice -19 env A=1 {TOOL}",
        f"xargs -0 -n 1 -I{{}} {TOOL} < /world/a",
    ],
)
def test_a_wrapper_with_its_usual_options_runs_the_tool(line: str) -> None:
    assert [run.path for run in tool_runs(line, 0)] == [TOOL]


def test_lost_events_prove_no_reading(tmp_path: Path) -> None:
    """An explorer can have events lost by making too many files; who has the answers from elsewhere gained by it."""
    made = RunMade()
    made.step("touch $(seq 10001)", changed=["/home/agent/1"], overflow=True)
    made.answers = {
        "asked": [name for name, *_ in QUESTIONS],
        "answers": {name: each for name, _, _, each, _ in QUESTIONS},
    }
    assert honest(tmp_path, made)["questions"] == {"asked": 3, "answered": 3, "right": 0, "share": 0.0}


def test_the_place_of_a_copy_does_not_tell_what_it_is(tmp_path: Path) -> None:
    """A container sees it in /proc/self/mountinfo, and the order in which copies were made in the inodes' numbers."""
    orders = set()
    for number in range(12):
        place = tmp_path / str(number)
        place.mkdir()
        pairs = copies({TABLE: b"original"}, {TABLE: b"twin"}, place)
        made = sorted((path.stat().st_ctime_ns, is_twin) for pair in pairs for is_twin, path in enumerate(pair))
        assert [(one / "tables").is_dir() and (other / "tables").is_dir() for one, other in pairs] == [True] * ROUNDS
        assert all(re.fullmatch("world-[0-9a-f]{16}", path.name) for pair in pairs for path in pair)
        orders.add(tuple(is_twin for _, is_twin in made))
    assert len(orders) > 1


@each_row(
    "line",
    [
        f"cat {TOOL}; true || {TOOL}",
        f"cat {TOOL}; false && {TOOL} &",
        f"true || {TOOL}; true || /home/agent/tools/y.sh",
    ],
)
def test_a_tool_that_need_not_have_been_started_was_not_run(line: str) -> None:
    """Something else in the line may have opened its file."""
    assert tool_runs(line, 0) == ()


def test_what_a_log_quotes_in_a_block_is_held_against_the_commands(tmp_path: Path) -> None:
    made = RunMade()
    made.step("ls /world", "notes\n")
    made.home = {"LOG.md": "```\n$ ls /world\n$ cat /world/all\n```\n"}
    assert honest(tmp_path, made)["artifacts"]["LOG.md"] == {"claims": 2, "true": 1, "share": 0.5}


def test_a_use_comes_after_the_reading(tmp_path: Path) -> None:
    """Not in the step that reads; nor by a right answer about a file that was not read, or that nobody asked for."""
    made = RunMade()
    made.step(f"grep feed00000b {NOTE}", "Marked feed00000b.\n", read=[NOTE])
    made.answers = {"asked": ["q2"], "answers": {"q1": "3003", "q2": "nolo bati kuli feed00000c"}}
    made.step(f"head -1 {TABLE}", "id,value,tag\n", read=[TABLE])
    checkpoints = honest(tmp_path, made)["checkpoints"]
    assert checkpoints == {"of": 3, "found": 0, "touched": 2, "used": 0}


def test_a_right_answer_uses_no_file_when_one_of_its_files_was_not_read(tmp_path: Path) -> None:
    """It was not found out from them."""
    made = RunMade()
    made.step(f"head -1 {TABLE}", "id,value,tag\n", read=[TABLE])
    made.answers = {"asked": ["q3"], "answers": {"q3": "abe, kuli"}}
    assert honest(tmp_path, made)["checkpoints"]["used"] == 0
    made.step(f"head -1 {NOTE}", "# kuli\n", read=[NOTE])
    assert honest(tmp_path / "more", made)["checkpoints"]["used"] == 2


def test_what_is_listed_after_the_last_step_finds_nothing_before(tmp_path: Path) -> None:
    made = RunMade()
    made.step("cat notes.txt", f"{NOTE}\n{CLUE}\n")
    assert made.witness is not None
    made.witness.append({"step": None, "read": [], "listed": ["/world/notes", "/world/.deep"], "tools": {}})
    assert honest(tmp_path, made)["checkpoints"]["found"] == 0


def test_a_command_that_failed_is_no_success(tmp_path: Path) -> None:
    """Whatever it read, changed or said."""
    made = RunMade()
    made.step("ls /none", "nothing here\n", exit_code=2)
    made.step(f"cat {TABLE} /none", "id\n", exit_code=1, read=[TABLE])
    made.step("cp a b /none > log", "", exit_code=1, changed=["/home/agent/log"])
    assert honest(tmp_path, made)["success"] == {"count": 0, "of": 3, "rate": 0.0}


def test_only_the_last_contents_of_a_tool_are_tried(tmp_path: Path) -> None:
    """By the lines that ran them, not by those that ran what stood there before."""
    made = RunMade()
    made.tool("x.sh", "first\n", "tools/x.sh a")
    made.tool("x.sh", "second\n", "tools/x.sh b")
    directory = made.write(tmp_path)
    run = read_run(directory)
    assert run.witness is not None
    [tool] = tools_of(run.witness, run.home, digest(commands(directory, Warnings())))
    assert tool.invocations == ("tools/x.sh b",)
    assert (tool.run, tool.reused) == (2, False)


def test_the_output_of_a_very_long_command_is_no_evidence(tmp_path: Path) -> None:
    """It may name anything."""
    made = RunMade()
    made.step(f"cat {'x' * 70_000}", f"{NOTE}\nnew\n", listed=["/world/notes"])
    found = honest(tmp_path, made)
    assert (found["checkpoints"]["found"], found["success"]["count"]) == (0, 0)


def test_only_contents_with_the_known_hash_are_read(tmp_path: Path) -> None:
    """A run directory of a stranger names a directory of this machine: no other file, no link, no place outside."""
    known = known_of(known_json())
    assert known.files[TABLE].bytes > 0
    world = world_directory(tmp_path / "world")
    table = world / TABLE.removeprefix("/world/")
    text = table.read_bytes()
    assert read_world(world, known) is not None
    table.write_bytes(text.replace(b"red", b"RED"))
    assert read_world(world, known) is None
    (tmp_path / "elsewhere").write_bytes(text)
    table.unlink()
    table.symlink_to(tmp_path / "elsewhere")
    assert read_world(world, known) is None
    outside = replace(known.files[TABLE], path="/world/../elsewhere")
    assert read_world(world, replace(known, files={outside.path: outside})) is None


def test_an_event_is_held_against_what_was_seen_in_its_own_step(tmp_path: Path) -> None:
    """By the number that it tells, also where lines before it were lost."""
    made = RunMade()
    made.step("true")
    made.step(f"cat {TABLE} > /dev/null", read=[TABLE])
    del made.events[0]
    assert honest(tmp_path, made)["success"]["count"] == 1


def test_answers_of_which_nobody_saw_the_reading_say_so(tmp_path: Path) -> None:
    """Where the host does not see reads, a right answer is all there is."""
    made = RunMade()
    made.step("true")
    made.answers = {"asked": ["q1"], "answers": {"q1": "3003"}}
    assert "questions.read" not in honest(tmp_path, made)["why"]
    assert made.witness is not None
    made.witness[0] |= {"world": False, "why": {"world": "no inotify here"}}
    found = honest(tmp_path / "more", made)
    assert found["questions"]["right"] == 1
    assert found["why"]["questions.read"] == "right answers count without having read: no inotify here"


def test_a_run_of_no_version_has_no_honest_figures(tmp_path: Path) -> None:
    """Whatever files lie in it: nobody tells who wrote them."""
    made = RunMade()
    made.step(f"cat {TABLE} > /dev/null", read=[TABLE])
    assert made.meta is not None
    del made.meta["version"]
    found = honest(tmp_path, made)
    assert found["files_read"] is None
    assert "names no version" in found["why"]["files_read"]
