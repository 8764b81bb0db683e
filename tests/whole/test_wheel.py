"""minifram as it is installed: from a wheel, into an environment that holds its requirements and no checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.project import first_files, image_files
from infra.keep.services.children import runner_command

ROOT = Path(__file__).parents[2]


class Installed:
    """An environment with the wheel, and a PM of its own."""

    def __init__(self, directory: Path) -> None:
        self.venv, self.run = directory / "venv", tempfile.mkdtemp(prefix="mf-")  # short, as a socket's path is
        self.python = str(self.venv / "bin/python")
        self.environ = {
            **{name: str(directory / name) for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")},
            "PATH": f"{self.venv}/bin:/usr/local/bin:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": self.run,
        }
        pip = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        offline = ["--no-deps", "--no-index", "--no-cache-dir"]
        build = [*pip, "wheel", "--no-build-isolation", *offline, f"--wheel-dir={directory}", str(ROOT)]
        subprocess.run(build, check=True)
        (wheel,) = directory.glob("minifram-*.whl")
        subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(self.venv)], check=True)
        install = [*pip, f"--python={self.python}", "install", "--no-compile", *offline, str(wheel)]
        subprocess.run(install, check=True)
        self.packages = next(self.venv.glob("lib/python3*/site-packages"))
        self.tree = self.packages / "minifram/tree"
        # The locked requirements, as they lie in the environment of these tests.
        (self.packages / "requirements.pth").write_text(sysconfig.get_path("purelib"))

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.venv / "bin/minifram"), *words]
        return subprocess.run(command, env=self.environ, cwd="/", capture_output=True, text=True)

    def done(self, *words: str) -> str:
        ended = self.call(*words)
        assert ended.returncode == 0, ended
        return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    made = Installed(tmp_path_factory.mktemp("wheel"))
    yield made
    made.call("down")
    shutil.rmtree(made.run)


@pytest.mark.heavy
def test_an_agent_lives_by_the_wheel_alone(installed: Installed) -> None:
    """init, up, status and down, by the code in site-packages, which is all that this project hands on."""
    installed.done("init", "--sandbox", "process", "--model", "scripted")
    installed.done("up")
    status = json.loads(installed.done("status", "--json"))
    command = Path(f"/proc/{status['pid']}/environ").read_text()

    assert status["running"]
    assert f"PYTHONPATH={installed.tree}\0" in command
    installed.done("down")
    assert installed.call("status").returncode == 3


@pytest.mark.heavy
def test_the_wheel_holds_what_an_agent_and_its_image_are_made_of(installed: Installed) -> None:
    """Every file of the first commit and of the image, executable or not as in the checkout; and what makes images."""
    for files in (first_files, image_files):
        here, there = ({(each.path, each.executable) for each in files(str(root))} for root in (ROOT, installed.tree))
        assert here == there
    for name in ("Containerfile", "Containerfile.eye", "scripts/debian-base"):
        assert (installed.tree / name).read_bytes() == (ROOT / name).read_bytes()
        assert (installed.tree / name).stat().st_mode & 0o100 == (ROOT / name).stat().st_mode & 0o100
    assert installed.done("--version").startswith("minifram ")


@pytest.mark.heavy
@pytest.mark.parametrize("broken", ["gone", "syntax"])
def test_a_broken_checkout_never_runs_the_installed_code(installed: Installed, tmp_path: Path, broken: str) -> None:
    """A runner that is started in it fails, though the wheel with a whole one is in the very same environment."""
    assert {path.name for path in installed.packages.iterdir() if path.is_dir()} >= {"minifram"}
    assert not [name for name in ("infra", "host") if (installed.packages / name).exists()]
    if broken == "syntax":
        shutil.copytree(ROOT / "infra", tmp_path / "infra")
        (tmp_path / "infra/runner.py").write_text("def run(:\n")

    ended = subprocess.run(
        runner_command(str(tmp_path), installed.python),
        cwd=tmp_path,
        env=installed.environ,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 1
    assert ("SyntaxError" if broken == "syntax" else "No module named 'infra'") in ended.stderr
    assert str(installed.tree) not in ended.stderr
