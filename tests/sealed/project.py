"""The project where the ordinary user of these tests can read and run it: a copy, with the packages it needs."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
from pathlib import Path

import pytest

from tests.sealed.rootless import Ended, Rootless

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__"
)
PYTHON = "/usr/bin/python3.11"
"""Debian's: the one that the tests run with may lie where only its owner can read."""


class Project:
    """The `minifram` command as the ordinary user runs it."""

    def __init__(self, user: Rootless) -> None:
        self.user = user
        self.root = user.scratch / "project"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)
        # As scripts/setup makes it, but with the packages that are here already.
        venv = user.scratch / "venv"
        subprocess.run([PYTHON, "-I", "-m", "venv", "--without-pip", venv], check=True)
        packages = next(path for path in site.getsitepackages() if path.endswith("site-packages"))
        into = venv / "lib/python3.11/site-packages"
        shutil.copytree(packages, into, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        subprocess.run(["chmod", "-R", "a+rX", self.root, venv], check=True)
        self._python = venv / "bin/python"

    def minifram(self, *words: str, check: bool = True, timeout: float = 120.0) -> Ended:
        command = [str(self._python), "-s", "-P", "-m", "host", *words]
        return self.user.run("/usr/bin/env", f"PYTHONPATH={self.root}", *command, check=check, timeout=timeout)


@pytest.fixture(scope="session")
def project(user: Rootless) -> Project:
    """A copy of the project, made once."""
    if not os.path.exists(PYTHON):
        pytest.fail(f"{PYTHON} is missing. Have root run: apt-get install -y --no-install-recommends python3.11")
    return Project(user)
