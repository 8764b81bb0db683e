"""Which tests an examination runs: main's as main has them, then those of the branch that differ. Pure.

Files are compared by their content. A test that is the same in both, with the same fixtures, runs once."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from infra.keep.verdicts.paths import TESTS, folder_of, is_setting, is_test_file

Files = Mapping[str, str]
"""Path -> git's mode and id, of what lies in tests/ and of pytest's settings at the top."""

_KEEPS_CODE = (
    "infra/keep/",
    *(f"infra/{program}.py" for program in ("watcher", "git_door", "model_door", "web_door", "seal")),
)
KEEPS_TESTS = ("keep",)
"""Folders of `tests/` that are about the keep's programs. The keep runs the image's copy of its programs, so in a
branch their tests matter only when the branch changes them."""


class Selection(NamedTuple):
    mains: tuple[str, ...]
    """Test files of main's, run as main has them."""
    own: tuple[str, ...]
    """Test files of the branch's, run as the branch has them."""
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Test files that differ, also those of folders that are left out."""
    settings: tuple[str, ...] = ()
    """What else of tests/ and of pytest's settings differs: conftests, helpers, pyproject.toml."""
    left_out: tuple[str, ...] = ()
    """Folders of tests/ that are irrelevant to this change."""
    counted: tuple[str, ...] = ()
    """Test files of main's that may hold fewer tests in the branch: they are collected with all that does not run here,
    as in folders that are left out, and tests marked `heavy`."""
    elsewhere: tuple[str, ...] = ()
    """What changed conftests and settings do to tests beyond their folder, in words for the PM (`reach`)."""


def select(main: Files, branch: Files, changed_paths: Sequence[str]) -> Selection:
    """`changed_paths` are all files that differ between main and what would be merged."""
    tests, ours = _tests(main), _tests(branch)
    added = tuple(sorted(ours.keys() - tests.keys()))
    removed = tuple(sorted(tests.keys() - ours.keys()))
    changed = tuple(sorted(path for path in tests.keys() & ours.keys() if tests[path] != ours[path]))
    settings = tuple(sorted(path for path in _others(main) | _others(branch) if main.get(path) != branch.get(path)))
    left_out = _left_out(sorted(tests.keys() | ours.keys()), changed_paths)
    for_all = any(is_setting(path) and not folder_of(path) for path in settings)
    again = _Affected(settings, main)
    own = [path for path in sorted(ours) if path in added or path in changed or again.concerns(path)]
    return Selection(
        mains=_within(sorted(tests), left_out),
        own=_within(own, left_out),
        added=added,
        changed=changed,
        removed=removed,
        settings=settings,
        left_out=left_out,
        counted=tuple(path for path in sorted(tests) if path in own or (for_all and folder_of(path) in left_out)),
    )


class _Affected:
    """Tests whose fixtures differ, though they do not."""

    def __init__(self, settings: Sequence[str], main: Files) -> None:
        new_folders = {folder for path in settings if (folder := folder_of(path))}
        new_folders -= {folder_of(path) for path in main}
        confined = [path for path in settings if is_setting(path) or folder_of(path) in new_folders]
        self._directories = tuple(f"{at}/" for path in confined if (at := posixpath.dirname(path)) != TESTS)
        # A helper may be imported from anywhere, and what lies at the top counts for all.
        self._all = len(confined) < len(settings) or len(self._directories) < len(confined) or "/" in self._directories

    def concerns(self, path: str) -> bool:
        return self._all or path.startswith(self._directories)


def _left_out(tests: Sequence[str], changed_paths: Sequence[str]) -> tuple[str, ...]:
    folders = {folder_of(path) for path in tests}
    if folders <= set(KEEPS_TESTS) or any(path.startswith(_KEEPS_CODE) for path in changed_paths):
        return ()
    touched = {folder_of(path) for path in changed_paths}
    return tuple(name for name in KEEPS_TESTS if name in folders and name not in touched)


def _within(paths: Sequence[str], left_out: Sequence[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if folder_of(path) not in left_out)


def _tests(files: Files) -> dict[str, str]:
    return {path: content for path, content in files.items() if is_test_file(path)}


def _others(files: Files) -> set[str]:
    return {path for path in files if not is_test_file(path)}
