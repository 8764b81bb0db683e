"""What one unit of work is: all that is done while the same directives are open on main."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from infra.keep.model_door.asked import UNKNOWN, unit_of, unit_on_main, units_of
from infra.shared.people import AGENT
from infra.shared.repository.git import Git

PAGE = "# COMMS\n\n## Directives\n\n- [ ] build it\n- [x] plan it\n\n## Reports\n"


@pytest.mark.parametrize(
    ("same", "old", "new"),
    [
        (True, "## Reports\n", "## Reports\n\n### main@0123456789ab: half of it\n\nnews\n"),
        (True, "- [x] plan it\n", ""),
        (True, "- [x] plan it\n", "- [ ] approve 0123456789abcdef\n- [x] deny 0123456789abcdef: no\n- [x] plan it\n"),
        (True, "- [ ] build it\n- [x] plan it", "- [x] plan it\n- [ ] build it"),
        (False, "- [ ] build it", "- [x] build it"),
        (False, "- [ ] build it", "- [ ] build it\n- [ ] and test it"),
        (False, "- [ ] build it\n", "- [x] build it\n- [ ] build it\n"),
        (False, "build it", "build them"),
        (False, "- [ ] build it\n", "- [ ] build it\n- [ ] approve the plan in PLAN.md\n"),
        (False, "- [ ] build it\n", "- [ ] build it\n- [ ] Deny guests the uploads, and test it\n"),
    ],
)
def test_only_what_is_asked_for_makes_a_unit(same: bool, old: str, new: str) -> None:
    """Reports, answers to questions and pruning of what is done are no new work; ticks and new words are."""
    assert old in PAGE
    assert (unit_of(PAGE.replace(old, new)) == unit_of(PAGE)) is same


def test_a_page_that_is_none_has_a_unit_as_well() -> None:
    """Whatever is wrong with it, nobody gets another sum by it."""
    assert unit_of("") == unit_of("no page") == unit_of("## Directives\n\n## Reports\n")
    assert unit_on_main("/nonexistent/remote.git")() == UNKNOWN


def test_a_door_without_a_repository_has_one_unit() -> None:
    """Whatever a call is labelled, and wherever main is."""
    of = units_of("/nonexistent/remote.git", "run-7")
    assert {of("task", ""), of("task", "20261123-1"), of("exploration/web", "")} == {"run-7"}


def test_each_move_of_main_is_seen_however_git_keeps_it(tmp_path: Path) -> None:
    """In a file of its own or packed with others; a main that stays where it is has the unit that it had."""
    git = Git(str(tmp_path), AGENT)
    git("init", "--quiet", "--initial-branch=main")
    look = unit_on_main(str(tmp_path / ".git"))

    def after(page: str, *then: str) -> tuple[str, str]:
        (tmp_path / "COMMS.md").write_text(page)
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", "a page")
        if then:
            git(*then)
        return look(), look()

    assert look() == UNKNOWN
    other = PAGE.replace("build it", "build them")
    assert after(PAGE) == (unit_of(PAGE),) * 2
    assert after(other) == (unit_of(other),) * 2
    assert after(PAGE, "pack-refs", "--all") == (unit_of(PAGE),) * 2
    assert after(other) == (unit_of(other),) * 2
    assert after(other, "pack-refs", "--all") == (unit_of(other),) * 2
    git("symbolic-ref", "refs/heads/main", "refs/heads/trunk")
    for each in (PAGE, other):  # the ref of main stays as it is
        assert after(each) == (unit_of(each),) * 2


def test_a_main_that_moves_meanwhile_and_is_put_back_has_its_own_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a call costs would count on another unit until main moves again."""
    git = Git(str(tmp_path), AGENT)
    git("init", "--quiet", "--initial-branch=main")
    other = PAGE.replace("build it", "build them")
    for page in (PAGE, other):
        (tmp_path / "COMMS.md").write_text(page)
        git("add", "--all")
        git("commit", "--quiet", "--message", "a page")
    first, second = git("rev-parse", "main~"), git("rev-parse", "main")
    git("update-ref", "refs/heads/main", first)
    moves = tmp_path / "bin" / "git"
    moves.parent.mkdir()
    moves.write_text(
        f'#!/bin/sh\n{shutil.which("git")} update-ref refs/heads/main {second}\nexec {shutil.which("git")} "$@"\n'
    )
    moves.chmod(0o755)
    with monkeypatch.context() as at_first:
        at_first.setenv("PATH", f"{moves.parent}:{os.environ['PATH']}")
        look = unit_on_main(str(tmp_path / ".git"))
    look()
    assert git("rev-parse", "main") == second
    git("update-ref", "refs/heads/main", first)
    moves.write_text(f'#!/bin/sh\nexec {shutil.which("git")} "$@"\n')
    assert look() == unit_of(PAGE)
