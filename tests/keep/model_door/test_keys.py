"""The key's file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.keep.model_door.keys import read_key
from infra.shared.secret_shapes import redacted
from tests.keep.model_door.doors import KEY


def a_file(path: Path, content: bytes, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("content", [KEY, f"{KEY}\n", f"  {KEY}\r\n"])
def test_a_key_is_read_without_the_white_space_around_it(tmp_path: Path, content: str) -> None:
    """What people's editors add is not part of a key."""
    key = read_key(a_file(tmp_path / "key", content.encode()))

    assert (key.value, key.problem) == (KEY, None)
    assert KEY not in repr(key)
    assert redacted(f"bad key {KEY}!", key.known) == "bad key [secret]!"


@pytest.mark.parametrize(
    ("content", "mode", "named"),
    [
        (b"", 0o600, "does not hold a key"),
        (KEY.encode(), 0o640, "mode 0640"),
        (KEY.encode(), 0o604, "mode 0604"),
        (b"two words", 0o600, "does not hold a key"),
        ("schlüssel".encode(), 0o600, "does not hold a key"),
        (b"x" * 5000, 0o600, "does not hold a key"),
    ],
)
def test_a_file_that_cannot_be_trusted_gives_no_key(tmp_path: Path, content: bytes, mode: int, named: str) -> None:
    """A key that others can read, or that is none, is refused with the reason, and never shown."""
    key = read_key(a_file(tmp_path / "key", content, mode))

    assert key.value is None
    assert named in (key.problem or "")
    assert KEY not in (key.problem or "")


def test_what_is_no_file_gives_no_key(tmp_path: Path) -> None:
    """A missing file, a directory, a pipe or a link is named, and a pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "link").symlink_to(a_file(tmp_path / "real", KEY.encode()))

    assert read_key(str(tmp_path / "real")).value == KEY
    for name in ("anthropic_api_key", "openai_api_key"):
        assert f"; set {name.upper()} and" in (read_key(str(tmp_path / name)).problem or "")
    assert "is not a regular file" in (read_key(str(tmp_path / "link")).problem or "")
    assert "not a regular file" in (read_key(str(tmp_path / "pipe")).problem or "")
    assert "not a regular file" in (read_key(str(tmp_path)).problem or "")
