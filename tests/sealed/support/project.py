"""The project where the ordinary user of these tests can read and run it: a copy."""

from __future__ import annotations

import compileall
import shutil
import subprocess
from pathlib import Path

from tests.sealed.support.rootless import Ended, Rootless

ROOT = Path(__file__).parents[3]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache")


class Project:
    """The `minifram` command as the ordinary user runs it."""

    def __init__(self, user: Rootless) -> None:
        self.user, self.root = user, user.scratch / "project"
        self.no_registry = user.put("registries.conf", "unqualified-search-registries = []\n")
        user.once("project", self._copy)

    def _copy(self) -> None:
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)
        # Compiled once, where this user cannot write it: else each command would compile its imports.
        assert all([compileall.compile_dir(self.root / part, quiet=1) for part in ("host", "infra")])
        subprocess.run(["chmod", "-R", "a+rX", self.root], check=True)

    def command(self, module: str, *words: str, **environ: str) -> list[str]:
        """A module of the project; no registry is ever asked for an image."""
        given = environ | {"PYTHONPATH": str(self.root), "CONTAINERS_REGISTRIES_CONF": str(self.no_registry)}
        settings = [f"{name}={value}" for name, value in given.items()]
        return ["/usr/bin/env", *settings, str(self.user.python()), "-s", "-P", "-m", module, *words]

    def minifram(self, *words: str, check: bool = True, timeout: float = 120.0) -> Ended:
        return self.user.run(*self.command("host", *words), check=check, timeout=timeout)
