"""The bare repository is looked over before any git works in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from host.repository import open as bare
from host.repository.open import names_a_program, pm_of
from infra.shared.people import Person
from tests.host.desk import Desk


def _set(desk: Desk, key: str, value: str) -> None:
    subprocess.run(["git", "config", "--file", f"{desk.home().remote}/config", key, value], check=True)


def test_our_own_repository_is_opened(desk: Desk) -> None:
    """The positive control of everything below."""
    assert bare.problem_with_repository(desk.home()) is None
    assert desk.run("review").code == 0


def test_without_an_agent_the_command_names_the_place_and_the_way(bare_desk: Desk) -> None:
    """Not initialised is 4, with the path and the command that helps, and the agents there are."""
    bare_desk.done("init", "--agent", "second")
    for verb in ("status", "reports", "review", "config", "logs", "up", "down", "restart"):
        ended = bare_desk.run(verb)
        assert (ended.code, ended.out) == (4, ""), verb
        assert bare_desk.home().remote in ended.err
        assert "minifram init" in ended.err
        assert "second" in ended.err


def _not_bare(desk: Desk) -> None:
    _set(desk, "core.bare", "false")


def _not_ours(desk: Desk) -> None:
    shutil.rmtree(desk.home().remote)
    subprocess.run(["git", "init", "--quiet", "--bare", desk.home().remote], check=True)


def _another_agents(desk: Desk) -> None:
    _set(desk, "minifram.agent", "other")


def _a_file(desk: Desk) -> None:
    shutil.rmtree(desk.home().remote)
    Path(desk.home().remote).write_text("not a repository")


def _empty(desk: Desk) -> None:
    shutil.rmtree(desk.home().remote)
    os.mkdir(desk.home().remote)


def _no_objects(desk: Desk) -> None:
    shutil.rmtree(f"{desk.home().remote}/objects")


def _garbage(desk: Desk) -> None:
    Path(desk.home().remote, "config").write_text("[[[")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_not_bare, "not a bare repository"),
        (_not_ours, "minifram.agent in its config is not set"),
        (_another_agents, "minifram.agent in its config is 'other'"),
        (_a_file, "not a directory"),
        (_empty, "not a git repository"),
        (_no_objects, "not a whole git repository"),
        (_garbage, "cannot be read"),
    ],
)
def test_what_is_not_our_bare_repository_is_refused(desk: Desk, spoil: object, words: str) -> None:
    """Each with its own words and 4, for verbs that read, act and start alike."""
    assert callable(spoil)
    spoil(desk)
    for verb in (("status",), ("tell", "x"), ("up",)):
        ended = desk.run(*verb)
        assert ended.code == 4, (verb, ended)
        assert words in ended.err
        assert desk.home().remote in ended.err


def test_git_never_looks_for_a_repository_above(desk: Desk) -> None:
    """An emptied directory inside another repository is not taken for that one."""
    subprocess.run(["git", "init", "--quiet", str(desk.root)], check=True)
    _no_objects(desk)
    assert desk.run("reports").code == 4


@pytest.mark.parametrize(
    "key",
    [
        "core.sshCommand",
        "core.hooksPath",
        "core.fsmonitor",
        "include.path",
        "merge.evil.driver",
        "diff.evil.textconv",
        "filter.evil.clean",
        "remote.origin.uploadpack",
        "credential.helper",
        "gpg.program",
        "alias.log",
        "extensions.worktreeConfig",
        "uploadpack.packObjectsHook",
        "core.worktree",
    ],
)
def test_a_configuration_that_names_programs_is_not_worked_with(desk: Desk, key: str) -> None:
    """Git would run them as the PM: refused by policy, with the key, before any git runs in there."""
    marker = desk.root / "ran"
    _set(desk, key, f"touch {marker}")

    ended = desk.run("review")

    assert ended.code == 5
    assert key.lower() in ended.err.lower()
    assert not marker.exists()


def test_harmless_keys_are_the_pms_business() -> None:
    """What names no program does not stop the work; 'doctor' mentions it. What nobody knows may be a program's name."""
    for key in (
        "minifram.agent",
        "core.logallrefupdates",
        "user.name",
        "gc.auto",
        "remote.backup.url",
        "pack.windowmemory",
    ):
        assert not names_a_program(key), key
    for key in (
        "core.sshcommand",
        "remote.backup.vcs",
        "remote.x.promisor",
        "gc.recentobjectshook",
        "new.key",
        "core.x",
    ):
        assert names_a_program(key), key


def test_replaced_objects_do_not_fool_the_pm(desk: Desk) -> None:
    """A replace ref would show another commit than the one that is merged."""
    evil = desk.branch("evil", {"src/evil.py": "evil = 1\n"}, "the evil one")
    good = desk.branch("good", {"src/good.py": "good = 1\n"}, "the good one")
    desk.git()("update-ref", f"refs/replace/{evil}", good)
    plain = subprocess.run(
        ["git", "-C", desk.home().remote, "log", "-1", "--format=%s", "evil"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert plain.stdout == "the good one\n"

    shown = desk.done("review", "evil").out

    assert "the evil one" in shown
    assert "src/evil.py" in shown


def test_the_pm_is_who_the_pms_git_says(tmp_path: Path) -> None:
    """The XDG file, then the one in the home directory, or the one that GIT_CONFIG_GLOBAL names alone."""
    environ = {"HOME": str(tmp_path)}
    assert pm_of(environ) == Person("PM", "pm@minifram.invalid")

    (tmp_path / ".config" / "git").mkdir(parents=True)
    (tmp_path / ".config" / "git" / "config").write_text("[user]\nname = Xdg\nemail = xdg@x\n")
    assert pm_of(environ) == Person("Xdg", "xdg@x")

    (tmp_path / ".gitconfig").write_text("[user]\nname = Home\n")
    assert pm_of(environ) == Person("Home", "xdg@x")

    (tmp_path / "own").write_text("[user]\nname = <Own>\nemail = own@x\n")
    assert pm_of(environ | {"GIT_CONFIG_GLOBAL": str(tmp_path / "own")}) == Person("Own", "own@x")

    (tmp_path / "own").write_text("[[[")
    assert pm_of(environ | {"GIT_CONFIG_GLOBAL": str(tmp_path / "own")}).name == "PM"
