"""The demo is the main job, and checks itself as it goes; here it is run as a user runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from host.project import BORN_WITH
from infra.keep.programs import keep_command, keep_environment
from infra.shared import comms
from infra.shared.paths import ROOT

KEPT = ("shared/__init__.py", "cell/protocol/test_read.py", "cell/protocol/test_fuzz.py", "cell/run/__init__.py")
"""Of the tests that agents are born with; what the demo adds lies in the last one's folder."""


def _with_fewer_tests(root: Path) -> Path:
    """This project with one folder of its agents' tests: with all of them an examination takes minutes. The same demo
    is played with all, and as the examiner's own user, in `tests/sealed/test_seal.py`."""
    for part in ("bot-template", "host", "infra", "spec", "tests", *BORN_WITH):
        source = Path(ROOT, part)
        if source.is_dir():
            shutil.copytree(source, root / part, dirs_exist_ok=True)  # with its bytecode
        else:
            shutil.copy(source, root / part)
    for folder in ("cell", "keep", "shared"):
        for path in [path for path in (root / "tests" / folder).rglob("*") if path.is_file()]:
            if not path.relative_to(root / "tests").as_posix().startswith(KEPT):
                path.unlink()
    return root


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_demo_shows_every_step_and_leaves_nothing_running(tmp_path: Path) -> None:
    """`minifram demo` in a pipe: each promised step is seen, the agent is down, the history is there to look at."""
    done = subprocess.run(
        keep_command("host", "demo", "--keep-at", str(tmp_path / "kept")),
        env=keep_environment() | {"PYTHONPATH": str(_with_fewer_tests(tmp_path / "project"))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=580,
        cwd="/",
    )
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    for step in (
        r"the agent noticed \d+\.\d\d s after the push",
        r"the watcher rehearsed and launched report-duration@[0-9a-f]{12}",
        r"the keep examined the new version \(rehearsed, \d+ of main's tests passed",
        r"This took \d",
        r"cannot-start@[0-9a-f]{12} was not launched: it failed its rehearsal",
        r"starts-then-dies@[0-9a-f]{12} died after SUCCESS: exit status 1",
        r"every report is still there",
        r"after both it recalls L-\d{6}",
        r"event +logs/events/\d{4}-\d\d-\d\d\.jsonl:\d+",
        r"git log --graph --oneline --all",
        r"The Reports section of COMMS.md",
    ):
        assert re.search(step, told), f"{step!r} is not in:\n{told}"
    kept = tmp_path / "kept"
    refused = next(tmp_path.rglob("cannot-start/minifram/logs/bootstrap.log")).read_text()
    assert re.search(r"Z FAILED cannot-start [0-9a-f]{40} .* by=watcher .*rehearsal", refused)
    running = [p for p in psutil.process_iter(["environ"]) if str(kept) in str(p.info["environ"])]
    assert running == []
    page = subprocess.run(
        ["git", "--git-dir", kept / "data/minifram/demo/remote.git", "show", "main:COMMS.md"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all(item.done for item in comms.directives(page))
    assert os.path.exists(kept / "state/minifram/demo/watcher.log")
    shutil.rmtree(kept)
