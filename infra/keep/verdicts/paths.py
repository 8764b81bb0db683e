"""Which files the agent is made of: an examination is about these, and while the agent is tainted they come onto main
by the PM alone. Its own projects, in `src/` and `tests/`, are free. Pure."""

from __future__ import annotations

import posixpath

from infra.keep.folding import folded

TESTS = "tests"
OUR_TESTS = ("cell", "keep", "shared", "conftest", "__init__")
"""In `tests/`, without suffix: what came with the project and judges every version."""
SETTINGS = ("pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg")
"""Files that pytest takes its settings from."""
_BODY = ("infra", "spec", "system.md", ".gitattributes")
"""Git's attributes at the top can say with which bytes every file of a checkout is written (gitattributes(5))."""
_STEERS_TOO = ("boot", "skills", "services.yaml")
"""What a service does outlives the work that declares it."""
_CODE = (".py", ".pyc", ".pyo", ".so", ".pth", ".egg", ".zip")
"""Python imports from the top of a checkout; a module there can take the place of any library."""
_METADATA = (".dist-info", ".egg-info")
"""Of a distribution: its entry points may name what a library or pytest imports by itself."""
_FILE, _NO_LINK = "100644", ("100644", "100755", "160000")


def needs_examination(path: str, mode: str = _FILE) -> bool:
    """Whether the agent is made of this file, whatever file system it may be checked out on. `mode` is git's."""
    top, *rest = parts = [folded(part) for part in path.split("/")]
    if top == TESTS and rest:
        return rest[0].partition(".")[0] in OUR_TESTS or (len(rest) == 1 and is_setting(rest[0]))
    if top == "src" and rest:
        return False
    if top in (*_BODY, TESTS, "src") or top.startswith("requirements") or top.endswith(_METADATA):
        return True
    return mode not in _NO_LINK or is_setting(path) or parts[-1].endswith(_CODE)


def is_guarded(path: str) -> bool:
    """Whether a change of this file steers the agent."""
    return folded(path.partition("/")[0]) in _STEERS_TOO or needs_examination(path)


def is_setting(path: str) -> bool:
    """What tells pytest how to run: its settings, and every conftest."""
    name = posixpath.basename(path)
    return name in SETTINGS or name.partition(".")[0] == "conftest"


def is_test_file(path: str) -> bool:
    """What pytest collects by itself."""
    name = posixpath.basename(path)
    named = name.startswith("test_") or name.endswith("_test.py")
    return path.startswith(f"{TESTS}/") and named and name.endswith(".py")
