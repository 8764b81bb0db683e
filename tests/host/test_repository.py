"""Git works on the agent's bare repository only while its configuration is what `minifram init` wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from host.repository import open_repository, pm_of
from infra.keep.repository.bare_config import config_text
from infra.shared.people import Person
from infra.shared.repository.git import GitError
from tests.host.desk import Desk


def _set(desk: Desk, key: str, value: str) -> None:
    subprocess.run(["git", "config", "--file", f"{desk.home().remote}/config", key, value], check=True)


def test_without_an_agent_the_command_names_the_place_and_the_way(bare_desk: Desk) -> None:
    """Not initialised is 4, with the path and the command that helps, and the agents there are."""
    bare_desk.done("init", "--sandbox", "process", "--agent", "second")
    for verb in ("status", "reports", "review", "config", "logs", "up", "down", "restart"):
        ended = bare_desk.run(verb)
        assert (ended.code, ended.out) == (4, ""), verb
        assert bare_desk.home().remote in ended.err
        assert "minifram init" in ended.err
        assert "second" in ended.err


def _without(desk: Desk) -> Path:
    """The place of the repository, which is gone."""
    shutil.rmtree(desk.home().remote)
    return Path(desk.home().remote)


def _another(desk: Desk) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", _without(desk)], check=True)


def _linked(desk: Desk) -> None:
    os.rename(desk.home().remote, desk.root / "elsewhere")
    os.symlink(desk.root / "elsewhere", desk.home().remote)


SPOILT: tuple[tuple[Callable[[Desk], object], int, str], ...] = (
    (lambda desk: _without(desk).write_text("not a repository"), 4, "Not a directory"),
    (lambda desk: _without(desk).mkdir(), 4, "No such file or directory"),
    (_linked, 5, "expected a directory"),
    (_another, 5, config_text("agent")),
    (lambda desk: os.chmod(desk.home().remote, 0o770), 5, "mode 0770"),
    (lambda desk: _set(desk, "minifram.agent", "other"), 5, config_text("agent")),
    (lambda desk: shutil.rmtree(f"{desk.home().remote}/objects"), 1, "not a git repository"),
)


@pytest.mark.attack("S25")
@pytest.mark.parametrize(("spoil", "code", "words"), SPOILT)
def test_what_is_not_our_bare_repository_is_refused(
    desk: Desk, spoil: Callable[[Desk], object], code: int, words: str
) -> None:
    """With its own words, by verbs that read, act and start alike; the doctor finds it. The control is our own. Nothing
    above is taken for it."""
    assert desk.run("review").code == 0
    subprocess.run(["git", "init", "--quiet", str(desk.root)], check=True)
    spoil(desk)
    for verb in ("reports",), ("tell", "x"):
        ended = desk.run(*verb)
        assert ended.code == code, (verb, ended)
        assert words in ended.err
        assert desk.home().remote in ended.err
    assert desk.run("up").code != 0
    assert desk.run("doctor").code == 8


@pytest.mark.attack("S21")
def test_a_configuration_that_names_programs_is_not_worked_with(desk: Desk) -> None:
    """Git would run them as the PM: refused before any git runs in there. What the error says puts it back."""
    marker, config = desk.root / "ran", Path(desk.home().remote, "config")
    for key in ("core.fsmonitor", "include.path", "diff.evil.textconv", "alias.log", "remote.origin.uploadpack"):
        _set(desk, key, f"touch {marker}")
        ended = desk.run("review")
        assert ended.code == 5
        config.write_text(ended.err.partition("write the file again as:\n")[2].rstrip() + "\n")
        assert desk.run("review").code == 0
    assert not marker.exists()


@pytest.mark.attack("S23")
def test_a_ref_that_makes_git_wait_is_met_by_the_time_limit(desk: Desk) -> None:
    """One limit for all calls of a look."""
    git = open_repository(desk.home()).within(1.0)
    path = Path(desk.home().remote, "refs/heads/main")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(GitError, match="ran out of time"):
        git("for-each-ref")


def test_the_pm_is_who_the_pms_git_says(tmp_path: Path) -> None:
    """The XDG file, the one in the home directory, or the one that GIT_CONFIG_GLOBAL names alone."""
    environ = {"HOME": str(tmp_path)}
    assert pm_of(environ) == Person("PM", "pm@minifram.invalid")
    (tmp_path / ".config" / "git").mkdir(parents=True)
    (tmp_path / ".config" / "git" / "config").write_text("[user]\nname = Xdg\nemail = xdg@x\n")
    assert pm_of(environ) == Person("Xdg", "xdg@x")
    (tmp_path / ".gitconfig").write_text("[user]\nname = Home\n")
    assert pm_of(environ) == Person("Home", "pm@minifram.invalid")
    (tmp_path / "own").write_text("[user]\nname = <Own>\nemail = own@x\n")
    assert pm_of(environ | {"GIT_CONFIG_GLOBAL": str(tmp_path / "own")}) == Person("Own", "own@x")
    (tmp_path / "own").write_text("[[[")
    assert pm_of(environ | {"GIT_CONFIG_GLOBAL": str(tmp_path / "own")}).name == "PM"
