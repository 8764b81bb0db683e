"""Which tests an examination runs: the project's own as main has them, then those of the branch that differ. Pure.

Files are compared by their content. A test that is the same in both, with the same fixtures, runs once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from infra.keep.verdicts.paths import is_setting, is_test_file, needs_examination

Files = Mapping[str, str]
"""Path -> git's mode and id, of what lies in tests/ and of pytest's settings at the top."""

KEEPS_TESTS = "tests/keep/"
"""About the keep's programs, of which the keep runs the image's copy: in a branch they matter only when the branch
changes them."""
_KEEPS = (
    KEEPS_TESTS,
    "infra/keep/",
    *(f"infra/{program}.py" for program in ("watcher", "git_door", "model_door", "web_door", "seal")),
)


class Selection(NamedTuple):
    mains: tuple[str, ...]
    """Test files of main's, run as main has them."""
    own: tuple[str, ...]
    """Test files of the branch's, run as the branch has them."""
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Of the project's test files, also those that do not run."""
    settings: tuple[str, ...] = ()
    """What else of the project's tests and of pytest's settings differs: conftests, helpers, pyproject.toml."""

    @property
    def altered(self) -> tuple[str, ...]:
        """Test files of main's that the branch has otherwise, or no more."""
        return (*self.changed, *self.removed)


def select(main: Files, branch: Files, changed_paths: Sequence[str]) -> Selection:
    """`changed_paths` are all files that differ between main and what would be merged. Tests of the agent's own
    projects run only in the branch that adds or changes them."""
    tests, ours = ({path for path in files if is_test_file(path)} for files in (main, branch))
    differ = {path for path in main.keys() | branch.keys() if main.get(path) != branch.get(path)}
    settings = tuple(sorted(path for path in differ - tests - ours if needs_examination(path)))
    left_out = () if any(path.startswith(_KEEPS) for path in changed_paths) else (KEEPS_TESTS,)
    # A new helper concerns no test that was there before it.
    for_all = any(path in main or is_setting(path) for path in settings)
    own = [path for path in ours if path in differ or (for_all and needs_examination(path))]
    return Selection(
        mains=_within(filter(needs_examination, tests), left_out),
        own=_within(own, left_out),
        changed=tuple(sorted(filter(needs_examination, tests & ours & differ))),
        removed=tuple(sorted(filter(needs_examination, tests - ours))),
        settings=settings,
    )


def _within(paths: Iterable[str], left_out: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in sorted(paths) if not path.startswith(left_out))
