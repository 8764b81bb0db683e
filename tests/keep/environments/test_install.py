"""Installing for real, by pip from an index on loopback: whole or not at all."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.keep.environments import choose
from infra.keep.environments.install import KEPT, NotInstalled, install, is_away
from infra.keep.supervision.preparation import _installed
from infra.shared.exit_codes import Exit
from infra.shared.safe_files import Below
from tests.keep.environments.wheelwright import Index, serving
from tests.keep.supervision.agents import living, within

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.heavy


class Cell:
    """An agent's directory, an index with a few wheels, and the installer as the watcher runs it."""

    def __init__(self, directory: Path) -> None:
        self.bot = directory / "bot"
        self.copy = directory / "copy"
        for each in (self.bot, self.copy):
            each.mkdir()
        self.environments = self.bot / ".environments"
        self.index = Index(directory / "index")
        self.index.has("alpha", "1.0")
        self.index.has("beta", "2.0", requires=("alpha",))
        self.index.has("clash", "1.0", requires=("alpha>2",))

    def ask(self, requirements: str) -> None:
        (self.copy / "requirements.txt").write_text(requirements)

    def start(self, seconds: float = 60.0, others: tuple[Path, ...] = ()) -> subprocess.Popen[bytes]:
        words = [str(word) for word in (self.bot, self.environments, seconds, self.copy, *others)]
        return subprocess.Popen(
            [sys.executable, "-s", "-P", "-m", "infra.keep.environments.install", *words],
            env={
                **{"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(self.bot)},
                "PIP_INDEX_URL": self.index.url,
            },
            stdout=subprocess.PIPE,
            cwd="/",
        )

    def install(self, requirements: str, seconds: float = 60.0) -> tuple[str, bool, str]:
        """Why not, whether the version is to blame, and pip's last lines, as the watcher reads them."""
        self.ask(requirements)
        with self.start(seconds) as process:
            stdout, _ = process.communicate()
        return _installed(stdout, process.returncode)

    def chosen(self) -> str | None:
        bot, copy = Below(str(self.bot)), str(self.copy)
        return choose.interpreter(Below(copy), copy, bot, str(self.environments), own=f"{copy}/none")

    def left(self) -> list[Path]:
        return list(self.environments.iterdir())


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


def said_by(interpreter: str, code: str) -> str:
    done = subprocess.run([interpreter, "-E", "-s", "-c", code], capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.strip()


def test_an_environment_holds_what_is_named_and_is_found_again(cell: Cell) -> None:
    """The packages with what they need, compiled, their programs; no pip and nothing of the keep's. The same in other
    words needs no index."""
    with serving(cell.index):
        assert cell.install("beta\n") == ("", False, "")
    interpreter = cell.chosen()
    assert interpreter
    names = "sorted(d.metadata['Name'] for d in m.distributions())"
    listing = f"import importlib.metadata as m, json; print(json.dumps({names}))"
    assert json.loads(said_by(interpreter, listing)) == ["alpha", "beta"]
    assert said_by(interpreter, "import sys; print(sys.version)") == sys.version
    environment = Path(interpreter).parents[1]
    assert sorted(path.name.split(".")[0] for path in environment.rglob("*.pyc")) == ["alpha", "beta"]
    program = subprocess.run([environment / "bin/beta"], capture_output=True, text=True, check=True)
    assert program.stdout == "2.0\n"
    assert not (environment / ".temporary").exists()
    assert cell.install("# other words\n\nbeta\n") == ("", False, "")
    assert cell.chosen() == interpreter


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        ("unknown", "No matching distribution found for unknown"),
        ("clash\nalpha==1.0", "conflicting dependencies"),
        (f"alpha==1.0 --hash=sha256:{'0' * 64}", "DO NOT MATCH THE HASHES"),
        ("-r other.txt", "Could not open requirements file"),
    ],
)
def test_what_the_requirements_are_to_blame_for(cell: Cell, requirements: str, words: str) -> None:
    """While the index answers it is no outage; pip's lines say what it is, and nothing is left behind."""
    with serving(cell.index):
        why, is_fault, lines = cell.install(requirements)
    assert "its requirements could not be installed: ERROR: " in why
    assert is_fault
    assert re.search(words, f"{why}\n{lines}"), lines
    assert cell.left() == []


@pytest.mark.fault("F68")
def test_an_index_that_cannot_be_asked_is_an_outage(cell: Cell) -> None:
    """It refuses the connection, or answers with an error of its own: nothing is said of the requirements. The one that
    the file names counts."""
    with serving(cell.index):
        why, is_fault, _ = cell.install("--index-url http://127.0.0.1:9/simple\nalpha\n")
        assert why
        assert not is_fault
        assert not is_away(cell.index.url), "a package that is not there is no outage"
        cell.index.status = 503
        assert is_away(cell.index.url)
    assert is_away(cell.index.url)
    assert not is_away("no address"), "that is the file's fault"


def test_an_install_that_takes_too_long_is_ended(cell: Cell) -> None:
    """At its limit pip and all of it are ended, nothing is left on the disk, and it counts as an outage."""
    cell.index.stall.set()
    with serving(cell.index):
        why, is_fault, _ = cell.install("alpha", seconds=1.5)
        within(30.0, lambda: not living("HOME", str(cell.bot)), "its processes end")
    assert "longer than it may" in why
    assert not is_fault
    assert cell.left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_install_that_is_ended_is_never_used(cell: Cell, number: signal.Signals) -> None:
    """SIGTERM ends pip too and removes what was half made; what SIGKILL leaves is not chosen, and the next install
    makes a whole one in its place."""
    cell.index.stall.set()
    with serving(cell.index):
        cell.ask("alpha")
        with cell.start() as process:
            within(30.0, lambda: cell.index.asked, "pip asks the index")
            assert len(cell.left()) == 1
            process.send_signal(number)
            stdout, _ = process.communicate()
        for orphan in living("HOME", str(cell.bot)) if number == signal.SIGKILL else ():
            orphan.kill()
        within(30.0, lambda: not living("HOME", str(cell.bot)), "its processes end")
    assert not _installed(stdout, process.returncode)[1]
    assert len(cell.left()) == (number == signal.SIGKILL)
    assert cell.chosen() is None
    cell.index.stall.clear()
    with serving(cell.index):
        assert cell.install("alpha")[0] == ""
    assert cell.chosen()


def test_the_newest_and_those_of_other_versions_stay(cell: Cell, tmp_path: Path) -> None:
    """What is not whole goes at the next install, and so do the oldest but for those of the versions that are named."""
    cell.environments.mkdir()
    (tmp_path / "good").mkdir()
    (tmp_path / "good/requirements.txt").write_text("old-0\n")
    places = []
    for number in range(KEPT + 2):
        places.append(Path(choose.place(str(cell.environments), f"old-{number}".encode())))
        (places[-1] / "bin").mkdir(parents=True)
        (places[-1] / "bin/python").symlink_to(sys.executable)
        marker = places[-1] / choose.MARKER
        marker.touch()
        os.utime(marker, (1000 + number, 1000 + number))
    (places[-1] / choose.MARKER).unlink()
    cell.ask("--no-index\nalpha\n")
    with cell.start(others=(tmp_path / "good", tmp_path / "none")) as process:
        process.communicate()
    assert sorted(cell.left()) == sorted([places[0], *places[2:-1]])


def test_what_stands_in_the_way_is_set_aside_or_opened_up(cell: Cell, tmp_path: Path) -> None:
    """A link in the place of the environments is moved, never followed; a bad branch that closes them must not keep
    main from its own. Nothing is begun when too little of the disk is free, which is an outage."""
    outside = tmp_path / "outside"
    outside.mkdir()
    cell.environments.symlink_to(outside)
    cell.ask("alpha")
    for _ in range(2):
        with pytest.raises(NotInstalled, match="make room") as refused:
            install(Below(str(cell.bot)), str(cell.environments), str(cell.copy), time.monotonic() + 60, (), 1 << 60)
        assert refused.value.is_outage
        assert cell.left() == []
        assert not cell.environments.is_symlink()
        assert cell.environments.stat().st_mode & 0o777 == 0o700
        cell.environments.chmod(0)
    assert list(outside.iterdir()) == []


def test_any_end_of_the_installer_is_read(cell: Cell) -> None:
    """It ran as the cell: whatever it printed, one line says why, and a killed one blames nobody."""
    assert _installed(b"anything", 0)[0] == ""
    assert _installed(b"", -signal.SIGKILL) == ("its requirements could not be installed: status -9", False, "")
    why, is_fault, lines = _installed(b"\xff\x1b[31m" * 9999 + b"\nw\x07\n" * 9999, Exit.FAILURE)
    assert is_fault
    assert len(why) < 1000
    assert len(lines) < 10_000
    assert not set("\x1b\x07") & set(why + lines)
