"""The document's figures, what came back of a world that nobody can guess, and runs side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scorer import paths, plain, score
from world import LEAST, World, write

from tests.discovery.fake import ROOT
from tests.shared.rows import each_row

SCORING = ROOT / "discovery/scoring"
WORLD = World("test", 24)
TREE = {path: text for path, text in WORLD.files.items() if path != "/world/README.md"}


def event(
    command: str, stdout: str = "", stderr: str = "", exit_code: int = 0, latency_s: float = 0.1
) -> dict[str, Any]:
    said = {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, "latency_s": latency_s}
    return {"t": 1.0, "plan": "", "command": command, **said}


def a_run(place: Path, *events: dict[str, Any], known: bool = False, answers: object = None, model: str = "m") -> Path:
    """The directory of a run with these events."""
    place.mkdir(parents=True)
    (place / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    (place / "meta.json").write_text(json.dumps({"mode": "minifram", "model": model}))
    if known:
        facts = {"seed": "test", "files": WORLD.known, "questions": WORLD.questions}
        (place / "known.json").write_text(json.dumps(facts))
    if answers is not None:
        (place / "answers.json").write_text(json.dumps(answers))
    return place


@pytest.mark.fault("D9")
def test_the_documents_figures(tmp_path: Path) -> None:
    """From the log alone; a note and a line that was cut are no steps."""
    tool = "/home/agent/tools/parse.sh"
    run = a_run(
        tmp_path / "run",
        event("ls /world", "/world/data.csv\n/world/README.md\n"),
        {"t": 2.0, "post": "<Observation>\n/world/a /world/b"},
        event(f"chmod +x {tool}", latency_s=0.3),
        event(f"{tool} /world/data.csv", "/world/data.csv: ok", exit_code=1, latency_s=0.2),
        event("x", stderr="/home/agent/tools/other.py: not found\n", latency_s=0.4),
    )
    with open(run / "events.jsonl", "a") as file:
        file.write('{"t": 3, "command": "ls')
    assert score(run) == {
        "coverage_files": 2,
        "efficiency_success_rate": 0.75,
        "latency_median_s": 0.25,
        "tools_count": 2,
        "tools": [tool, "/home/agent/tools/other.py"],
        "steps": 4,
        "tools_reused": 1,
        "usd": None,
        "known": None,
    }


def test_a_run_without_steps_has_no_rates(tmp_path: Path) -> None:
    report = score(a_run(tmp_path / "run"))
    assert (report["steps"], report["coverage_files"], report["tools_count"]) == (0, 0, 0)
    assert report["efficiency_success_rate"] is report["latency_median_s"] is None


@each_row(
    "text, found",
    [
        ("/world/a.txt:3:x", ["/world/a.txt"]),
        ("'/world/a', (/world/b) `/world/c`.", ["/world/a", "/world/b", "/world/c"]),
        ("/home/agent/x. /world/puzzles:", ["/home/agent/x", "/world/puzzles"]),
        ("/tmp/world/a ../world/b ~/world/c /worlds/d /world", []),
    ],
)
def test_a_path_is_read_out_of_a_text(text: str, found: list[str]) -> None:
    assert paths(text) == found


@each_row("said, answer", [("1,234", "1234"), (' "Red, Blue". ', "red,blue"), ("a  b\n", "A b"), ("42.", "42")])
def test_an_answer_is_compared_without_its_looks(said: str, answer: str) -> None:
    assert plain(said) == plain(answer)
    assert plain(said) != plain(answer + "x")


ECHO = [event("echo " + " ".join(TREE), " ".join(TREE)), event("cat /tmp/list", " ".join(TREE))]
LIST = event("find /world -type f", "\n".join(TREE))
WALK = [LIST, *(event(f"cat {path}", text) for path, text in list(TREE.items())[:5])]
CAREFUL = [LIST, *(event(f"cat {path}", text) for path, text in TREE.items())]
RIGHT = {question["id"]: question["answer"].upper() for question in WORLD.questions}
AGENTS: dict[str, tuple[list[dict[str, Any]], dict[str, str], tuple[int, int, int]]] = {
    "nothing": ([], {}, (0, 0, 0)),
    "echo": (ECHO, {"q001": "1"}, (0, 0, 0)),
    "cat all": ([event("cat $(find /world -type f)", "".join(TREE.values()))], {}, (-1, len(TREE), 0)),
    "cat to nothing": ([event("cat /world/* > /dev/null")], {}, (0, 0, 0)),
    "walker": (WALK, {}, (len(TREE), 5, 0)),
    "careful": (CAREFUL, RIGHT, (len(TREE), len(TREE), len(WORLD.questions))),
}


@pytest.mark.parametrize("name", AGENTS)
def test_control_agents_score_as_is_known_beforehand(tmp_path: Path, name: str) -> None:
    """An echo of all paths gets full coverage and no mark: none came back that it had not said itself."""
    events, answers, (found, read, right) = AGENTS[name]
    report = score(a_run(tmp_path / "run", *events, known=True, answers=answers))
    known = report["known"]
    assert (known["files"], known["asked"]) == (len(TREE), len(WORLD.questions))
    assert (known["read"], len(known["right"])) == (read, right)
    assert known["found"] == found or (found < 0 < known["found"] < len(TREE)), "some names stand in other files"
    if name == "echo":
        assert report["coverage_files"] == len(TREE)
    if name == "walker":
        assert [*known["first"].values()].count([1, None]) == len(TREE) - 5


@pytest.mark.fault("D10")
def test_the_scorer_reads_a_log_and_runs_nothing(tmp_path: Path) -> None:
    """Not even with programs on PATH that say when they are run."""
    for engine in ("docker", "podman"):
        (tmp_path / engine).write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
        (tmp_path / engine).chmod(0o755)
    run = a_run(tmp_path / "run", *CAREFUL, known=True)
    words = [sys.executable, str(SCORING / "scorer.py"), str(run), "--explain"]
    ended = subprocess.run(words, capture_output=True, text=True, env={"PATH": str(tmp_path)}, check=True)
    assert json.loads(ended.stdout)["known"]["read"] == len(TREE)
    assert f"{WORLD.known[0]['path']}: found in step 1, read in step 2" in ended.stderr
    assert not (tmp_path / "was-run").exists()
    ended = subprocess.run([*words[:2], str(tmp_path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, "cannot be scored" in ended.stderr) == (1, True)


def test_runs_are_compared_by_model_within_a_world(tmp_path: Path) -> None:
    """A world of one's own is not taken for another one."""
    runs = [
        a_run(tmp_path / "1", *WALK, known=True, model="a"),
        a_run(tmp_path / "2", *CAREFUL, known=True, model="a", answers=RIGHT),
        a_run(tmp_path / "3", known=True, model="b\x1b[31m"),
        a_run(tmp_path / "4", *WALK, model="a"),
        tmp_path / "none",
    ]
    words = [sys.executable, str(SCORING / "compare.py"), *map(str, runs)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    made, other = ended.stdout.strip().split("\n\n")
    rows = {line.split()[0]: line.split()[1:] for line in made.splitlines()}
    assert made.startswith("world ")
    assert other.startswith("a world without known.json\n")
    assert rows["a"] == ["(2)", "b\\x1b[31m", "(1)"]
    assert rows["found"] == ["1", "[1,", "1]", "0"]
    assert rows["right"][-1] == "0"
    assert rows["latency_median_s"] == ["0.1", "[0.1,", "0.1]", "-"]
    assert f"{tmp_path}/none is left out" in ended.stderr


@pytest.mark.parametrize("count", [LEAST, 15, 24, 61, 200])
def test_a_world_has_its_files_and_marks_that_stand_once(count: int) -> None:
    world = World("a word", count)
    assert len(world.files) == count
    assert [*World("a word", count).files.values()] == [*world.files.values()]
    assert {*World("another", count).files} & {*world.files} == {"/world/README.md"}
    assert {file["path"] for file in world.known} == {*world.files} - {"/world/README.md"}
    marks = [file[kind] for file in world.known for kind in ("name_mark", "mark")]
    assert len({*marks}) == len(marks)
    for file in world.known:
        assert [path for path, text in world.files.items() if file["mark"] in text] == [file["path"]]
        assert file["name_mark"] in file["path"]
    assert len(world.questions) >= 4


def test_a_world_is_written_once_with_its_list_outside(tmp_path: Path) -> None:
    write("a word", LEAST, tmp_path / "w")
    assert (tmp_path / "w/world/README.md").is_file()
    assert [path.name for path in (tmp_path / "w").iterdir() if path.is_file()] == ["known.json"]
    words = [sys.executable, str(SCORING / "world.py"), "--out", str(tmp_path / "w")]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 1
    drawn = [subprocess.run([*words[:3], str(tmp_path / name)], check=False).returncode for name in "ab"]
    assert drawn == [0, 0]
    assert (tmp_path / "a/known.json").read_text() != (tmp_path / "b/known.json").read_text()
