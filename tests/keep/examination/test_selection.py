"""Which paths need an examination, which tests run in one, and that its verdict is kept."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from infra.keep.examination.running import MARKS
from infra.keep.verdicts import refs, verdict
from infra.keep.verdicts.findings import Findings, Run
from infra.keep.verdicts.paths import needs_examination
from infra.keep.verdicts.selection import Selection, select
from infra.shared.repository.git import Git

FILE, LINK = "100644", "120000"
MAIN = {
    "pyproject.toml": "a",
    "tests/conftest.py": "a",
    "tests/cell/runner/conftest.py": "a",
    "tests/cell/runner/test_unit.py": "a",
    "tests/cell/loop/test_loop.py": "a",
    "tests/keep/model_door/test_door.py": "a",
}


OF_THE_AGENT = """infra/x.py SYSTEM.md spec/SPEC_A.md requirements.txt pyproject.toml conftest.py .gitattributes
    x.dist-info/entry_points.txt psutil/__init__.py tests/cell/runner/test_unit.py tests/cell/runner/helper.json
    tests/cell.py tests/CELL/test_unit.py tests/conftest.py tests/pytest.ini"""
OF_NOBODY = "tests/mine/conftest.py tests/mine/helper.py tests/test_mine.py src/a.py COMMS.md README.md"


def test_what_makes_up_the_agent_needs_an_examination() -> None:
    """Its own projects are free, and so is what nothing imports."""
    assert [path for path in OF_THE_AGENT.split() if not needs_examination(path, FILE)] == []
    assert [path for path in OF_NOBODY.split() if needs_examination(path, FILE)] == []
    assert [needs_examination(path, LINK) for path in ("psutil", "src", "tests", "src/link")] == [True] * 3 + [False]


def test_the_keeps_tests_run_only_for_who_changes_them() -> None:
    """The keep runs the image's copy of its own programs."""
    chosen = select(MAIN, MAIN, ["infra/cell/loop/loop.py"])
    assert chosen.mains == ("tests/cell/loop/test_loop.py", "tests/cell/runner/test_unit.py")
    assert chosen.own == ()
    assert select(MAIN, MAIN, ["infra/keep/model_door/x.py"]).mains[2] == "tests/keep/model_door/test_door.py"


def test_tests_with_the_same_fixtures_run_once() -> None:
    """What main's tests stand on has all of them run again; a new helper concerns no test that was there before it."""
    branch = MAIN | {"tests/cell/loop/test_loop.py": "b", "tests/mine/test_new.py": "b"}
    assert select(MAIN, branch, []).own == ("tests/cell/loop/test_loop.py", "tests/mine/test_new.py")
    for name in ("tests/conftest.py", "pyproject.toml", "tests/cell/runner/conftest.py", "tests/cell/conftest.py"):
        assert len(select(MAIN, MAIN | {name: "b"}, []).own) == 2, name
    for name in ("tests/cell/runner/helper.py", "tests/mine/conftest.py"):
        assert select(MAIN, MAIN | {name: "b"}, []).own == (), name


def test_the_prompt_names_the_command_that_is_run() -> None:
    """Marks that do not run are left out by the agent too, who runs the tests beside what it changed."""
    text = Path(__file__).parents[3].joinpath("SYSTEM.md").read_text(encoding="utf-8")
    (line,) = [line.strip(" `") for line in text.splitlines() if "-m pytest" in line]
    words = shlex.split(line)
    assert words[-3:] == ["-m", MARKS, "tests/FOLDER"]


def test_whatever_an_examiner_answers_its_verdict_is_kept(tmp_path: Path) -> None:
    """The candidate chooses its words, and one that nobody could read would be asked for again and again."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    git, key, long = Git(str(tmp_path)), "0" * 40, "\x01" * 1_000_000
    names = tuple(f"{number}{long}" for number in range(50))
    run = Run(names, dict.fromkeys(names, "failed"), {long: long}, dict.fromkeys(names, long), long, names)
    made = verdict.judge(key, "b", "c", "m", Selection((), ()), Findings(False, long, long, run, run, run))
    refs.keep(git, made)
    assert refs.find(git, key) == made
    assert not made.passed
