"""The files that the agent is made of and steered by: what a run that has read the web changes on main only with the
PM's word. Pure."""

from __future__ import annotations

from infra.shared.folding import folded
from infra.shared.repository.page_text import PAGES
from infra.shared.verdicts.paths import TESTS, needs_examination

GUARDED = ("infra", "spec", "boot", "skills", "system.md", "services.yaml")
"""At the top of the repository, in small letters. What a service does outlives the work that declares it."""


def is_guarded(path: str) -> bool:
    """Whatever file system it may be checked out on. With what is imported or installed from the top of a checkout,
    which is as good as a change of `infra/`; tests and `src/` are free."""
    parts = [folded(part) for part in path.split("/")]
    if parts[0] in GUARDED:
        return True
    return parts[0] != TESTS and path not in PAGES and needs_examination("/".join(parts), _FILE, _FILE, frozenset())


def top_of(path: str) -> str:
    return path.partition("/")[0]


_FILE = "100644"
