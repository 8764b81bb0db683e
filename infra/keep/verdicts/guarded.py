"""The files that the agent is made of and steered by, which come onto main by the PM alone while the agent is tainted.
Pure."""

from __future__ import annotations

from infra.keep.folding import folded
from infra.keep.verdicts.paths import TESTS, needs_examination
from infra.shared.repository.page_text import PAGES

GUARDED = ("infra", "spec", "boot", "skills", "system.md", "services.yaml")
"""At the top of the repository, in small letters. What a service does outlives the work that declares it."""
OUR_TESTS = ("cell", "keep", "shared", "conftest.py", "__init__.py")
"""In `tests/`: what came with the project, and judges every version."""


def is_guarded(path: str) -> bool:
    """Whatever file system it may be checked out on. With what is imported or installed from the top of a checkout,
    which is as good as a change of `infra/`; other tests and `src/` are free."""
    parts = [folded(part) for part in path.split("/")]
    if parts[0] in GUARDED:
        return True
    if parts[0] == TESTS:
        return parts[1:2] == [] or parts[1] in OUR_TESTS
    return path not in PAGES and needs_examination("/".join(parts), _FILE, _FILE, frozenset())


_FILE = "100644"
