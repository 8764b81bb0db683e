"""Installing for real, by pip from an index on loopback: whole or not at all, and without a network when it can be."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from infra.keep.environments import pip, store
from infra.keep.environments.install import install
from infra.keep.environments.pip import PipFailed, PipLimits, is_outage
from infra.keep.environments.request import InstallRequest, from_words, to_words
from infra.keep.environments.result import Failed, Installed, InstallResult, read_result
from infra.shared.safe_files import Below
from tests.keep.environments.wheelwright import Index, make_wheel, serving, sha256

ROOT = Path(__file__).parents[3]


class Cell:
    """An agent's directory, an index with a few wheels, and the installer as the watcher runs it."""

    def __init__(self, directory: Path) -> None:
        self.bot = directory / "bot"
        self.checkout = self.bot / "main/minifram"
        self.checkout.mkdir(parents=True)
        self.environments = self.bot / ".environments"
        self.wheels = self.bot / ".cache/wheels"
        self.config = directory / "pip.conf"
        self.index = Index(directory / "index")
        self.alpha = make_wheel(self.index.directory, "alpha", "1.0")
        self.beta = make_wheel(self.index.directory, "beta", "2.0", requires=("alpha",))
        make_wheel(self.index.directory, "clash", "1.0", requires=("alpha>2",))

    def ask(self, requirements: str) -> None:
        (self.checkout / "requirements.txt").write_text(requirements)

    def request(self, seconds: float = 60.0, free_bytes: int = 1000) -> InstallRequest:
        return InstallRequest(
            str(self.bot), str(self.checkout), str(self.environments), str(self.wheels), seconds, free_bytes
        )

    def start(self, seconds: float = 60.0) -> subprocess.Popen[bytes]:
        settings = self.index.settings(self.config)
        return subprocess.Popen(
            [sys.executable, "-s", "-P", "-m", "infra.keep.environments.install", *to_words(self.request(seconds))],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(self.bot), **settings},
            stdout=subprocess.PIPE,
            cwd="/",
        )

    def install(self, requirements: str, seconds: float = 60.0) -> InstallResult:
        self.ask(requirements)
        with self.start(seconds) as process:
            stdout, _ = process.communicate()
        return read_result(stdout, process.returncode)

    def look(self) -> str | None:
        return store.select(Below(str(self.bot)), str(self.checkout), str(self.bot / "none"), str(self.environments))

    def lock(self, *wheels: Path) -> str:
        named = [wheel.name.split("-") for wheel in wheels]
        return "".join(f"{n}=={v} --hash=sha256:{sha256(w)}\n" for w, (n, v, *_) in zip(wheels, named, strict=True))


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cell, str]:
    """beta and what it needs, installed once for several tests; the index is out of reach after that."""
    cell = Cell(tmp_path_factory.mktemp("installed"))
    with serving(cell.index):
        answer = cell.install("beta  # and what it needs\n")
        assert isinstance(answer, Installed), answer
    return cell, answer.interpreter


def said_by(interpreter: str, code: str) -> str:
    done = subprocess.run([interpreter, "-E", "-s", "-c", code], capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.strip()


@pytest.mark.heavy
def test_an_environment_holds_what_is_named_and_nothing_else(installed: tuple[Cell, str]) -> None:
    """The packages with what they need, compiled, their programs; no pip and nothing of the keep's."""
    cell, interpreter = installed
    listing = (
        "import importlib.metadata as m, json; print(json.dumps(sorted(d.metadata['Name'] for d in m.distributions())))"
    )
    assert json.loads(said_by(interpreter, listing)) == ["alpha", "beta"]
    assert said_by(interpreter, "import beta; print(beta.VERSION)") == "2.0"
    assert said_by(interpreter, "import sys; print(sys.version)") == sys.version
    environment = Path(interpreter).parents[1]
    compiled = sorted(path.name.split(".")[0] for path in environment.rglob("*.pyc"))
    assert compiled == ["alpha", "beta"]
    program = subprocess.run([environment / "bin/beta"], capture_output=True, text=True, check=True)
    assert program.stdout == "2.0\n"
    assert not (environment / ".fresh").exists()
    assert sorted(path.name for path in cell.wheels.iterdir()) == [cell.alpha.name, cell.beta.name]


@pytest.mark.heavy
def test_an_environment_is_found_again_and_shared(installed: tuple[Cell, str]) -> None:
    """The same in other words is the same environment: it is chosen, and installing it anew does nothing."""
    cell, interpreter = installed
    asked = len(cell.index.asked)
    for words in ("beta", "# other words\n\nbeta\n"):
        cell.ask(words)
        assert cell.look() == interpreter
        again = cell.install(words)
        assert isinstance(again, Installed)
        assert again.interpreter == interpreter
    assert len(cell.index.asked) == asked


@pytest.mark.heavy
def test_what_was_fetched_once_needs_no_network(installed: tuple[Cell, str]) -> None:
    """With the index out of reach: locked and unlocked requirements of kept wheels are installed; others are not."""
    cell, _ = installed
    for words in (cell.lock(cell.alpha), "alpha\nbeta==2.0\n"):
        answer = cell.install(words)
        assert isinstance(answer, Installed), answer
        assert said_by(answer.interpreter, "import alpha; print(alpha.VERSION)") == "1.0"
        assert cell.look()
    before = sorted(cell.environments.iterdir())
    unknown = cell.install("unknown\n")
    assert isinstance(unknown, Failed)
    assert unknown.outage
    assert "because of the network or this machine" in unknown.error
    assert sorted(cell.environments.iterdir()) == before


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        ("unknown", "No matching distribution found for unknown"),
        pytest.param("alpha==9", "No matching distribution found for alpha==9", marks=pytest.mark.long),
        ("clash\nalpha==1.0", "conflicting dependencies"),
        (f"alpha==1.0 --hash=sha256:{'0' * 64}", "DO NOT MATCH THE HASHES"),
        pytest.param(f"alpha --hash=sha256:{'0' * 64}", "must have their versions pinned", marks=pytest.mark.long),
        pytest.param("alpha==1.0; nonsense", "[iI]nvalid|[eE]xpected", marks=pytest.mark.long),
    ],
)
def test_what_the_requirements_are_to_blame_for(cell: Cell, requirements: str, words: str) -> None:
    """While the index answers it is no outage; pip's words say what it is, and nothing is left behind."""
    with serving(cell.index):
        answer = cell.install(requirements)
    assert isinstance(answer, Failed)
    assert not answer.outage
    assert "because of what they name" in answer.error
    assert re.search(words, answer.words), answer.words
    assert list(cell.environments.iterdir()) == []


@pytest.mark.heavy
def test_a_broken_index_is_an_outage(cell: Cell) -> None:
    """An index that answers with an error of its own says nothing about the requirements."""
    cell.index.status = 503
    with serving(cell.index):
        answer = cell.install("alpha")
        assert isinstance(answer, Failed)
        assert answer.outage, answer.words
        cell.index.status = 200
        assert isinstance(cell.install("alpha"), Installed)


@pytest.mark.heavy
def test_what_was_kept_and_spoiled_is_fetched_again(cell: Cell) -> None:
    """A locked wheel is taken by its hash alone, whatever lies under its name."""
    with serving(cell.index):
        cell.wheels.mkdir(parents=True)
        (cell.wheels / cell.alpha.name).write_bytes(b"spoiled")
        answer = cell.install(cell.lock(cell.alpha))
    assert isinstance(answer, Installed), answer
    assert sha256(cell.wheels / cell.alpha.name) == sha256(cell.alpha)


def running(cell: Cell) -> list[psutil.Process]:
    """Processes that were started for this cell."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME") == str(cell.bot):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_for(what: str, holds: object, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    assert callable(holds)
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_an_install_that_takes_too_long_is_ended(cell: Cell) -> None:
    """At its limit pip and all of it are ended, nothing is left on the disk, and it counts as an outage."""
    cell.index.stall.set()
    with serving(cell.index):
        answer = cell.install("alpha", seconds=1.5)
        wait_for("its processes end", lambda: not running(cell))
    assert isinstance(answer, Failed)
    assert answer.outage
    assert "longer than it may" in answer.error
    assert list(cell.environments.iterdir()) == []


def test_an_installer_that_is_asked_to_end_leaves_nothing(cell: Cell) -> None:
    """SIGTERM ends pip too and removes what was half made."""
    cell.index.stall.set()
    with serving(cell.index):
        cell.ask("alpha")
        with cell.start() as process:
            wait_for("pip asks the index", lambda: cell.index.asked)
            assert len(list(cell.environments.iterdir())) == 1
            process.terminate()
            process.communicate()
        wait_for("its processes end", lambda: not running(cell))
    assert process.returncode == 128 + signal.SIGTERM
    assert list(cell.environments.iterdir()) == []


@pytest.mark.heavy
def test_a_killed_install_is_never_used(cell: Cell) -> None:
    """What SIGKILL leaves half made is not chosen; the next install removes it and makes a whole one."""
    cell.index.stall.set()
    with serving(cell.index):
        cell.ask("alpha")
        with cell.start() as process:
            wait_for("pip asks the index", lambda: cell.index.asked)
            process.kill()
            process.communicate()
        for orphan in running(cell):
            orphan.kill()
        wait_for("its processes end", lambda: not running(cell))
    assert len(list(cell.environments.iterdir())) == 1
    assert cell.look() is None
    cell.index.stall.clear()
    with serving(cell.index):
        answer = cell.install("alpha")
    assert isinstance(answer, Installed), answer
    assert [str(path) for path in cell.environments.iterdir()] == [str(Path(answer.interpreter).parents[1])]
    assert cell.look()


def _no_file(cell: Cell) -> None:
    (cell.checkout / "requirements.txt").unlink()


def _a_pipe(cell: Cell) -> None:
    _no_file(cell)
    os.mkfifo(cell.checkout / "requirements.txt")


def _included(cell: Cell) -> None:
    cell.ask("-r other.txt")


def _no_text(cell: Cell) -> None:
    (cell.checkout / "requirements.txt").write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_no_file, "has no requirements file"),
        (_a_pipe, "not a regular file"),
        (_included, "another file is included"),
        (_no_text, "not UTF-8"),
    ],
)
def test_what_pip_is_never_asked(cell: Cell, spoil: object, words: str) -> None:
    """Requirements that are not taken fail at once, by their own fault, before anything is made."""
    cell.ask("alpha")
    assert callable(spoil)
    spoil(cell)
    answer = install(cell.request(), {}, time.monotonic())
    assert isinstance(answer, Failed)
    assert words in answer.error
    assert not answer.outage
    assert not cell.environments.exists()


def test_a_full_disk_is_an_outage(cell: Cell, tmp_path: Path) -> None:
    """Nothing is begun when too little is free, and what has begun is ended."""
    cell.ask("alpha")
    answer = install(cell.request(free_bytes=1 << 60), {}, time.monotonic())
    assert isinstance(answer, Failed)
    assert answer.outage
    assert "bytes are free in" in answer.error
    assert list(cell.environments.iterdir()) == []
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(cell.bot)}
    limits = PipLimits(time.monotonic() + 30, str(tmp_path), 1 << 60)
    with pytest.raises(PipFailed, match="make room") as refused:
        pip.run(["--version"], environ, str(tmp_path), limits)
    assert refused.value.outage
    assert running(cell) == []
    pip.run(["--version"], environ, str(tmp_path), limits._replace(free_bytes=1))


def test_what_stands_in_the_way_is_set_aside(cell: Cell, tmp_path: Path) -> None:
    """A link or a file in the place of the directories is moved, never followed; then all goes on."""
    outside = tmp_path / "outside"
    outside.mkdir()
    cell.environments.symlink_to(outside)
    cell.wheels.parent.write_text("")
    cell.ask("alpha")
    answer = install(cell.request(free_bytes=1 << 60), {}, time.monotonic())
    assert isinstance(answer, Failed)
    assert "bytes are free in" in answer.error
    assert list(outside.iterdir()) == []
    assert cell.environments.is_dir()
    assert cell.wheels.is_dir()
    assert not cell.environments.is_symlink()
    assert len([path for path in cell.bot.iterdir() if ".aside-" in path.name]) == 2


def test_directories_that_the_agent_closed_are_opened_up(cell: Cell) -> None:
    """A bad branch must not keep main from its environment."""
    for directory in (cell.wheels.parent, cell.environments):
        directory.mkdir(mode=0)
    cell.ask("alpha")
    answer = install(cell.request(free_bytes=1 << 60), {}, time.monotonic())
    assert isinstance(answer, Failed)
    assert "bytes are free in" in answer.error
    assert {path.stat().st_mode & 0o777 for path in (cell.wheels.parent, cell.environments)} == {0o700}


@pytest.mark.parametrize(
    ("output", "outage"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", True),
        ("THESE PACKAGES DO NOT MATCH THE HASHES\n[Errno 28] No space left on device", True),
        ("Retrying (Retry(total=1\nERROR: No matching distribution found for x", True),
        ("Retrying (Retry(total=1\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES", False),
        ("ERROR: No matching distribution found for x", False),
        ("ERROR: HTTP error 503 while getting x\n503 Server Error: busy", True),
        ("404 Client Error: Not Found", False),
        ("Traceback (most recent call last):\nKeyError: 'x'", False),
        ("", False),
    ],
)
def test_blame_is_told_from_the_words(output: str, outage: bool) -> None:
    """A full disk explains everything; what is certainly the requirements' fault comes before signs of the network."""
    assert is_outage(output) == outage


def test_a_page_that_was_passed_over_is_told_by_the_log() -> None:
    """A package that is not there is the requirements' fault, unless its index had an error of its own."""
    output = "ERROR: No matching distribution found for x"
    assert is_outage(output, "Could not fetch URL http://h/simple/x/: 503 Server Error: busy for url - skipping")
    assert not is_outage(output, "Could not fetch URL http://h/simple/x/: 404 Client Error: none for url - skipping")


def test_a_request_is_read_back() -> None:
    """The installer is given what the watcher meant, also of strange paths."""
    request = InstallRequest("/bot", "/bot/a b/minifram", "/bot/--pre", "/bot/é", 1.5, 7)
    assert from_words(to_words(request)) == request
