"""The directories of refs are on the disk before a push is answered."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from infra.keep.repository import bare_tip
from infra.shared.repository.git import Git
from tests.shared.repository.history import bare_repository, commit, plain


class Site:
    """A bare repository with the hook, a clone, and a `sync` on PATH that notes what it is given and ends badly."""

    def __init__(self, root: Path) -> None:
        self.bare: Git = bare_repository(root / "remote.git")
        self.commit = commit(self.bare, {"a": "1"})
        self.hooks = root / "remote.git/hooks"
        self.hooks.mkdir(exist_ok=True)
        (self.hooks / bare_tip.HOOK).write_text(bare_tip.SCRIPT)
        (self.hooks / bare_tip.HOOK).chmod(0o755)
        programs = root / "bin"
        programs.mkdir()
        self._noted = root / "noted"
        (programs / "sync").write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{self._noted}'\nexit 1\n")
        (programs / "sync").chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"
        self.clone = root / "clone"
        plain(str(root), "clone", "--quiet", self.bare.directory, str(self.clone))

    def push(self, *refspecs: str) -> str:
        """What git said; the push must succeed."""
        done = plain(str(self.clone), "push", "origin", *refspecs, PATH=self.path)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def synced(self) -> list[str]:
        """What each call was given since the last look."""
        lines = self._noted.read_text().splitlines() if self._noted.exists() else []
        self._noted.unlink(missing_ok=True)
        return lines


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("name", ["a/b/c", "$(touch${IFS}mark)/x", "a'b\"/-x"])
def test_all_directories_of_a_changed_ref_are_synced(site: Site, name: str) -> None:
    """Those above it too: git may just have made them, or written packed-refs. What a shell would run in a name is not
    run, and a disk that cannot sync fails no push: git has changed the ref by then."""
    site.push(f"HEAD:refs/heads/{name}")
    above = {f"refs/heads/{name}"[: at.start()] for at in re.finditer("/", f"refs/heads/{name}")}
    [synced] = site.synced()
    assert {".", *(f"./{each}" for each in above)} <= set(synced.split(" "))
    assert not os.path.exists(f"{site.bare.directory}/mark")
    assert site.bare("rev-parse", f"refs/heads/{name}") == site.commit


def test_nothing_is_synced_for_a_push_that_is_refused(site: Site) -> None:
    """Only what was committed is worth it."""
    (site.hooks / "pre-receive").write_text("#!/bin/sh\nexit 1\n")
    (site.hooks / "pre-receive").chmod(0o755)
    done = plain(str(site.clone), "push", "origin", "HEAD:refs/heads/x", PATH=site.path)
    assert done.returncode == 1
    assert site.synced() == []


def test_our_own_orders_are_carried_out_all_or_none(site: Site) -> None:
    """As git's own transactions are, and names that would lead elsewhere are refused by git."""
    bare_tip.update_refs(site.bare, f"create refs/a/b/c {site.commit}", f"update refs/heads/y {site.commit}")
    assert site.bare("rev-parse", "refs/a/b/c", "refs/heads/y") == f"{site.commit}\n{site.commit}"
    bare_tip.update_refs(site.bare, "delete refs/a/b/c", "delete refs/heads/was-never-there")
    assert site.bare("for-each-ref", "refs/a") == ""
    assert site.synced() == [], "no hook is run for it"
