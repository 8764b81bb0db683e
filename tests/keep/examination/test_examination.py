"""Examinations of branches, honest and hostile, by the keep's own programs."""

from __future__ import annotations

import re
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.keep.examination.plan import ExaminationSettings
from infra.keep.verdicts.verdict import Counts
from tests.keep.examination.scene import NO_PLUGINS, PROJECT, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


pytestmark = pytest.mark.heavy

BODY = PROJECT["tests/test_body.py"]


def test_an_honest_change_opens_main(scene: Scene) -> None:
    """What is the same runs once; the branch's own test runs as the branch has it; the verdict is for its tree."""
    found = scene.examine(
        {"infra/body.py": "def answer():\n    return 40 + 2\n", "tests/test_new.py": "def test_n(): pass\n"}
    )

    assert (found.why, found.needs_word) == ("", ())
    assert (found.mains, found.own) == (Counts(passed=5), Counts(passed=1))
    assert found.tests_added == ("tests/test_new.py",)
    assert "safe" not in found.words


def test_what_a_passed_test_left_is_gone(scene: Scene) -> None:
    """In the container all tests of an examination share half a gigabyte of memory."""
    tests = "left = []\ndef test_a(tmp_path): left.append(tmp_path)\ndef test_b(): assert not left[0].exists()\n"
    assert scene.examine({"tests/test_new.py": tests}).own == Counts(passed=2)


def test_a_change_that_breaks_a_test_does_not_pass(scene: Scene) -> None:
    """It says which test, and how it failed."""
    found = scene.examine({"infra/body.py": "def answer():\n    return 41\n"})

    assert not found.passed
    assert "tests/test_body.py::test_it_answers failed" in found.why
    assert re.match(r"\S+test_body.py:\d+: assert 41 == 42", found.failures["tests/test_body.py::test_it_answers"])


@pytest.mark.parametrize(
    ("files", "word"),
    [
        (
            {
                "tests": None,
                "tests/test_x.py": "def test_x(): pass\n",
                "infra/body.py": "def answer():\n    return 0\n",
            },
            "tests/test_body.py is removed",
        ),
        (
            {"tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef wanted():\n    pytest.skip('not today')\n"},
            "tests/test_body.py::test_it_answers is skipped",
        ),
        (
            {"pyproject.toml": f"{PROJECT['pyproject.toml']}python_functions = ['test_many', 'test_same']\n"},
            "tests/test_body.py::test_it_answers is no longer collected",
        ),
        pytest.param(
            {
                "pytest.ini": f"[pytest]\naddopts = {NO_PLUGINS}\npythonpath = .\n"
                "python_functions = test_many test_same\nmarkers = heavy\n"
            },
            "tests/test_body.py::test_it_answers is no longer collected",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {
                "tox.ini": f"[pytest]\naddopts = {NO_PLUGINS}\npython_functions = test_none\n",
                "pyproject.toml": "[project]\nname = 'x'\n",
            },
            "tests/test_body.py::test_it_answers is no longer collected",
            marks=pytest.mark.long,
        ),
        (
            {
                "infra/body.py": "def answer():\n    return 41\n",
                "tests/test_body.py": BODY.replace("== wanted", "== 41"),
            },
            "tests/test_body.py::test_it_answers fails as main has it",
        ),
    ],
    ids=[
        *("tests/ deleted", "a conftest that skips", "pyproject.toml", "pytest.ini", "tox.ini", "overruled"),
    ],
)
def test_weaker_tests_need_the_pms_word(scene: Scene, files: dict[str, str | None], word: str) -> None:
    """Removed, skipped, no longer collected, or changed so that the branch passes: the agent cannot merge it alone."""
    found = scene.examine(files)

    assert any(word in each for each in found.needs_word), (found.needs_word, found.why)
    assert found.tests_removed or found.tests_changed or found.settings_changed


@pytest.mark.parametrize(
    ("files", "word"),
    [
        (
            {
                "tests/new/conftest.py": "def pytest_collection_modifyitems(items):\n    items[:] = items[-1:]\n",
                "tests/new/test_new.py": "def test_new(): pass\n",
            },
            "tests/new/conftest.py has 'pytest_collection_modifyitems', which can act on all tests",
        ),
        (
            {"pyproject.toml": PROJECT["pyproject.toml"].replace(NO_PLUGINS, f"{NO_PLUGINS} --deselect=tests/none")},
            "pyproject.toml changes pytest's settings",
        ),
    ],
)
def test_what_would_weaken_later_runs_needs_the_pms_word(scene: Scene, files: dict[str, str | None], word: str) -> None:
    """Main's conftests and settings rule over main's tests here, so nothing is missing yet."""
    found = scene.examine(files)

    assert found.passed, found.why
    assert found.needs_word == (word,)
    assert found.mains.passed == 5


WEAKER = {
    "removed": (None, "is removed"),
    "skipped": (BODY.replace("def test_it", "@pytest.mark.skip\ndef test_it"), "::test_it_answers is skipped"),
    "renamed": (BODY.replace("def test_it", "def no_test_it"), "::test_it_answers is no longer collected"),
    "fewer": (BODY.replace("[1, 2, 3]", "[1]"), "::test_many is collected 1 times, 3 times on main"),
    "heavy": (
        BODY.replace("def test_it", "@pytest.mark.heavy\ndef test_it"),
        "::test_it_answers is no longer collected",
    ),
}
"""What a branch makes of a file of tests, and what the PM is told of it."""


def test_each_file_that_is_weaker_is_named(scene: Scene) -> None:
    """In one branch: a file removed, a test skipped, renamed, with fewer parameters, or marked heavy."""
    scene.push("main", {f"tests/test_{name}.py": BODY for name in WEAKER})
    scene.git("fetch", "-q", "origin")
    scene.git("reset", "-q", "--hard", "origin/main")

    found = scene.examine({f"tests/test_{name}.py": text for name, (text, _) in WEAKER.items()})

    expected = {name: f"tests/test_{name}.py{words}" for name, (_, words) in WEAKER.items()}
    expected["removed"] = "tests/test_removed.py is removed"
    unsaid = {name for name, word in expected.items() if not any(word in each for each in found.needs_word)}
    assert unsaid == set(), found.needs_word
    assert found.tests_removed == ("tests/test_removed.py",)
    assert len(found.tests_changed) == len(WEAKER) - 1


FEWER = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "model_door" not in item.nodeid]
"""


def test_what_does_not_run_here_is_not_lost_unseen(scene: Scene) -> None:
    """Tests that are marked heavy, and those of the keep's folders, are counted where the branch may take some away."""
    slow = "import pytest\n\n@pytest.mark.heavy\ndef test_slow(): pass\n"
    scene.push(
        "main", {"tests/test_slow.py": f"{slow}\ndef test_quick(): pass\n", "tests/keep/model_door/test_door.py": slow}
    )
    scene.git("fetch", "-q", "origin")
    scene.git("reset", "-q", "--hard", "origin/main")

    found = scene.examine(
        {
            "tests/test_slow.py": "def test_quick(): pass\n",
            "tests/conftest.py": PROJECT["tests/conftest.py"] + FEWER,
        }
    )

    assert found.passed, found.why
    assert set(found.needs_word) == {
        "tests/test_slow.py::test_slow is no longer collected",
        "tests/keep/model_door/test_door.py::test_slow is no longer collected",
        "tests/conftest.py has 'pytest_collection_modifyitems', which can act on all tests",
    }


def test_code_that_has_a_test_skip_needs_the_pms_word(scene: Scene) -> None:
    """The skip is in infra/: no test is changed. What main itself skips is not news."""
    skips = "import pytest\n\ndef test_skips():\n    pytest.skip('always')\n"
    scene.push("main", {"tests/test_skips.py": skips})
    scene.git("fetch", "-q", "origin")
    scene.git("reset", "-q", "--hard", "origin/main")
    found = scene.examine({"infra/body.py": "import pytest\n\ndef answer():\n    pytest.skip('no')\n"})

    assert found.needs_word == ("tests/test_body.py::test_it_answers is skipped",)
    assert found.mains.skipped == 2


FORGER = """
import pytest
make = pytest.TestReport.from_item_and_call.__func__
pytest.TestReport.from_item_and_call = classmethod(lambda c, i, x: setattr(x, "excinfo", None) or make(c, i, x))
"""


def test_the_known_limit_code_within_pytest_can_forge_its_tests(scene: Scene) -> None:
    """Three lines of infra/ turn a failing test into one that passed: so a verdict says what ran, never "safe". The
    walls are the rehearsal, which looks from outside, and the PM."""
    found = scene.examine({"infra/__init__.py": FORGER, "infra/body.py": "def answer():\n    return 41\n"})

    assert found.passed, "if this fails, the limit is gone: say so in SPEC_EXAMINATION"
    assert found.mains.passed == 5
    assert "tests/test_body.py" in found.files


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)\n",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
        pytest.param("raise SystemExit(0)\n", marks=pytest.mark.long),
    ],
    ids=["leaves at once", "kills the examiner", "exits"],
)
def test_code_that_ends_the_examination_does_not_pass(scene: Scene, code: str) -> None:
    """No answer is not a verdict in its favour."""
    found = scene.examine({"infra/__init__.py": code})

    assert not found.passed
    assert found.why


def test_tests_that_hang_are_ended(scene: Scene) -> None:
    """The limit is the PM's."""
    found = scene.examine(
        {"infra/body.py": "import time\n\ndef answer():\n    time.sleep(60)\n"},
        ExaminationSettings(rehearse=False, seconds=3.0),
    )

    assert not found.passed
    assert "ended after" in found.why


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Sockets lie below it, and pytest's own directories have long names."""
    with tempfile.TemporaryDirectory(prefix="x-", dir="/tmp") as place:
        yield Path(place)


def test_what_a_killed_examination_left_goes_and_processes_are_bounded(scene: Scene, short_path: Path) -> None:
    """Its place is small, and without a bound of its own the keep would have no process left beside it and the cell."""
    place = short_path
    (place / "left/c").mkdir(parents=True)
    (place / "left/c").chmod(0)
    (place / "file").write_text("x")
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = hard if hard == resource.RLIM_INFINITY else hard * 2 // 5
    test = (
        "import os, resource\n\ndef test_place():\n"
        f"    assert len(os.listdir({str(place)!r})) == 1\n"
        f"    assert resource.getrlimit(resource.RLIMIT_NPROC)[1] == {most}\n"
    )

    found = scene.examine({"tests/test_place.py": test}, apart_in=str(place))

    assert found.passed, (found.why, found.failures)
    assert list(place.iterdir()) == []


def test_what_cannot_be_cleared_away_in_time_changes_no_verdict(scene: Scene, short_path: Path) -> None:
    """An rm that never ends, as on a slow disk: neither what lay there nor what it wrote keeps it from its end."""
    (short_path / "left").mkdir()
    programs = scene.root / "programs"
    programs.mkdir()
    (programs / "rm").write_text("#!/bin/sh\nexec sleep 600\n")
    (programs / "rm").chmod(0o755)
    settings = ExaminationSettings(rehearse=False, seconds=60.0, clear_seconds=0.2)

    found = scene.examine({"infra/new.py": ""}, settings, apart_in=str(short_path), programs=str(programs))

    assert (found.why, found.needs_word) == ("", ())


def test_what_fails_on_main_says_nothing_against_a_branch(scene: Scene) -> None:
    """New tests land on main without an examination: one that fails here must not stop every branch from then on."""
    scene.push("main", {"tests/test_broken.py": "def test_b():\n    assert False\n"})
    scene.git("fetch", "-q", "origin")
    scene.git("reset", "-q", "--hard", "origin/main")

    found = scene.examine({"infra/body.py": "def answer():\n    return 40 + 2\n"})
    assert (found.why, found.needs_word) == ("", ())
    assert found.fails_on_main == ("tests/test_broken.py::test_b",)


def test_a_project_without_tests_does_not_pass(scene: Scene) -> None:
    """A version is examined with tests."""
    scene.push("main", {"tests": None})
    scene.git("fetch", "-q", "origin")
    scene.git("reset", "-q", "--hard", "origin/main")

    assert "no tests: add some" in scene.examine({"infra/body.py": "x = 1\n"}).why


def test_what_a_branch_has_installed_is_there_for_its_tests(scene: Scene) -> None:
    """Behind all that the image has: pytest and its companions stay the image's."""
    packages = scene.root / f"env/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    packages.mkdir(parents=True)
    (packages / "installed_by_it.py").write_text("VALUE = 1\n")
    (packages / "pytest.py").write_text("raise SystemExit('not the image's')\n")
    test = "from installed_by_it import VALUE\n\ndef test_value():\n    assert VALUE\n"

    found = scene.examine({"tests/test_own.py": test}, python=f"{scene.root}/env/bin/python")

    assert found.passed, found.why
    assert found.own.passed == 1
