"""Which clones of branches are removed at the start of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from infra.cell.clones import QUIET_SECONDS, remove_merged, with_clones
from infra.shared.branches import MAIN
from infra.shared.safe_files import Below
from tests.cell.cell import Cell

GOES = {
    "as it is": "true",
    "ignored": "touch x.pyc",
    "origins": "git push -q origin $(git commit-tree -m aside HEAD^{tree}):refs/heads/aside && git fetch -q &&"
    " git branch aside origin/aside",
}
STAYS = {
    "commit": "git commit -q --allow-empty -m more",
    "pushed": "git commit -q --allow-empty -m more && git push -q origin HEAD:refs/heads/more",
    "aside": "git branch own $(git commit-tree -m own HEAD^{tree})",
    "tag": "git tag own $(git commit-tree -m tag HEAD^{tree})",
    "change": "echo 2 > src/notes.md",
    "file": "echo 2 > src/new.py",
    "stash": "echo 2 > src/notes.md && git stash -q",
    "worktree": "git worktree add -q --detach ../beside",
    "no-clone": "mv .git git",
}


@pytest.mark.heavy
def test_a_clone_goes_that_main_has_all_of(cell: Cell) -> None:
    """And in which nothing was touched for a day: ignored files, and what origin has of another branch, are no work."""
    first = Path(cell.places.checkout("first"))
    shutil.copytree(cell.checkout, first)
    at = time.time() - QUIET_SECONDS - 60
    for name, words in (GOES | STAYS | {"fresh": "true"}).items():
        clone = Path(cell.places.checkout(f"idea/{name.replace(' ', '-')}"))
        shutil.copytree(first, clone)
        subprocess.run(["sh", "-c", words], cwd=clone, env=cell.environment(), check=True)
        for path in (clone, clone / ".git"):
            if name != "fresh" and path.exists():
                os.utime(path, (at, at))
    shutil.rmtree(first.parent)
    context = cell.context()
    remove_merged(context, context.page.look().commit)
    kept = [MAIN, *(f"idea/{name}" for name in (*STAYS, "fresh"))]
    assert with_clones(Below(cell.places.bot)) == sorted(kept)
