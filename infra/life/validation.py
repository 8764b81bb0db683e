"""Whether the version in this checkout is fit to be main: its tests pass, and it can do what an agent does.

Both run in processes of their own, so that what is judged is what is on the disk; their output goes to
logs/validation.log."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from infra.life.home import Home
from infra.loop import command
from infra.loop.bash_tool import environment

LOG = "logs/validation.log"
EXERCISE_SECONDS = 120.0
MANY_FILES = 20
OUTPUT_LINES = 40
OUTPUT_CHARS = 20_000


class Verdict(NamedTuple):
    fit: bool
    words: str
    """The evidence, or what is wrong."""
    output: str = ""
    """The end of what was printed, when something is wrong."""


KEEP = {
    "admission": ("infra/admission/", "infra/git_door.py"),
    "models": ("infra/models/", "infra/model_door.py"),
    "supervision": ("infra/supervision/", "infra/watcher.py"),
}
"""Folders of `tests/` that are about the keep's programs, and where these are."""
LEAVES = ("infra/contract/", "infra/repository/")


def not_concerned(changed: Sequence[str], present: Sequence[str]) -> list[str]:
    """Of the things `present` in tests/, the folders that say nothing about a version which changed these paths.

    The keep runs the image's copy of its programs, so here their tests matter only to who changed them. But where
    there are no other tests, they are better than none."""
    others = [name for name in present if name not in KEEP and not name.startswith(("__", "conftest"))]
    if not others or any(path.startswith(LEAVES) for path in changed):
        return []
    concerned = {
        name for name, code in KEEP.items() if any(path.startswith((*code, f"tests/{name}/")) for path in changed)
    }
    return [f"tests/{name}" for name in KEEP if name not in concerned]


def judge(home: Home, main: str) -> Verdict:
    """Run the tests, then the exercise, on a version that is to be merged into `main`. Raises OSError, Interrupted."""
    directory = os.path.join(home.checkout, "tests")
    if not os.path.isdir(directory):
        return Verdict(False, "the repository has no tests/; a version proves itself with its tests")
    with open(os.path.join(home.checkout, LOG), "wb", buffering=0) as log:
        changed = home.git("diff", "--name-only", "--no-ext-diff", f"{main}...HEAD").splitlines()
        tests = _test(home, directory, not_concerned(changed, os.listdir(directory)), log)
        if not tests.fit:
            return tests
        exercise = _run(home, [sys.executable, "-E", "-s", "-m", "infra.life.exercise"], EXERCISE_SECONDS, log)
        if exercise.status != 0:
            return Verdict(False, _what_failed("the exercise", exercise, None), tail(exercise.output))
    return Verdict(True, f"{tests.words}; exercise passed")


def _test(home: Home, directory: str, left_out: Sequence[str], log: BinaryIO) -> Verdict:
    """The tests; a few that failed are run once more, alone. A busy machine or a dice in a test must not cost a
    version; that they failed at first is part of the evidence. Raises OSError, Interrupted."""
    seconds = home.boot.limits.validation_seconds
    with tempfile.TemporaryDirectory(prefix="validation-", dir=os.path.dirname(log.name)) as cache:
        words = pytest_words(cache, _worth_sharing_out(directory), left_out)
        ran = _run(home, words, seconds, log)
        evidence = summary(ran.output)
        if ran.status == 0 and evidence and evidence.passed:
            return Verdict(True, evidence.words)
        unfit = Verdict(False, _what_failed("the test run", ran, evidence), tail(ran.output))
        failed = last_failed(cache) if ran.status == TESTS_FAILED else []
        if not evidence or not 0 < len(failed) <= MOST_RETRIED:
            return unfit
        again = _run(home, [*pytest_words(cache, False, left_out), "--last-failed"], seconds, log)
        second = summary(again.output)
        if again.status != 0 or second is None or second.passed != len(failed):
            return unfit
        return Verdict(True, f"{evidence.words}; once more and alone: {second.words} ({', '.join(failed)})")


TESTS_FAILED = 1
"""pytest's exit status when tests failed and nothing else went wrong."""
MOST_RETRIED = 3


def last_failed(cache: str) -> list[str]:
    """What pytest noted in its cache: the node ids of the tests that failed."""
    try:
        with open(f"{cache}/v/cache/lastfailed", "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return []
    return sorted(found) if isinstance(found, dict) else []


def pytest_words(cache: str, share_out: bool, left_out: Sequence[str] = ()) -> list[str]:
    workers = ["-n", "auto"] if share_out else []
    plain = ["-q", "--color=no", "-o", f"cache_dir={cache}", "-m", "not heavy", *workers]
    return [sys.executable, "-m", "pytest", *plain, *(f"--ignore={folder}" for folder in left_out), "tests"]


class Summary(NamedTuple):
    """pytest's own last line."""

    words: str
    passed: int


_SUMMARY = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+ in [\d.]+s)(?: \([\d:]+\))? ?=*$", re.MULTILINE)


def summary(output: str) -> Summary | None:
    """The last summary in what pytest printed; None when it did not come to one."""
    found = _SUMMARY.findall(output)
    if not found:
        return None
    passed = re.search(r"(\d+) passed", found[-1])
    return Summary(found[-1], int(passed[1]) if passed else 0)


def tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-OUTPUT_LINES:])


def _what_failed(what: str, ran: command.Ran, evidence: Summary | None) -> str:
    if ran.status is None:
        return f"{what} ran out of time and was ended"
    if evidence:
        return f"{what}: {evidence.words}"
    return f"{what} ended with status {ran.status}"


def _run(home: Home, words: Sequence[str], seconds: float, log: BinaryIO) -> command.Ran:
    home.heart.beat("validating", seconds)
    return command.run(
        words,
        cwd=home.checkout,
        # What is judged must not depend on the cell's own git settings, nor push through its door.
        env=environment() | {"GIT_CONFIG_GLOBAL": "/dev/null"},
        seconds=seconds,
        output_chars=OUTPUT_CHARS,
        interruption=home.interruption,
        end_session=True,
        copy=log,
    )


def _worth_sharing_out(tests: str) -> bool:
    """Starting workers takes seconds, which only many tests win back."""
    files = sum(name.startswith("test_") for _, _, names in os.walk(tests) for name in names)
    return files >= MANY_FILES and (os.cpu_count() or 1) > 1 and importlib.util.find_spec("xdist") is not None
