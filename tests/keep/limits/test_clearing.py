"""Real clones of a real repository: what is found, what goes, what stays."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.limits.room import Clone, Found, Kind, Removal, Thing, choose
from infra.keep.limits.values import Bounds
from infra.keep.supervision import clearing
from infra.keep.supervision.checkouts import Cell
from infra.keep.supervision.clearing import Outcome, look, remove
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from tests.shared.repository.history import commit, plain


@pytest.fixture
def cell(places: Paths) -> Cell:
    """Main's clone, and no other yet."""
    subprocess.run(["rm", "-r", f"{places.bot}/main"], check=True)
    Path(places.cell_git_config).write_text("[user]\n\tname = a\n\temail = a@example.invalid\n")
    cell = Cell(places, places.remote)
    clone(cell, "main")
    return cell


def clone(cell: Cell, branch: str, text: str = "", merged: bool = False) -> Path:
    """A clone of `branch`, pushed, with a commit of its own when there is `text`."""
    path = Path(cell.places.checkout(branch))
    path.parent.mkdir(parents=True, exist_ok=True)
    plain(path.parent, "clone", "-q", cell.places.remote, str(path))
    if branch != "main":
        plain(path, "checkout", "-q", "-b", branch)
    if text:
        (path / "file").write_text(text)
        plain(path, "commit", "-q", "-a", "-m", text)
    plain(path, "push", "-q", "origin", branch)
    if merged:
        plain(path, "push", "-q", "origin", f"{branch}:main")
    (path / "logs").mkdir(exist_ok=True)
    (path / ".git/info/exclude").write_text("logs/\nignored\n")
    return path


def found_clone(cell: Cell, branch: str) -> Clone:
    (found,) = (clone for clone in look(cell, "", False).clones if clone.branch == branch)
    return found


def test_clones_are_found_with_what_they_hold(cell: Cell) -> None:
    """Merged, pushed only, and of a branch with slashes inside another's directory."""
    clone(cell, "idea", "1a")
    clone(cell, "idea/deep/er", "1b", merged=True)
    found = {each.branch: (each.merged, each.stays) for each in look(cell, "main", False).clones}
    assert found == {"main": (True, ""), "idea": (False, ""), "idea/deep/er": (True, "")}
    assert all(each.changed > 0 for each in look(cell, "main", False).clones)


def _change(path: Path) -> None:
    (path / "file").write_text("changed")


def _add(path: Path) -> None:
    (path / "new").write_text("new")


def _commit(path: Path) -> None:
    _change(path)
    plain(path, "commit", "-q", "-a", "-m", "mine")


def _commit_and_lie(path: Path) -> None:
    _commit(path)
    plain(path, "update-ref", "refs/remotes/origin/idea", "HEAD")


def _commit_elsewhere(path: Path) -> None:
    plain(path, "checkout", "-q", "-b", "other")
    _commit(path)
    plain(path, "checkout", "-q", "idea")


def _stash(path: Path) -> None:
    _change(path)
    plain(path, "stash")


def _tag(path: Path) -> None:
    _commit(path)
    plain(path, "tag", "-a", "-m", "x", "kept")
    plain(path, "reset", "-q", "--hard", "HEAD~1")


def _hide(path: Path) -> None:
    plain(path, "update-index", "--assume-unchanged", "file")
    _change(path)


def _hang_a_work_tree_on_it(path: Path) -> None:
    plain(path, "worktree", "add", "-q", "../beside")


def _break(path: Path) -> None:
    (path / ".git/HEAD").write_text("nonsense")


def _take_its_repository(path: Path) -> None:
    (path / ".git").rename(path / "git")


def _point_elsewhere(path: Path) -> None:
    plain(path, "config", "core.worktree", "/")


WORK = [
    (_change, "uncommitted"),
    (_add, "uncommitted"),
    (_commit, "not pushed"),
    (_commit_and_lie, "not pushed"),
    (_commit_elsewhere, "not pushed"),
    (_stash, "not pushed"),
    (_tag, "not pushed"),
    (_hide, "uncommitted"),
    (_hang_a_work_tree_on_it, "hang on it"),
    (_break, "cannot be looked through"),
    (_take_its_repository, "not a clone"),
]


@pytest.mark.parametrize(("work", "why"), WORK)
def test_whatever_is_nowhere_else_stays(cell: Cell, work: Callable[[Path], None], why: str) -> None:
    """It is found, and looked at once more before anything goes."""
    path = clone(cell, "idea", "2")
    assert found_clone(cell, "idea").stays == ""
    work(path)
    assert why in found_clone(cell, "idea").stays
    (outcome,) = remove([Removal(Kind.CLONE, "idea")], cell)
    assert why in outcome.problem
    assert path.is_dir()


def test_a_clones_own_settings_point_nowhere_else(cell: Cell) -> None:
    """Its files are looked at, whatever it says its work tree is."""
    path = clone(cell, "idea", "2")
    _point_elsewhere(path)
    assert found_clone(cell, "idea").stays == ""
    _change(path)
    assert "uncommitted" in found_clone(cell, "idea").stays


def test_a_clone_goes_with_the_directories_that_held_only_it(cell: Cell) -> None:
    """What git ignores goes with it; another branch's clone beside or below it stays."""
    path = clone(cell, "team/idea", "3")
    (path / "ignored").write_text("x")
    below = clone(cell, "team/idea/more", "4", merged=True)
    assert remove([Removal(Kind.CLONE, "team/idea")], cell) == [Outcome(Removal(Kind.CLONE, "team/idea"))]
    assert os.listdir(f"{cell.places.bot}/team/idea") == ["more"]
    assert below.is_dir()
    assert remove([Removal(Kind.CLONE, "team/idea/more")], cell)[0].problem == ""
    assert not os.path.lexists(f"{cell.places.bot}/team")
    assert Path(cell.places.main_checkout, "file").is_file()


def test_the_whole_way_from_too_many_to_few(cell: Cell) -> None:
    """Found, chosen, removed: the one with work stays though it is the oldest."""
    for number in range(4):
        clone(cell, f"b{number}", f"5{number}")
    _change(Path(cell.places.checkout("b0")))
    limits = Bounds(branch_dirs=2)
    found = look(cell, "b1", False)
    assert choose(found, limits, max(each.changed for each in found.clones)) == []  # touched today
    removals = choose(found, limits, max(each.changed for each in found.clones) + 90_000)
    assert {removal.name for removal in removals} == {"b2", "b3"}
    assert all(outcome.problem == "" for outcome in remove(removals, cell))
    assert {each.branch for each in look(cell, "b1", False).clones} == {"main", "b0", "b1"}


def test_a_link_is_no_clone_and_leads_nowhere(cell: Cell, tmp_path: Path) -> None:
    """A branch's directory that leads elsewhere stays, and so does what it leads to."""
    elsewhere = clone(cell, "idea", "6").parent.rename(tmp_path / "elsewhere")
    Path(cell.places.bot, "idea").symlink_to(elsewhere)
    Path(cell.places.bot, "other").mkdir()
    Path(cell.places.bot, "other/minifram").symlink_to(elsewhere / "minifram")
    assert [each.branch for each in look(cell, "main", False).clones] == ["main"]
    for branch in ("idea", "other"):
        assert remove([Removal(Kind.CLONE, branch)], cell)[0].problem != ""
    assert (elsewhere / "minifram/file").is_file()


def test_asides_old_logs_caches_and_rests_are_found(cell: Cell) -> None:
    """And what was chosen of them goes; a name that only looks like a rest is left alone."""
    bot = Path(cell.places.bot)
    aside = clone(cell, "idea", "7").rename(bot / "idea/minifram.aside-20260131T100000000Z")
    dirty = clone(cell, "dirty", "8").rename(bot / "main/minifram.aside-20260131T100000001Z")
    _change(dirty)
    logs = clone(cell, "ran", "9") / "logs"
    (logs / "errors.log.1").write_text("old")
    (logs / "errors.log").write_text("new")
    os.mkfifo(logs / "pipe.1")
    (Path(cell.places.main_checkout) / "logs/errors.log.1").write_text("main's")
    (bot / ".cache/pip").mkdir(parents=True)
    rest = bot / "idea/x"
    rest.mkdir()
    rest = rest.rename(bot / f"idea/minifram.removed-{rest.stat().st_ino}")
    (bot / "idea/minifram.removed-1").mkdir()
    found = {(thing.kind, thing.name): thing for thing in look(cell, "main", True).things}
    expected = [
        Removal(Kind.ASIDE, "idea/minifram.aside-20260131T100000000Z"),
        Removal(Kind.LOG, "ran/minifram/logs/errors.log.1"),
        Removal(Kind.CACHE, ".cache"),
        Removal(Kind.LEFTOVER, f"idea/{rest.name}"),
    ]
    kept = (Kind.ASIDE, "main/minifram.aside-20260131T100000001Z")
    assert {*found} == {*((each.kind, each.name) for each in expected), kept}
    assert found[kept].stays == "it has uncommitted work"
    assert [outcome.problem for outcome in remove([*expected, Removal(*kept)], cell)] == [
        *[""] * 4,
        "it stays after all: it has uncommitted work",
    ]
    assert not any(path.exists() for path in (aside, logs / "errors.log.1", bot / ".cache", rest))
    assert dirty.is_dir()
    assert (logs / "errors.log").read_text() == "new"
    assert (bot / "idea/minifram.removed-1").is_dir()


def test_a_rescue_branch_goes_only_as_it_was_found(cell: Cell) -> None:
    """Its commit is named; one that is at another commit by now stays."""
    git = Git(cell.places.remote, AGENT)
    made = commit(git, {"file": "r"}, git("rev-parse", "main"), branch="rescue/one")
    shared = git("rev-parse", "main")
    git("update-ref", "refs/heads/rescue/two", shared)
    found = {each.name: each.commit for each in look(cell, "main", False).rescues}
    assert found == {"rescue/one": made, "rescue/two": shared}
    assert "rescue" in remove([Removal(Kind.RESCUE, "rescue/one", shared)], cell)[0].problem
    assert remove([Removal(Kind.RESCUE, "rescue/one", made)], cell)[0].problem == ""
    assert [each.name for each in look(cell, "main", False).rescues] == ["rescue/two"]


def test_what_another_branch_has_is_known_when_rescues_are_many(cell: Cell) -> None:
    """So that those go first."""
    git = Git(cell.places.remote, AGENT)
    commit(git, {"file": "r"}, git("rev-parse", "main"), branch="rescue/own")
    main = git("rev-parse", "main")
    lines = "".join(f"create refs/heads/rescue/{number} {main}\n" for number in range(51))
    git.raw("update-ref", "--stdin", stdin=lines.encode())
    elsewhere = {each.name: each.elsewhere for each in look(cell, "main", False).rescues}
    assert len(elsewhere) == 52
    assert not elsewhere.pop("rescue/own")
    assert all(elsewhere.values())


def test_what_is_gone_already_is_an_outcome(cell: Cell) -> None:
    """Nothing is raised; a file that is gone counts as removed."""
    gone = [
        Removal(Kind.CLONE, "none"),
        Removal(Kind.LOG, "none/minifram/logs/x.1"),
        Removal(Kind.RESCUE, "rescue/x", "1" * 40),
    ]
    assert [bool(outcome.problem) for outcome in remove(gone, cell)] == [True, False, True]
    assert isinstance(look(cell, "", False), Found)
    assert Thing(Kind.CACHE, clearing.CACHE, 0.0) not in look(cell, "", False).things
