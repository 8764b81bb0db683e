"""What the PM's patterns protect, and which ones are none."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infra.keep.protection import problem_with_branch_pattern, problem_with_file_pattern, protecting
from infra.keep.settings.check import SettingsError, parse_settings
from infra.keep.settings.schema import Settings
from tests.shared.rows import each_row


@each_row(
    "pattern, protected, free",
    [
        ("SYSTEM.md", ["SYSTEM.md", "system.MD", "SYSTEM.md/x"], ["src/SYSTEM.md", "SYSTEM.md.bak", "SYSTEM"]),
        ("infra/", ["infra", "infra/x", "infra/a/b", "INFRA/x"], ["infrared", "src/infra", "src/infra/x"]),
        ("infra", ["infra", "infra/x", "infra/a/b"], ["infrared", "infra.py"]),
        ("spec/SPEC_*.md", ["spec/SPEC_A.md", "spec/SPEC_a/b.md", "spec/SPEC_.md"], ["spec/A.md", "spec/SPEC_A.txt"]),
        ("*.lock", ["a.lock", "deep/er/b.lock", "a.lock/x"], ["lock", "a.locks"]),
        ("tests/*/conftest.py", ["tests/a/conftest.py", "tests/a/b/conftest.py"], ["tests/conftest.py"]),
        ("?.py", ["a.py", "a.py/b"], ["ab.py", ".py"]),
        ("[ab].py", ["a.py", "B.py"], ["c.py"]),
        ("[!ab].py", ["c.py"], ["a.py", "B.py"]),
        ("[[]x].py", ["[x].py"], ["x.py"]),
        ("[]a]", ["]", "a"], ["[]a]"]),
        ("*", ["a", "a/b", ".hidden"], []),
        ("über", ["über", "ÜBER"], ["uber"]),
        ("a b", ["a b"], ["a", "b"]),
    ],
)
def test_what_a_pattern_protects(pattern: str, protected: list[str], free: list[str]) -> None:
    """The whole name from the root, or any directory above it; capital and small letters are the same."""
    assert problem_with_file_pattern(pattern) == ""
    assert [name for name in protected if protecting(["no", pattern], name) != pattern] == []
    assert [name for name in free if protecting(["no", pattern], name)] == []


NAMES = st.lists(st.text("abAB.*?[]!- é", min_size=1, max_size=4), min_size=1, max_size=4).map("/".join)


def literal(name: str) -> str:
    return name.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")


@given(NAMES, NAMES)
def test_a_name_protects_itself_and_all_below(name: str, below: str) -> None:
    """And nothing beside it, whatever letters it has."""
    for pattern in (literal(name), f"{literal(name)}/"):
        assert protecting([pattern], name) == pattern
        assert protecting([pattern], f"{name}/{below}") == pattern
        assert protecting([pattern], name.upper()) == pattern
        assert protecting([pattern], f"{name}x") is None
        assert protecting([pattern], f"{below}/{name}") in (None, pattern)
    folded, other = name.casefold(), below.casefold()
    assert bool(protecting([literal(name)], below)) == (other == folded or other.startswith(f"{folded}/"))


@each_row(
    "pattern, words",
    [
        *(
            (wrong, "is not a")
            for wrong in ("", "/", " a", "a ", "a\\*b", "!a", "/etc/passwd", "./a", "a/../b", "a//b", "a//")
        ),
        ("x" * 201, "201 characters long"),
        ("a\nb", "cannot be seen"),
        ("[ab", "has a '[' without its ']'"),
        ("a[", "has a '[' without its ']'"),
        ("[]", "has a '[' without its ']'"),
        ("[!]", "has a '[' without its ']'"),
        ("[a][", "has a '[' without its ']'"),
    ],
)
def test_what_is_no_pattern(pattern: str, words: str) -> None:
    """The settings say so, with the key, before anything is started."""
    assert words in problem_with_file_pattern(pattern)
    assert words in problem_with_branch_pattern(pattern)
    with pytest.raises(SettingsError, match=r"minifram.yaml: protected.files.1: '"):
        parse_settings(f"protected: {{files: [{_quoted(pattern)}]}}")
    with pytest.raises(SettingsError, match=r"minifram.yaml: protected.branches.1: '"):
        parse_settings(f"protected: {{branches: [{_quoted(pattern)}]}}")


def _quoted(pattern: str) -> str:
    escaped = pattern.replace("\\", "\\\\").replace("\n", "\\n")
    return f'"{escaped}"'


@given(st.text("ab[]!*?/.", max_size=8))
def test_every_pattern_is_judged(pattern: str) -> None:
    """Each text is a pattern that can be asked, or has a problem in words."""
    problem = problem_with_file_pattern(pattern)
    assert problem.isprintable()
    assume(not problem)
    protecting([pattern], "a/b")
    assert problem_with_file_pattern(pattern.rstrip("/")) == ""


@each_row("pattern", ["*", "ma*", "main", "MAIN", "m*", "mind", "[m]ain"])
def test_what_the_agent_must_write_cannot_be_protected(pattern: str) -> None:
    """Without main and its mind the agent could neither report nor remember anything."""
    assert "protects" in problem_with_branch_pattern(pattern)
    assert problem_with_branch_pattern("release/*") == ""
    assert "is a whole ref" in problem_with_branch_pattern("refs/heads/x")
    assert "has rules of its own" in problem_with_file_pattern("comms.MD")


def test_the_settings() -> None:
    """No file is protected and the PM's branches are `pm/*`, unless the PM says otherwise."""
    assert Settings().protected.files == ()
    assert Settings().protected.branches == ("pm/*",)
    told = parse_settings("protected:\n  files: [SYSTEM.md, 'spec/*']\n  branches: []\n").protected
    assert (told.files, told.branches) == (("SYSTEM.md", "spec/*"), ())
    with pytest.raises(SettingsError, match=r"protected.files is .*expected `array` of length <= 100"):
        parse_settings(f"protected: {{files: [{', '.join('x' for _ in range(101))}]}}")
