"""Where an agent lives, and what it may be called."""

from __future__ import annotations

import os
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from host.errors import CommandError
from host.home import known_agents, paths_of, problem_with_agent_name, problem_with_directory, secure_directory
from infra.shared.exit_codes import Exit

HOME = {"HOME": "/home/pm"}


def test_without_xdg_variables_the_defaults_of_the_specification_hold() -> None:
    """Data, state and settings lie below the home directory, sockets below /tmp in a directory of this uid."""
    home = paths_of("scout", HOME, 1000)

    assert home.remote == "/home/pm/.local/share/minifram/scout/remote.git"
    assert home.places.bot == "/home/pm/.local/share/minifram/scout/bot"
    assert home.places.var == "/home/pm/.local/state/minifram/scout"
    assert home.settings == "/home/pm/.config/minifram/scout/minifram.yaml"
    assert home.places.run == "/tmp/minifram-1000/scout"
    assert home.key_file("anthropic_api_key") == "/tmp/minifram-1000/scout/secrets/anthropic_api_key"

    given_paths = {"XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "relative", "XDG_RUNTIME_DIR": "/run/user/5"}
    home = paths_of("a", HOME | given_paths, 5)
    assert (home.data, home.run) == ("/d/minifram/a", "/run/user/5/minifram/a")
    assert home.state == "/home/pm/.local/state/minifram/a", "by the XDG specification a relative path is invalid"


def test_without_a_home_directory_the_trouble_names_it() -> None:
    """An agent that cannot be found is a usage error, not a directory called None."""
    with pytest.raises(CommandError, match="HOME is ''") as caught:
        paths_of("a", {}, 1)
    assert caught.value.code == Exit.USAGE


@given(st.text())
@example("..")
@example("a\n")
@example("a" * 42)
def test_a_name_is_good_only_as_one_plain_directory(name: str) -> None:
    """No accepted name leaves its directory, hides itself or looks like an option; a refusal shows it harmlessly."""
    allowed = set(string.ascii_lowercase + string.digits + "_-")
    problem = problem_with_agent_name(name)
    assert problem is None or (problem.isprintable() and "lower-case" in problem)
    assert (problem is None) == (0 < len(name) <= 41 and set(name) <= allowed and name[0] not in "_-")


def test_a_directory_of_ours_is_made_private(tmp_path: Path) -> None:
    """Also the missing ones above it; making it twice is fine."""
    path = tmp_path / "a" / "b"
    secure_directory(str(path), os.getuid())
    secure_directory(str(path), os.getuid())

    assert path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_prepared_is_refused(tmp_path: Path) -> None:
    """A link, a file, a directory open to others or of another uid: none of them gets our sockets and keys."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o770)

    for name, words in (("link", "is lrwxrwxrwx"), ("file", "is -rw"), ("open", "chmod 700")):
        with pytest.raises(CommandError, match=words) as caught:
            secure_directory(str(tmp_path / name), os.getuid())
        assert caught.value.code == Exit.CONFLICT
    assert "expected a directory of yours" in str(problem_with_directory(str(tmp_path / "real"), os.getuid() + 1))
    assert problem_with_directory(str(tmp_path / "real"), os.getuid()) is None


def test_known_agents_are_those_with_a_repository(tmp_path: Path) -> None:
    """Unfinished and foreign directories are no agents."""
    for name in ("b", "a", ".c.new", "Not"):
        (tmp_path / "minifram" / name / "remote.git").mkdir(parents=True)
    (tmp_path / "minifram" / "empty").mkdir()

    assert known_agents({"HOME": "/x", "XDG_DATA_HOME": str(tmp_path)}) == ["a", "b"]
    assert known_agents({"HOME": "/nonexistent"}) == []
