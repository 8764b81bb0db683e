"""Which paths need an examination, which tests run in one, and that its verdict is kept; and the watcher has a branch
examined when it is asked to, beside whatever runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.keep.examination.running import MARKS
from infra.keep.verdicts import refs, trees
from infra.keep.verdicts.findings import Findings, Run
from infra.keep.verdicts.paths import needs_examination
from infra.keep.verdicts.refs import VERDICTS
from infra.keep.verdicts.selection import Selection, select
from infra.keep.verdicts.verdict import Verdict, judge
from infra.shared.repository.git import Git
from tests.keep.supervision.agents import Agent, within
from tests.keep.supervision.timed_watcher import EXAMINER, PROGRAM

BEATS = "def test_slow():\n    import time\n    time.sleep({seconds})\n"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    (made.clone / "tests/cell").mkdir(parents=True)
    (made.clone / "tests/cell/test_a.py").write_text(BEATS.format(seconds=1))
    made.commit("serve()")
    made.git("push", "-q", "origin", "main")
    yield made
    made.close()


def ask(agent: Agent, name: str, behaviour: str = "serve()  # better") -> str:
    commit = agent.branch(name, behaviour)
    refs.ask(Git(agent.places.remote), name, commit)
    return commit


def verdict(agent: Agent, commit: str, seconds: float = 60.0) -> Verdict:
    git = Git(agent.places.remote)
    key = trees.key_of(git, trees.merged(git, git("rev-parse", "refs/heads/main"), commit))
    ref = Path(agent.places.remote, f"{VERDICTS}{key}")  # looked for first, because each search starts a process
    return within(seconds, lambda: refs.find(git, key) if ref.exists() else None, "a verdict")


def examiner(agent: Agent) -> psutil.Process:
    """Once it is at work."""

    def found() -> psutil.Process | None:
        for each in psutil.process_iter(["cmdline"]):
            if "infra.keep.examination" in (words := each.info["cmdline"] or []) and agent.places.remote in str(words):
                return each
        return None

    return within(30, found, "the judge of an examination")


@pytest.mark.heavy
def test_what_is_asked_for_is_examined_beside_the_runner(agent: Agent) -> None:
    """Anew, when the watcher is killed meanwhile; the request is gone when the verdict is there."""
    watcher = agent.start()
    first = agent.serving()
    commit = ask(agent, "better")
    judge = examiner(agent)
    watcher.kill()
    watcher.wait()
    judge.wait(30)
    agent.start()
    boot = agent.serving(but=first.active.boot_id)

    found = verdict(agent, commit)

    assert found.passed, found.why
    assert (found.branch, found.commit, found.mains.passed) == ("better", commit, 1)
    within(30.0, lambda: not refs.is_asked(agent.places.remote), "the request is taken away")
    assert agent.state().active.boot_id == boot.active.boot_id


@pytest.mark.heavy
def test_a_stop_does_not_wait_for_an_examination(agent: Agent) -> None:
    """The request stays for the next start. One of a branch that cannot be merged does not: both changed the same
    line, so there is no tree to examine."""
    mine = agent.branch("mine", "serve()  # mine")
    (agent.clone / "tests/cell/test_a.py").write_text(BEATS.format(seconds=60))
    agent.commit("serve()  # yours")
    agent.git("push", "-q", "origin", "main")
    agent.start()
    agent.serving()
    refs.ask(Git(agent.places.remote), "mine", mine)
    within(30.0, lambda: not refs.is_asked(agent.places.remote), "the request is dropped")
    within(30.0, lambda: "cannot be merged" in agent.log(), "and that is said")
    ask(agent, "better")
    examiner(agent)

    assert agent.stop() == 0

    assert refs.is_asked(agent.places.remote)


def test_a_request_that_somebody_packed_is_seen_again(agent: Agent) -> None:
    """The watcher looks for files alone; whoever asks again writes one."""
    git = Git(agent.places.remote)
    commit = ask(agent, "better")
    git("pack-refs", "--all")
    assert not refs.is_asked(agent.places.remote)

    refs.ask(git, "better", commit)

    assert refs.is_asked(agent.places.remote)
    assert refs.requests(git) == [("better", commit)]


FOR_ALL_USERS = """
set -e
mount -t tmpfs none "$KEPT"
for each in $NEEDED; do mkdir -p "$KEPT$each"; mount --rbind "$each" "$KEPT$each"; done
for each in $CLOSED; do mount -t tmpfs -o mode=755 none "$each"; done
for each in $NEEDED; do mkdir -p "$each"; mount --rbind "$KEPT$each" "$each"; done
exec "$@"
"""
"""For a shell in a mount namespace of its own: what is needed can be reached by all users."""


def opened(directory: Path) -> list[str]:
    """Words before a command: the interpreter and this project may lie where only root can look (a home, pyenv)."""
    needed = {Path(each).resolve() for each in (sys.base_prefix, sys.prefix, Path(__file__).parents[3])}
    closed = {above for path in needed for above in path.parents if not above.stat().st_mode & 0o001}
    outermost = [path for path in closed if not closed & set(path.parents)]
    directory.mkdir()
    names = {"KEPT": [directory], "NEEDED": sorted(needed), "CLOSED": outermost}
    given = [f"{name}={' '.join(map(str, paths))}" for name, paths in names.items()]
    return ["env", *given, "unshare", "--mount", "sh", "-c", FOR_ALL_USERS, "sh"]


@pytest.mark.attack("S48")
@pytest.mark.heavy
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
def test_the_examiner_is_a_user_of_its_own(agent: Agent) -> None:
    """The branch's code runs as that user: it cannot write what is the keep's, nor read what is the cell's alone."""
    os.mkdir(f"{agent.run}/scratch", 0o777)
    os.chmod(f"{agent.run}/scratch", 0o1777)
    os.chmod(agent.run, 0o711)
    os.makedirs(f"{agent.run}/scratch/xleft/c", 0o500)
    for left in ("xleft/c", "xleft"):
        os.chown(f"{agent.run}/scratch/{left}", EXAMINER.uid or 0, -1)
    test = (
        "import os, pytest\n\ndef test_apart():\n"
        f"    assert os.getuid() == {EXAMINER.uid}\n"
        f"    with pytest.raises(PermissionError):\n        open({agent.places.var!r} + '/x', 'w')\n"
        f"    assert os.getcwd().startswith({agent.run!r} + '/scratch/')\n"
    )
    agent.git("checkout", "-q", "-b", "apart", "main")
    (agent.clone / "tests/test_apart.py").write_text(test)
    commit = agent.commit("serve()  # apart")
    agent.git("push", "-q", "origin", "apart")
    agent.settings.write_text("timing: {rehearse: false, boot_seconds: 5, apart: true}\n")
    agent.start(PROGRAM, opened(agent.directory / "kept"))
    agent.serving()
    refs.ask(Git(agent.places.remote), "apart", commit)

    found = verdict(agent, commit)

    assert found.passed, (found.why, found.failures)
    assert found.own.passed == 1
    assert os.listdir(f"{agent.run}/scratch") == []


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
    made = judge(key, "b", "c", "m", Selection((), ()), Findings(False, long, long, run, run, run))
    refs.keep(git, made)
    assert refs.find(git, key) == made
    assert not made.passed
