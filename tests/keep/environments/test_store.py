"""Which Python a branch is started with, and what of the agent's disk is believed on the way there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from infra.keep.environments import store
from infra.keep.environments.requirements import BadRequirements, fingerprint, this_runtime, understand
from infra.keep.environments.store import paths_of, wanted_hash
from infra.shared.safe_files import Below

ALPHA = fingerprint(understand(b"alpha", "r"), this_runtime())


class Bot:
    """A checkout, the keep's own requirements and a directory of environments."""

    def __init__(self, directory: Path) -> None:
        self.checkout = directory / "bot/improve/minifram"
        self.checkout.mkdir(parents=True)
        self.own = directory / "requirements.lock"
        self.own.write_text("own==1.0\n")
        self.environments = directory / "bot/.environments"

        self.files = Below(str(directory / "bot"))

    def look(self) -> str | None:
        return store.select(self.files, str(self.checkout), str(self.own), str(self.environments))

    def put(self, suffix: str = "00000000", marker: str = f"{ALPHA}\n", wanted: str = ALPHA) -> Path:
        """What looks like an environment."""
        place = self.environments / f"{wanted[:16]}-{suffix}"
        (place / "bin").mkdir(parents=True)
        (place / "bin/python").symlink_to(sys.executable)
        (place / store.MARKER).write_text(marker)
        return place


@pytest.fixture
def bot(tmp_path: Path) -> Bot:
    return Bot(tmp_path)


@pytest.mark.parametrize("theirs", [None, b"own==1.0\n", b"# same\n\nown==1.0", b"", b"# nothing\n", b"--pre\n"])
def test_nothing_else_than_the_keep_has_needs_no_environment(theirs: bytes | None) -> None:
    """No file, the same content in other words, and a file that names nothing: the keep's own interpreter."""
    assert wanted_hash(theirs, b"own==1.0\n", "r") == ""


def test_other_requirements_need_an_environment_of_their_own() -> None:
    """One that is there, the first of equal ones; else it has to be installed. One for another hash is none."""
    whole = {"/e/2": ALPHA, "/e/1": ALPHA, "/e/0": "f" * 64}
    assert paths_of(wanted_hash(b"alpha # why", b"own", "r"), whole) == ["/e/1", "/e/2"]
    assert paths_of(ALPHA, {"/e/0": "f" * 64}) == []
    assert wanted_hash(b"alpha", None, "r") == ALPHA
    assert fingerprint(understand(b"alpha", "r"), "another interpreter") != ALPHA
    with pytest.raises(BadRequirements, match="r, line 1"):
        wanted_hash(b"-e .", b"own", "r")


def test_the_lock_counts_before_the_plain_file(bot: Bot) -> None:
    """requirements.lock, else requirements.txt, at the root of the checkout; none of both is none."""
    assert bot.look() == sys.executable
    (bot.checkout / "requirements.txt").write_text("alpha\n")
    assert bot.look() is None
    (bot.checkout / "requirements.lock").write_text("own==1.0\n")
    assert bot.look() == sys.executable
    bot.own.unlink()
    assert bot.look() != sys.executable


def test_a_whole_environment_is_used(bot: Bot) -> None:
    """What the runner is started with lies in it; without one it is the keep's own."""
    (bot.checkout / "requirements.txt").write_text("alpha\n")
    place = bot.put()
    assert bot.look() == f"{place}/bin/python"
    store.forget(bot.files, str(place))
    assert bot.look() is None
    store.forget(bot.files, str(place))


def _no_marker(place: Path) -> None:
    (place / store.MARKER).unlink()


def _marker_is_a_pipe(place: Path) -> None:
    _no_marker(place)
    os.mkfifo(place / store.MARKER)


def _marker_is_a_link(place: Path) -> None:
    (place / store.MARKER).rename(place / "real")
    (place / store.MARKER).symlink_to("real")


def _marker_is_long(place: Path) -> None:
    with (place / store.MARKER).open("a") as marker:
        marker.truncate(1 << 30)


def _marker_is_of_another(place: Path) -> None:
    (place / store.MARKER).write_text("f" * 64 + "\n")


def _marker_is_half(place: Path) -> None:
    (place / store.MARKER).write_text(ALPHA)


def _marker_is_no_text(place: Path) -> None:
    (place / store.MARKER).write_bytes(b"\xff" * 65)


def _no_python(place: Path) -> None:
    (place / "bin/python").unlink()


def _python_leads_nowhere(place: Path) -> None:
    _no_python(place)
    (place / "bin/python").symlink_to("/proc/no/python")


def _python_is_a_pipe(place: Path) -> None:
    _no_python(place)
    os.mkfifo(place / "bin/python")


def _it_is_a_link(place: Path) -> None:
    place.rename(place.parent.parent / "elsewhere")
    place.symlink_to("../elsewhere")


def _it_is_a_file(place: Path) -> None:
    place.rename(place.parent.parent / "elsewhere")
    place.write_text("")


def _all_is_a_link(place: Path) -> None:
    place.parent.rename(place.parent.parent / "elsewhere")
    place.parent.symlink_to("elsewhere")


def _all_is_a_pipe(place: Path) -> None:
    place.parent.rename(place.parent.parent / "elsewhere")
    os.mkfifo(place.parent)


def _name_is_of_another(place: Path) -> None:
    place.rename(place.parent / ("f" * 16 + "-00000000"))


@pytest.mark.parametrize(
    "spoil",
    [
        _no_marker,
        _marker_is_a_pipe,
        _marker_is_a_link,
        _marker_is_long,
        _marker_is_of_another,
        _marker_is_half,
        _marker_is_no_text,
        _no_python,
        _python_leads_nowhere,
        _python_is_a_pipe,
        _it_is_a_link,
        _it_is_a_file,
        _all_is_a_link,
        _all_is_a_pipe,
        _name_is_of_another,
    ],
)
def test_what_is_no_whole_environment_is_not_used(bot: Bot, spoil: object) -> None:
    """Half of one, a link, a pipe, a marker of another: it is installed anew; the same unspoiled is used."""
    (bot.checkout / "requirements.txt").write_text("alpha\n")
    place = bot.put()
    assert bot.look() == f"{place}/bin/python"
    assert callable(spoil)
    spoil(place)
    assert bot.look() is None


def _a_pipe(path: Path) -> None:
    os.mkfifo(path)


def _a_link(path: Path) -> None:
    (path.parent / "other.txt").write_text("alpha\n")
    path.symlink_to("other.txt")


def _a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def _a_directory(path: Path) -> None:
    path.mkdir()


def _a_gibibyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


@pytest.mark.parametrize("put", [_a_pipe, _a_link, _a_link_to_nothing, _a_directory, _a_gibibyte])
@pytest.mark.parametrize("name", ["requirements.lock", "requirements.txt"])
def test_a_strange_requirements_file_is_refused(bot: Bot, name: str, put: object) -> None:
    """It is neither followed nor waited for nor read whole, and the other file does not take its place."""
    (bot.checkout / "requirements.txt").write_text("alpha\n")
    assert bot.look() is None
    (bot.checkout / name).unlink(missing_ok=True)
    assert callable(put)
    put(bot.checkout / name)
    with pytest.raises(BadRequirements, match=f"{name} is not a regular file"):
        bot.look()


def test_a_checkout_that_is_a_link_is_not_entered(bot: Bot) -> None:
    """The checkout itself is looked at as what it is."""
    moved = bot.checkout.with_name("moved")
    bot.checkout.rename(moved)
    bot.checkout.symlink_to("moved")
    with pytest.raises(OSError, match="minifram"):
        bot.look()
