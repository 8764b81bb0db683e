"""What is removed: what nobody will miss, however hard the agent made it to remove, and nothing behind a link."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from infra.keep.environments import store, tidy
from infra.keep.environments.requirements import fingerprint, this_runtime, understand
from infra.keep.environments.store import alone_in
from infra.keep.environments.tidy import Environment, Wheel, oldest, unused

HASHES = st.sampled_from(["", "a", "b", "c", "d", "e", "f"])
entries = st.lists(
    st.builds(Environment, st.integers(0, 30).map(str), HASHES, st.floats(0, 9)), unique_by=lambda entry: entry.path
)


@given(entries, st.frozensets(HASHES), st.frozensets(st.integers(0, 30).map(str)), st.integers(0, 3))
def test_what_is_needed_stays_and_the_rest_is_bounded(
    found: list[Environment], named: frozenset[str], stay: frozenset[str], spare: int
) -> None:
    """One for each hash that a branch leads to, all that are to stay, the newest spare ones; nothing else."""
    going = set(unused(found, named, stay, spare))
    left = [entry for entry in found if entry.path not in going]
    assert not going & stay
    assert going <= {entry.path for entry in found}
    assert {entry.hash for entry in found} & named - {""} <= {entry.hash for entry in left}
    unneeded = [entry for entry in left if entry.path not in stay and entry.hash not in named]
    assert len(unneeded) <= spare
    assert all(entry.hash for entry in left if entry.path not in stay)
    free = [entry for entry in left if entry.path not in stay]
    assert len({entry.hash for entry in free}) == len(free)


def test_the_newest_unused_ones_stay() -> None:
    """Two of them, whatever their names are."""
    found = [Environment(f"/{made}", f"hash {made}", made) for made in (3.0, 1.0, 4.0, 2.0)]
    assert unused(found, frozenset(), frozenset()) == ["/1.0", "/2.0"]
    assert unused(found, frozenset({"hash 1.0"}), frozenset({"/2.0"})) == []


@given(st.lists(st.builds(Wheel, st.text(), st.integers(0, 9), st.floats(0, 9)), unique_by=lambda one: one.path))
def test_the_oldest_wheels_go(wheels: list[Wheel]) -> None:
    """As few as will do, and none while they are within the limit."""
    going = oldest(wheels, 20)
    left = [wheel for wheel in wheels if wheel.path not in going]
    assert sum(wheel.size for wheel in left) <= 20
    assert bool(going) == (sum(wheel.size for wheel in wheels) > 20)
    gone = [wheel for wheel in wheels if wheel.path in going]
    assert not gone or not left or max(wheel.made for wheel in gone) <= min(wheel.made for wheel in left)


def put(bot: Path, requirements: str) -> Path:
    """A whole environment for these requirements."""
    found = fingerprint(understand(requirements.encode(), "r"), this_runtime())
    place = bot / ".environments" / f"{found[:16]}-00000000"
    (place / "bin").mkdir(parents=True)
    (place / "bin/python").symlink_to(sys.executable)
    (place / store.MARKER).write_text(f"{found}\n")
    return place


def branch(bot: Path, name: str, requirements: str) -> None:
    checkout = bot / name / "minifram"
    checkout.mkdir(parents=True)
    (checkout / "requirements.txt").write_text(requirements)


def test_branches_decide_what_stays(tmp_path: Path) -> None:
    """Environments of branches below any slashes stay, of the rest two, halves go; other files are left alone."""
    bot = tmp_path / "bot"
    branch(bot, "improve", "alpha")
    branch(bot, "improve/more", "beta")
    branch(bot, "strange", "-e .")
    used = [put(bot, "alpha"), put(bot, "beta"), put(bot, "known-good")]
    spare = [put(bot, f"unused-{number}") for number in range(4)]
    for age, place in enumerate(spare):
        os.utime(place / store.MARKER, (1000 - age, 1000 - age))
    half = put(bot, "half")
    (half / store.MARKER).unlink()
    (bot / ".cache/wheels").mkdir(parents=True)
    (bot / ".cache/wheels/alpha-1.0-py3-none-any.whl").write_text("")
    given = [str(bot), str(bot / ".environments"), str(bot / ".cache/wheels"), str(used[2])]
    done = subprocess.run(
        [sys.executable, "-s", "-P", "-m", "infra.keep.environments.tidy", *given],
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == sorted(map(str, [*spare[2:], half]))
    assert sorted((bot / ".environments").iterdir()) == sorted([*used, *spare[:2]])
    assert (bot / "improve/minifram/requirements.txt").exists()
    assert (bot / ".cache/wheels/alpha-1.0-py3-none-any.whl").exists()


def run(bot: Path) -> list[str]:
    return tidy.tidy(str(bot), str(bot / ".environments"), str(bot / ".cache/wheels"), frozenset())


def test_nothing_to_tidy_is_fine(tmp_path: Path) -> None:
    """No environments, no wheels, a link in their place: nothing happens."""
    assert run(tmp_path) == []
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (tmp_path / ".environments").symlink_to("outside")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache/wheels").symlink_to("../outside/precious")
    assert run(tmp_path) == []
    assert (outside / "precious").exists()


def test_what_is_hard_to_remove_goes(tmp_path: Path) -> None:
    """Directories without rights, great depth, pipes and links go; what links lead to stays."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    environments = tmp_path / ".environments"
    hard = environments / "0123456789abcdef-00000000"
    (hard / "closed/inner").mkdir(parents=True)
    (hard / "closed/inner/file").write_text("")
    (hard / "outside").symlink_to(precious)
    os.mkfifo(hard / "pipe")
    inside = os.open(hard, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=inside)
        inner = os.open("deep", os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = inner
    os.close(inside)
    os.chmod(hard / "closed/inner", 0)
    os.chmod(hard / "closed", 0)
    os.mkfifo(environments / "pipe")
    (environments / "link").symlink_to(precious)
    assert run(tmp_path) == []
    assert list(environments.iterdir()) == []
    assert (precious / "file").exists()


def test_nothing_goes_while_something_is_installed(tmp_path: Path) -> None:
    """What is half made at that moment is not taken away; afterwards it is."""
    half = tmp_path / ".environments/0123456789abcdef-00000000"
    half.mkdir(parents=True)
    with alone_in(str(half.parent), 0.0):
        problems = tidy.tidy(str(tmp_path), str(half.parent), str(tmp_path / "none"), frozenset(), lock_seconds=0.0)
    assert len(problems) == 1
    assert "another install or tidying" in problems[0]
    assert half.exists()
    assert run(tmp_path) == []
    assert not half.exists()
