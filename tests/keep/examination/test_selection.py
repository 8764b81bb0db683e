"""Which paths need an examination, and which tests run in one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from infra.keep.examination.running import MARKS
from infra.keep.verdicts.paths import needs_examination
from infra.keep.verdicts.reach import acts_elsewhere
from infra.keep.verdicts.selection import KEEPS_TESTS, select

FILE, LINK = "100644", "120000"
MAIN = {
    "pyproject.toml": "a",
    "tests/conftest.py": "a",
    "tests/cell/runner/conftest.py": "a",
    "tests/cell/runner/test_unit.py": "a",
    "tests/cell/loop/test_loop.py": "a",
    "tests/keep/model_door/test_door.py": "a",
}


@pytest.mark.parametrize(
    ("path", "before", "after", "needs"),
    [
        ("infra/x.py", "", FILE, True),
        ("infra/x.py", FILE, "", True),
        ("SYSTEM.md", FILE, FILE, True),
        ("spec/SPEC_A.md", "", FILE, True),
        ("requirements.txt", "", FILE, True),
        ("pyproject.toml", FILE, FILE, True),
        ("conftest.py", "", FILE, True),
        (".gitattributes", FILE, FILE, True),
        ("x.dist-info/entry_points.txt", "", FILE, True),
        ("psutil/__init__.py", "", FILE, True),
        ("psutil", "", LINK, True),
        ("src", "", LINK, True),
        ("tests/cell/runner/test_unit.py", FILE, FILE, True),
        ("tests/cell/runner/test_unit.py", FILE, "", True),
        ("tests/cell/runner/helper.py", "", FILE, True),
        ("tests/cell/runner/conftest.py", "", FILE, True),
        ("tests/mine/conftest.py", "", FILE, True),
        ("tests/table/__init__.py", "", FILE, True),
        ("tests/test_link.py", "", LINK, True),
        ("tests/cell/runner/test_new.py", "", FILE, False),
        ("tests/mine/helper.py", "", FILE, False),
        ("src/a.py", FILE, FILE, False),
        ("src/link", "", LINK, False),
        ("COMMS.md", FILE, FILE, False),
        ("COMMS-ARCHIVE.md", "", FILE, False),
        ("README.md", FILE, FILE, False),
    ],
)
def test_what_makes_up_the_agent_needs_an_examination(path: str, before: str, after: str, needs: bool) -> None:
    """src/ and new tests are free, and so is what nothing imports."""
    assert needs_examination(path, before, after, {"cell", "keep", "table.py"}) is needs


def test_the_keeps_tests_run_only_for_who_changes_them() -> None:
    """The keep runs the image's copy of its own programs."""
    chosen = select(MAIN, MAIN, ["infra/cell/loop/loop.py"])
    assert chosen.mains == ("tests/cell/loop/test_loop.py", "tests/cell/runner/test_unit.py")
    assert chosen.left_out == ("keep",)
    assert chosen.own == ()
    assert select(MAIN, MAIN, ["infra/keep/model_door/x.py"]).left_out == ()


def test_where_a_setting_for_all_tests_differs_all_are_collected() -> None:
    """Else a conftest or pytest's settings could take tests out of a folder that nobody looks at then."""
    for name in ("pyproject.toml", "tests/conftest.py", "conftest.py"):
        chosen = select(MAIN, MAIN | {name: "b"}, [name])
        assert chosen.left_out == ("keep",)
        assert "tests/keep/model_door/test_door.py" in chosen.counted, name
    assert select(MAIN, MAIN | {"tests/cell/runner/conftest.py": "b"}, []).counted == (
        "tests/cell/runner/test_unit.py",
    )
    assert select(MAIN, MAIN | {"tests/cell/runner/test_new.py": "b"}, []).counted == ()


def test_tests_with_the_same_fixtures_run_once() -> None:
    """A conftest of a folder concerns that folder; anything else beside the tests concerns all."""
    branch = MAIN | {"tests/cell/loop/test_loop.py": "b", "tests/cell/loop/test_new.py": "b"}
    assert select(MAIN, branch, []).own == ("tests/cell/loop/test_loop.py", "tests/cell/loop/test_new.py")
    branch = MAIN | {"tests/cell/runner/conftest.py": "b"}
    assert select(MAIN, branch, []).own == ("tests/cell/runner/test_unit.py",)
    for name in ("tests/conftest.py", "pyproject.toml", "tests/cell/runner/helper.py"):
        assert len(select(MAIN, MAIN | {name: "b"}, []).own) == 2, name
    assert select(MAIN, MAIN | {"tests/mine/helper.py": "b"}, []).own == ()


def test_where_there_are_no_other_tests_the_keeps_run() -> None:
    """They are better than none."""
    only = {"tests/keep/model_door/test_door.py": "a"}
    assert select(only, only, []).mains == ("tests/keep/model_door/test_door.py",)


HOOK = b"def pytest_runtest_call(item): pass\n"
FIXTURES = b"import pytest\n\n@pytest.fixture\ndef it(monkeypatch):\n    monkeypatch.setattr('a.b', 1)\n"


@pytest.mark.parametrize(
    ("path", "before", "after", "acts"),
    [
        ("tests/a/conftest.py", None, FIXTURES, False),
        ("tests/a/conftest.py", FIXTURES, None, False),
        ("tests/a/conftest.py", None, HOOK, True),
        ("tests/a/conftest.py", HOOK, FIXTURES, True),
        ("tests/a/conftest.py", None, b"from tests.a.helper import *\n", True),
        ("tests/a/conftest.py", None, b"from tests.a import helper as pytest_collect_file\n", True),
        ("tests/a/conftest.py", None, b"@hookimpl(specname='pytest_itemcollected')\ndef f(): 1\n", True),
        ("tests/a/conftest.py", None, b"globals()['pytest' + '_itemcollected'] = print\n", True),
        ("tests/a/conftest.py", None, b"pytest_plugins = ['x']\n", True),
        ("tests/a/conftest.py", None, b"def (", True),
        ("tests/a/conftest.pyc", None, b"\0", True),
        ("pyproject.toml", b"[tool.pytest]\nx.a = 1\n[a]\n", b"[tool.pytest.x]\na = 1\n", False),
        ("pyproject.toml", b"", b"[tool.pytest.ini_options]\naddopts = '-p x'\n", True),
        ("pyproject.toml", b"[", b"[", True),
        ("pytest.toml", None, b"[pytest]\nx = 1\n", True),
        ("tox.ini", None, b"[pytest]\n", True),
    ],
)  # fmt: skip
def test_what_acts_on_tests_elsewhere(path: str, before: bytes | None, after: bytes | None, acts: bool) -> None:
    """Hooks and settings do, on whichever side they stand; fixtures do not."""
    assert bool(acts_elsewhere(path, before, after)) is acts


def test_the_prompt_names_the_command_that_is_run() -> None:
    """Tests that are left out for most changes, and marks that do not run, are left out by the agent too."""
    text = Path(__file__).parents[3].joinpath("SYSTEM.md").read_text(encoding="utf-8")
    (line,) = [line.strip(" `") for line in text.splitlines() if "-m pytest" in line]
    words = shlex.split(line)
    assert words[words.index("-m", 3) + 1] == MARKS
    ignored = {word.removeprefix("--ignore=tests/") for word in words if word.startswith("--ignore")}
    assert ignored == {name for name in KEEPS_TESTS if (Path(__file__).parents[3] / "tests" / name).is_dir()}
    assert words[-1] == "tests"
