"""HOME of the cell: empty at each start, so that no version acts through what another one left there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from infra.keep.boot_files import make_home
from infra.keep.services import children
from infra.shared.boot import Boot, Limits
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.safe_files import Below

LEFT = {".config/pip/pip.conf": "[global]\nindex-url = https://host.example/\n", ".profile": "exit 3\n"}
SHOW = "import os, site; print(os.environ['HOME'], sorted(os.listdir(os.environ['HOME'])), site.getusersitepackages())"


def boot_of(places: Paths, id: str) -> Boot:
    limits = Limits(10.0, 10, 10.0)
    return Boot(id, "main", "1" * 40, "birth", places.remote, "merge", places, limits)


def started(places: Paths, id: str, log: Path) -> list[str]:
    """What a runner of this boot is shown of its HOME."""
    boot = boot_of(places, id)
    with log.open("wb") as output:
        assert not children.spawn(boot, [sys.executable, "-c", SHOW], output.fileno()).wait()
    return log.read_text().split(maxsplit=1)


def test_each_start_has_an_empty_home(tmp_path: Path) -> None:
    """Nothing of an earlier one is read: neither pip's settings nor a shell's, nor a user site."""
    places = Paths(str(tmp_path / "bot"), str(tmp_path / "remote.git"), str(tmp_path / "run"), str(tmp_path / "var"))
    os.makedirs(places.main_checkout)
    for name, text in LEFT.items():  # as versions before there was this rule left it
        (tmp_path / "bot" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "bot" / name).write_text(text)

    first, shown = started(places, "a" * 32, tmp_path / "log")
    assert shown.startswith(f"[] {first}/.local/")
    for name, text in LEFT.items():
        Path(first, name).parent.mkdir(parents=True, exist_ok=True)
        Path(first, name).write_text(text)
    second, shown = started(places, "b" * 32, tmp_path / "log")

    assert second != first
    assert shown.startswith(f"[] {second}/.local/")
    assert not os.path.lexists(first)


def test_a_home_that_somebody_made_first_is_not_used(tmp_path: Path) -> None:
    """A link or a directory at the new name is moved away, and what cannot be moved stays unread."""
    places = Paths(str(tmp_path), "/remote.git", "/run", "/var")
    os.symlink("/etc", places.home("c" * 32))
    make_home(Below(places.bot), places.home("c" * 32))
    assert os.listdir(places.home("c" * 32)) == []
    assert not os.path.islink(places.home("c" * 32))


def test_pip_and_git_of_the_cell(tmp_path: Path) -> None:
    """pip reads no settings of anybody's, and git commits as the agent whatever a clone's configuration says."""
    places = Paths(str(tmp_path), "/remote.git", "/run", "/var")
    env = children.cell_environment(boot_of(places, "d" * 32))
    assert env["PIP_CONFIG_FILE"] == "/dev/null"

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=tmp_path, env=env, capture_output=True, text=True).stdout

    git("init", "--quiet")
    git("config", "user.name", "PM")
    git("config", "user.email", "pm@example.invalid")
    git("commit", "--quiet", "--allow-empty", "-m", "x")
    assert git("log", "-1", "--format=%cn <%ce>").strip() == f"{AGENT.name} <{AGENT.email}>"
