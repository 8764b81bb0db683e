"""Examinations of branches, honest and hostile, by the keep's own programs."""

from __future__ import annotations

import re
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from infra.keep.examination.__main__ import judge
from infra.keep.examination.plan import ExaminationSettings
from infra.keep.programs import keep_command, keep_environment
from infra.keep.verdicts import refs, trees
from infra.keep.verdicts.verdict import Counts, Verdict
from infra.shared.people import Person
from infra.shared.repository.git import Git

PM = Person("PM", "pm@example.invalid")
NOTHING: Mapping[str, str] = MappingProxyType({})
SETTINGS = ExaminationSettings(rehearse=False, seconds=60.0)
NO_PLUGINS = "-p no:anyio -p no:hypothesispytest -p no:xdist -p no:xdist.looponfail -p no:timeout"
"""They take half the time of a pytest that has little to do, and each examination starts several."""
PROJECT = {
    "infra/__init__.py": "",
    "infra/body.py": "def answer():\n    return 42\n",
    "tests/__init__.py": "",
    "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef wanted():\n    return 42\n",
    "tests/cell/test_body.py": (
        "import pytest\nfrom infra.body import answer\n\n"
        "def test_it_answers(wanted):\n    assert answer() == wanted\n\n"
        "@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_many(n):\n    assert n\n"
    ),
    "tests/cell/runner/test_same.py": "def test_same():\n    pass\n",
    "pyproject.toml": (
        f"[tool.pytest.ini_options]\npythonpath = ['.']\nmarkers = ['heavy: long']\naddopts = '{NO_PLUGINS}'\n"
    ),
    "COMMS.md": "# page\n",
}


class Scene:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.remote = f"{root}/r.git"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.remote], check=True)
        subprocess.run(["git", "init", "-q", "-b", "main", f"{root}/w"], check=True)
        self.git = Git(f"{root}/w", PM)
        self.git("remote", "add", "origin", self.remote)
        self.bare = Git(self.remote, PM)
        self.push("main", PROJECT)

    def push(self, branch: str, files: Mapping[str, str | None]) -> str:
        """A commit with these files on a branch that begins at main; None removes one."""
        for path, text in files.items():
            file = self.root / "w" / path
            if text is None:
                self.git("rm", "-q", "-r", path)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", branch)
        commit = self.git("rev-parse", "HEAD")
        self.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        self.git("reset", "-q", "--hard", "origin/main")
        return commit

    def main(self, files: Mapping[str, str | None]) -> None:
        """Have main change these files first."""
        self.push("main", files)
        self.git("fetch", "-q", "origin")
        self.git("reset", "-q", "--hard", "origin/main")

    def examine(self, files: Mapping[str, str | None], *words: Any, **more: Any) -> Verdict:
        """Of a branch that changes these files; the rest as `verdict` takes it."""
        return self.verdict(self.push("branch", files), *words, **more)

    def verdict(
        self,
        commit: str,
        settings: ExaminationSettings = SETTINGS,
        examiner: Sequence[str] = (),
        env: Mapping[str, str] = NOTHING,
    ) -> Verdict:
        """More words for the examiner, and more of its environment."""
        one, other = socket.socketpair()
        words = keep_command("infra.keep.examination", "examine", *examiner)
        with (
            one,
            subprocess.Popen(
                words, stdin=other.fileno(), stderr=subprocess.PIPE, cwd="/", env=keep_environment() | dict(env)
            ) as process,
        ):
            other.close()
            judge(self.remote, "branch", commit, settings, one)
            assert process.stderr
            said = process.stderr.read().decode()
        key = trees.key_of(self.bare, trees.merged(self.bare, self.bare("rev-parse", "main"), commit))
        found = refs.find(self.bare, key)
        assert found, said
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


pytestmark = pytest.mark.heavy

BODY = PROJECT["tests/cell/test_body.py"]


def test_an_honest_change_opens_main(scene: Scene) -> None:
    """What is the same runs once; the branch's own test runs as the branch has it; the verdict is for its tree."""
    found = scene.examine(
        {"infra/body.py": "def answer():\n    return 40 + 2\n", "tests/test_new.py": "def test_n(): pass\n"}
    )

    assert (found.why, found.needs_word) == ("", ())
    assert (found.mains, found.own) == (Counts(passed=5), Counts(passed=1))
    assert "safe" not in found.words


def test_what_a_passed_test_left_is_gone(scene: Scene) -> None:
    """In the container all tests of an examination share half a gigabyte of memory."""
    tests = "left = []\ndef test_a(tmp_path): left.append(tmp_path)\ndef test_b(): assert not left[0].exists()\n"
    assert scene.examine({"tests/test_new.py": tests}).own == Counts(passed=2)


def test_a_change_that_breaks_a_test_does_not_pass(scene: Scene) -> None:
    """It says which test, and how it failed."""
    found = scene.examine({"infra/body.py": "def answer():\n    return 41\n"})

    assert not found.passed
    assert "tests/cell/test_body.py::test_it_answers failed" in found.why
    assert re.match(r"\S+test_body.py:\d+: assert 41 == 42", found.failures["tests/cell/test_body.py::test_it_answers"])


OVERRULED = {
    "infra/body.py": "def answer():\n    return 41\n",
    "tests/cell/test_body.py": BODY.replace("== wanted", "== 41"),
}
"""A change that breaks a test, and the test changed so that it passes."""


WEAKER = {
    "tests/cell/test_removed.py": (None, " is removed"),
    "tests/cell/test_skipped.py": (
        BODY.replace("def test_it", "@pytest.mark.skip\ndef test_it"),
        "::test_it_answers is skipped",
    ),
    "tests/cell/test_renamed.py": (
        BODY.replace("def test_it", "def no_test_it"),
        "::test_it_answers is no longer collected",
    ),
    "tests/cell/test_fewer.py": (BODY.replace("[1, 2, 3]", "[1]"), "::test_many is collected 1 times, 3 times on main"),
    "tests/cell/test_heavy.py": (
        BODY.replace("def test_it", "@pytest.mark.heavy\ndef test_it"),
        "::test_it_answers is no longer collected",
    ),
    "tox.ini": (f"[pytest]\naddopts = {NO_PLUGINS}\n", " changes how tests are run"),
    "pyproject.toml": (f"{PROJECT['pyproject.toml']}\n# more\n", " changes how tests are run"),
    "tests/cell/new/conftest.py": ("", " changes how tests are run"),
}
"""What a branch makes of a file, and what the PM is told of it."""


@pytest.mark.attack("S49")
def test_each_file_that_is_weaker_is_named(scene: Scene) -> None:
    """In one branch: a file removed, a test skipped, renamed, with fewer parameters, or marked heavy, and what changes
    how all of them are run."""
    scene.main({path: BODY for path in WEAKER if "cell/test_" in path})

    found = scene.examine({path: text for path, (text, _) in WEAKER.items()})

    unsaid = {path for path, (_, words) in WEAKER.items() if not any(path + words in each for each in found.needs_word)}
    assert unsaid == set(), found.needs_word


def test_what_does_not_run_here_is_not_lost_unseen(scene: Scene) -> None:
    """Tests that are marked heavy are counted where the branch changes their file."""
    slow = "import pytest\n\n@pytest.mark.heavy\ndef test_slow(): pass\n\ndef test_quick(): pass\n"
    scene.main({"tests/cell/test_slow.py": slow})

    found = scene.examine({"tests/cell/test_slow.py": "def test_quick(): pass\n"})

    assert found.passed, found.why
    assert found.needs_word == ("heavy tests/cell/test_slow.py::test_slow is no longer collected",)


@pytest.mark.attack("S49")
def test_what_the_pm_must_decide_is_said_before_all_else_is_run(scene: Scene) -> None:
    """Asked again, the same is examined whole: the PM may want to know the rest."""
    commit = scene.push("branch", OVERRULED)

    found = scene.verdict(commit)
    assert "::test_it_answers fails as main has it, and the branch changes" in found.why
    assert (found.mains, found.own) == (Counts(passed=3, failed=1), Counts())

    found = scene.verdict(commit)
    assert (found.why, len(found.needs_word)) == ("", 1)
    assert (found.mains, found.own) == (Counts(passed=4, failed=1), Counts(passed=4))


def test_the_agents_own_projects_are_no_part_of_it(scene: Scene) -> None:
    """What it learns must not be never to write a test: one of its own that hangs costs no later version anything."""
    hangs = "import time\n\ndef test_hangs():\n    time.sleep(600)\n"
    scene.main({"src/mine.py": "", "tests/mine/test_mine.py": hangs, "tests/test_mine.py": hangs})

    found = scene.examine({"infra/body.py": "def answer():\n    return 40 + 2\n", "tests/test_mine.py": None})

    assert (found.why, found.needs_word) == ("", ())
    assert found.mains == Counts(passed=5)


@pytest.mark.attack("S49")
def test_code_that_has_a_test_skip_needs_the_pms_word(scene: Scene) -> None:
    """The skip is in infra/: no test is changed. What main itself skips is not news, also where the image lacks what
    another file of main's imports, as the container's lacks what is for tests alone."""
    skips = "import pytest\n\ndef test_skips():\n    pytest.skip('always')\n"
    scene.main({"tests/cell/test_skips.py": skips, "tests/cell/test_lacks.py": "import no_such_package\n"})
    found = scene.examine({"infra/body.py": "import pytest\n\ndef answer():\n    pytest.skip('no')\n"})

    assert found.needs_word == ("tests/cell/test_body.py::test_it_answers is skipped",)
    assert found.mains.skipped == 2


FORGER = """
import pytest
make = pytest.TestReport.from_item_and_call.__func__
pytest.TestReport.from_item_and_call = classmethod(lambda c, i, x: setattr(x, "excinfo", None) or make(c, i, x))
"""


@pytest.mark.attack("S49")
def test_the_known_limit_code_within_pytest_can_forge_its_tests(scene: Scene) -> None:
    """Three lines of infra/ turn a failing test into one that passed: so a verdict is evidence against honest mistakes,
    and never says "safe"."""
    found = scene.examine({"infra/__init__.py": FORGER, "infra/body.py": "def answer():\n    return 41\n"})

    assert found.passed, "if this fails, the limit is gone: say so in SPEC_EXAMINATION"
    assert found.mains.passed == 5
    assert found.files


@pytest.mark.attack("S49")
@pytest.mark.parametrize(
    "code",
    ["import os\nos._exit(0)\n", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"],
    ids=["leaves at once", "kills the examiner"],
)
def test_code_that_ends_the_examination_does_not_pass(scene: Scene, code: str) -> None:
    """No answer is not a verdict in its favour."""
    found = scene.examine({"infra/__init__.py": code})

    assert not found.passed
    assert found.why


def test_a_test_that_ends_its_process_is_named(scene: Scene) -> None:
    """The others run in processes beside it, and to their end."""
    found = scene.examine({"infra/body.py": "import os\n\ndef answer():\n    os._exit(0)\n"})

    assert "tests/cell/test_body.py::test_it_answers was collected and did not end (and 3 more)" in found.why
    assert found.mains == Counts(passed=1)


def test_a_test_that_ends_its_process_in_its_teardown_has_not_passed(scene: Scene) -> None:
    """Also where the teardown is of all tests of its file."""
    fixture = "@pytest.fixture(scope='module')\ndef it():\n    yield\n    os._exit(0)\n"
    found = scene.examine({"tests/test_end.py": f"import os\nimport pytest\n\n{fixture}\ndef test_it(it):\n    pass\n"})

    assert found.why == "tests/test_end.py::test_it was collected and did not end"


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
    place, shared = short_path / "p", short_path / "s"
    shared.mkdir()
    (shared / "from a test").write_text("x")
    (place / "left/c").mkdir(parents=True)
    (place / "left/c").chmod(0)
    (place / "file").write_text("x")
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = hard if hard == resource.RLIM_INFINITY else hard * 2 // 5
    test = (
        "import os, resource\n\ndef test_place():\n"
        f"    assert (len(os.listdir({str(place)!r})), os.listdir({str(shared)!r})) == (1, [])\n"
        f"    assert resource.getrlimit(resource.RLIMIT_NPROC)[1] == {most}\n"
    )
    examiner = ("--apart", f"--ours={place}", f"--ours={shared}")

    found = scene.examine({"tests/test_place.py": test}, examiner=examiner, env={"TMPDIR": str(place)})

    assert found.passed, (found.why, found.failures)
    assert list(place.iterdir()) == []


def test_what_fails_on_main_says_nothing_against_a_branch(scene: Scene) -> None:
    """One that fails here must not stop every branch from then on."""
    scene.main({"tests/cell/test_broken.py": "def test_b():\n    assert False\n"})

    found = scene.examine({"infra/body.py": "def answer():\n    return 40 + 2\n"})
    assert (found.why, found.needs_word) == ("", ())
    assert found.fails_on_main == ("tests/cell/test_broken.py::test_b",)


def test_a_project_without_tests_does_not_pass(scene: Scene) -> None:
    """A version is examined with tests."""
    scene.main({"tests": None})

    assert "no tests: add some" in scene.examine({"infra/body.py": "x = 1\n"}).why


def test_what_a_branch_has_installed_is_there_for_its_tests(scene: Scene) -> None:
    """Behind all that the image has: pytest and its companions stay the image's."""
    packages = scene.root / f"env/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    packages.mkdir(parents=True)
    (packages / "installed_by_it.py").write_text("VALUE = 1\n")
    (packages / "pytest.py").write_text("raise SystemExit('not the image's')\n")
    test = "from installed_by_it import VALUE\n\ndef test_value():\n    assert VALUE\n"

    settings = msgspec.structs.replace(SETTINGS, python=f"{scene.root}/env/bin/python")
    found = scene.examine({"tests/test_own.py": test}, settings)

    assert found.passed, found.why
    assert found.own.passed == 1
