"""Which files an examination is about, by their paths. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from infra.shared.repository.page_text import PAGES

TESTS = "tests"
SETTINGS = ("pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg")
"""Files that pytest takes its settings from."""
_REQUIREMENTS = "requirements"
_CODE = (".py", ".pyc", ".pyo", ".so", ".pth", ".egg", ".zip")
"""Python imports from the top of a checkout; a module there can take the place of any library."""
_METADATA = (".dist-info", ".egg-info")
"""Of a distribution: its entry points may name what a library or pytest imports by itself."""
_ATTRIBUTES = ".gitattributes"
"""At the top it can say with which bytes every file of a checkout is written (gitattributes(5))."""
_PLAIN = ("100644", "100755")


def needs_examination(path: str, before: str, after: str, there: Collection[str]) -> bool:
    """Whether main may move over a change of this file only with a verdict.

    `before` and `after` are git's modes, empty where the file is not there; `there` are the names in main's `tests/`.
    `src/` is free, and so are new tests: new test files, and new folders of `tests/` with all that is in them."""
    if path in PAGES:
        return False
    top, _, rest = path.partition("/")
    is_plain = not after or after in _PLAIN
    if top == "src" and rest:
        return False
    if top == TESTS:
        return bool(before) or not is_plain or not rest or not _is_new_test(path, there)
    if top in ("infra", "spec", "src") or path in ("SYSTEM.md", _ATTRIBUTES) or top.endswith(_METADATA):
        return True
    is_link = bool(after) and after not in (*_PLAIN, "160000")
    return is_link or top.startswith(_REQUIREMENTS) or is_setting(path) or path.endswith(_CODE)


def is_setting(path: str) -> bool:
    """What tells pytest how to run: its settings, and every conftest."""
    name = posixpath.basename(path)
    return name in SETTINGS or name.partition(".")[0] == "conftest"


def is_test_file(path: str) -> bool:
    """What pytest collects by itself."""
    name = posixpath.basename(path)
    named = name.startswith("test_") or name.endswith("_test.py")
    return path.startswith(f"{TESTS}/") and named and name.endswith(".py")


def folder_of(path: str) -> str:
    """The name right below `tests/` that holds this file; empty for a file that lies there itself."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == TESTS else ""


def _is_new_test(path: str, there: Collection[str]) -> bool:
    """`path` is not on main. A new folder may not be another name for a module that is there."""
    if is_setting(path):
        return False
    folder = folder_of(path)
    is_new_folder = bool(folder) and folder not in there and f"{folder}.py" not in there
    return is_new_folder or is_test_file(path)
