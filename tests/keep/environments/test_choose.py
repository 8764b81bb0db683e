"""Which Python a version is started with, and what of the agent's disk is believed on the way there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.keep.environments import choose
from infra.shared.safe_files import Below, NotPlain


class Bot:
    """A copy of a commit, the keep's own requirements and a directory of environments."""

    def __init__(self, directory: Path) -> None:
        self.copy = directory / "bot/copy"
        self.copy.mkdir(parents=True)
        self.own = directory / "requirements.lock"
        self.own.write_text("own==1.0\n")
        self.files = Below(str(directory / "bot"))
        self.environments = directory / "bot/.environments"

    def chosen(self, **files: str) -> str | None:
        for name, text in files.items():
            (self.copy / f"requirements.{name}").write_text(text)
        return choose.interpreter(self.files, str(self.copy), self.files, str(self.environments), own=str(self.own))

    def put(self) -> Path:
        """What looks like an environment of alpha's."""
        place = Path(choose.place(str(self.environments), b"alpha"))
        (place / "bin").mkdir(parents=True)
        (place / "bin/python").symlink_to(sys.executable)
        (place / choose.MARKER).touch()
        return place


@pytest.fixture
def bot(tmp_path: Path) -> Bot:
    return Bot(tmp_path)


def test_who_asks_for_nothing_else_has_the_keeps_interpreter(bot: Bot) -> None:
    """No file, nothing in it, or the keep's own, with other comments; else the environment is to be installed."""
    assert bot.chosen() == sys.executable
    for text in ("", "# nothing\n\n", "own==1.0\n", "  # same\n\nown==1.0"):
        assert bot.chosen(txt=text) == sys.executable
    assert bot.chosen(txt="alpha\n") is None
    bot.own.unlink()
    assert bot.chosen(txt="own==1.0\n") is None


def test_the_lock_counts_before_the_plain_file(bot: Bot) -> None:
    assert bot.chosen(txt="alpha\n", lock="own==1.0\n") == sys.executable


def test_a_whole_environment_is_used_until_it_is_forgotten(bot: Bot) -> None:
    place = bot.put()
    assert bot.chosen(txt="# why\nalpha\n") == f"{place}/bin/python"
    choose.forget(bot.files, str(place))
    assert bot.chosen() is None
    choose.forget(bot.files, str(place))


@pytest.mark.parametrize(
    "spoil",
    [
        f"rm {choose.MARKER}",
        "ln -sf /proc/no/python bin/python",
        'mv "$PWD" ../../elsewhere; ln -s ../elsewhere "$PWD"',
        'cd ..; mv "$PWD" ../elsewhere; ln -s elsewhere "$PWD"',
    ],
)
def test_what_is_no_whole_environment_is_not_used(bot: Bot, spoil: str) -> None:
    """It is installed anew; nothing is followed or waited for."""
    place = bot.put()
    assert bot.chosen(txt="alpha\n")
    subprocess.run(["sh", "-c", spoil], cwd=place, check=True)
    assert bot.chosen() is None


def test_a_strange_requirements_file_is_refused(bot: Bot) -> None:
    """It is not waited for, and the other file does not take its place."""
    os.mkfifo(bot.copy / "requirements.lock")
    with pytest.raises(NotPlain, match=r"requirements\.lock"):
        bot.chosen(txt="alpha\n")
