"""The keep's care for the mind, with a real repository and a real clone: snapshots, and drift of the PM's files."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog

from infra.keep.mind.drift import MOST_LINES
from infra.keep.mind.keeper import LOOK_SECONDS, MindFinding, MindKeeper
from infra.keep.mind.kept import changes_in_words, read_kept
from infra.keep.mind.snapshot_tags import snapshots
from infra.keep.mind.snapshots import USUAL, Kept
from infra.shared.clock import moment
from infra.shared.identity import OURS
from infra.shared.mind.layout import CORE, IDENTITY, INVARIANTS, WORKING
from infra.shared.paths import Paths
from infra.shared.people import AGENT, Person
from infra.shared.repository.git import EMPTY_TREE, Git
from infra.shared.repository.tip import commit_tree, tree_with, write_file

PM = Person("PM", "pm@example.invalid")
START, DAY = moment("2026-01-31T10:42:12Z"), 86_400.0
BIRTH = {
    IDENTITY: "I am an agent. I write programs for my PM, and I say what I did.\n",
    INVARIANTS: "Log everything.\n",
    f"{CORE}/look/SKILL.md": "look around\n",
    WORKING: "# Working\n",
}


class Minded:
    """A repository with a branch mind, the agent's clone of it, and the keep's eyes on both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = Paths(str(root / "bot"), str(root / "remote.git"), str(root / "run"), str(root / "var"))
        for path in (self.places.bot, self.places.var):
            Path(path).mkdir()
        Git(str(root))("init", "--quiet", "--bare", self.places.remote)
        self.wall, self.at = START, 0.0
        self.keeper = self.another()

    def another(self, on_drift: str = "report", kept: Kept = USUAL) -> MindKeeper:
        log = structlog.stdlib.get_logger()
        return MindKeeper(self.places, OURS, on_drift, log, lambda: self.wall, kept)

    def push(self, files: Mapping[str, str | None], person: Person = PM) -> str:
        git = Git(self.places.remote, person)
        seen = git("for-each-ref", "--format=%(objectname)", "refs/heads/mind")
        blobs = {path: write_file(git, text) if text is not None else None for path, text in files.items()}
        commit = commit_tree(git, tree_with(git, seen or EMPTY_TREE, blobs), (seen,) if seen else (), "a change")
        git("update-ref", "refs/heads/mind", commit)
        return commit

    def clone(self) -> Path:
        shutil.rmtree(self.places.mind, ignore_errors=True)
        words = ["git", "clone", "--quiet", "--branch", "mind", self.places.remote, self.places.mind]
        subprocess.run(words, check=True, capture_output=True)
        return Path(self.places.mind)

    def look(self, after: float = 0.0) -> list[MindFinding]:
        """The keep's look when so many seconds have passed."""
        self.wall, self.at = self.wall + after, self.at + max(after, LOOK_SECONDS)
        return self.keeper.look(self.at)

    def tags(self) -> list[str]:
        return [each.name for each in snapshots(Git(self.places.remote))]

    @property
    def drift(self) -> tuple[str, ...]:
        kept = read_kept(self.places.var)
        assert kept is not None
        return kept.drift


@pytest.fixture
def minded(tmp_path: Path) -> Minded:
    made = Minded(tmp_path)
    made.push(BIRTH)
    return made


def test_without_a_mind_nothing_is_kept(tmp_path: Path) -> None:
    """An agent of before has no file and no tags more than it had."""
    minded = Minded(tmp_path)
    assert minded.look() == []
    assert minded.keeper.before_launch("improve", True, "") == []
    assert list(Path(minded.places.var).iterdir()) == []
    assert minded.tags() == []


def test_snapshots_come_by_the_clock_and_beside_changes(minded: Minded) -> None:
    """Daily, weekly and monthly at once; the next day one more when the mind has changed; one before a hop and one
    after a fall back; each says when, of what and why. Another watcher makes none again."""
    commit = minded.push({WORKING: "one\n"}, AGENT)
    minded.look()
    stamp = "2026-01-31T10-42-12Z"
    assert minded.tags() == [f"{kind}/{stamp}" for kind in ("daily", "monthly", "weekly")]
    minded.look(60)
    minded.keeper = minded.another()
    minded.look(60)
    assert len(minded.tags()) == 3
    minded.look(DAY)
    assert len(minded.tags()) == 3
    minded.push({WORKING: "two\n"}, AGENT)
    minded.look(60)
    assert len(minded.tags()) == 5  # it is February by now

    minded.keeper.before_launch("improve", True, "")
    minded.keeper.before_launch("main@0123456789ab", False, "fallback: improve died\n after SUCCESS")
    minded.keeper.before_launch("main@0123456789ab", False, "")

    reasons = [(each.reason, each.commit == commit) for each in snapshots(Git(minded.places.remote))]
    assert ("pre-modification: improve", False) in reasons
    assert ("post-failure: fallback: improve died after SUCCESS", False) in reasons
    assert reasons.count(("scheduled", True)) == 3
    assert len(reasons) == 7


def test_a_tag_that_cannot_be_removed_holds_up_nothing(minded: Minded) -> None:
    """In the container git may not replace packed-refs: what the PM's git packed stays, and the next snapshot and the
    comparison come all the same."""
    minded.look()
    git = Git(minded.places.remote)
    git("pack-refs", "--all")
    lock = Path(minded.places.remote, "packed-refs.lock")
    lock.touch()
    minded.keeper = minded.another(kept=Kept(daily=1))
    minded.push({WORKING: "two\n"}, AGENT)
    (minded.clone() / INVARIANTS).write_text("Log nothing.\n")

    assert len(minded.look(8 * DAY)) == 1
    assert len([name for name in minded.tags() if name.startswith("daily/")]) == 2

    lock.unlink()
    minded.push({WORKING: "three\n"}, AGENT)
    minded.look(DAY)
    assert len([name for name in minded.tags() if name.startswith("daily/")]) == 1


def test_the_pms_change_moves_the_baseline_and_a_large_one_is_told(minded: Minded) -> None:
    """By hash and by the identity's words; the clone that is only behind is no drift."""
    minded.clone()
    minded.look()
    commit = minded.push({INVARIANTS: "Log everything. Ask first.\n"})
    assert minded.look(60) == []
    changed = minded.push({IDENTITY: "You trade shares, quietly and fast, with other people's money.\n"})
    assert minded.look(60) == []
    assert minded.keeper.before_launch("main@0", False, "") == []

    kept = read_kept(minded.places.var)
    assert kept is not None
    assert kept.baseline is not None
    assert [change.commit for change in kept.changes] == [commit, changed]
    assert [bool(change.much) for change in kept.changes] == [False, True]
    (words,) = changes_in_words(kept)
    assert words.endswith("of the words of boot/identity.md")
    assert kept.drift == ()


def test_a_file_of_the_pms_that_the_cell_changed_is_drift(minded: Minded) -> None:
    """Changed, missing, added, a link, a large one: each is named once on the page, again only when it is another, and
    it is over when the clone is right."""
    clone = minded.clone()
    minded.look()
    (clone / IDENTITY).write_text("I am free.\n")
    (clone / CORE / "look/SKILL.md").unlink()
    (clone / CORE / "mine").mkdir()
    (clone / CORE / "mine/SKILL.md").write_text("my own\n")
    (clone / INVARIANTS).unlink()
    (clone / INVARIANTS).symlink_to("/etc/passwd")

    (found,) = minded.keeper.before_launch("main@0", False, "")

    assert found.title == "the mind has drifted"
    words = "\n".join(minded.drift)
    assert "boot/identity.md is not as the PM wrote it (SHA-256 " in words
    assert "skills/core/look/SKILL.md is missing" in words
    assert "skills/core/mine/SKILL.md is not the PM's" in words
    assert "boot/invariants.md is no plain file" in words
    assert minded.keeper.before_launch("main@0", False, "") == []
    minded.clone()
    assert minded.keeper.before_launch("main@0", False, "") == []
    assert minded.drift == ()


def test_a_change_of_the_agents_on_the_branch_is_drift_until_the_pm_takes_it_back(minded: Minded) -> None:
    """The door lets none through; should one be there, it never becomes the baseline."""
    minded.look()
    minded.push({INVARIANTS: "Log nothing.\n"}, AGENT)
    (found,) = minded.look(8 * DAY)
    assert "boot/invariants.md was last changed by the agent" in found.text
    minded.push({INVARIANTS: BIRTH[INVARIANTS]})
    assert minded.look(8 * DAY) == []
    assert minded.drift == ()


def test_it_is_compared_every_week_and_safe_mode_only_where_the_pm_wants_it(minded: Minded) -> None:
    """Between boots a week may pass; what follows is the PM's setting."""
    clone = minded.clone()
    minded.look()
    (clone / IDENTITY).write_text("I am free.\n")
    assert minded.look(6 * DAY) == []
    assert len(minded.look(DAY)) == 1
    assert minded.keeper.drifted == ""
    assert "boot/identity.md" in minded.another("safe_mode").drifted


def test_a_spoiled_state_or_repository_ends_nothing(minded: Minded) -> None:
    """The state is begun anew from the branch; a repository that cannot be read is tried again later."""
    minded.look()
    (Path(minded.places.var) / "mind.json").write_text("{")
    minded.keeper.before_launch("main@0", False, "")
    assert minded.drift == ()
    (Path(minded.places.remote) / "refs/heads/mind").write_text("nonsense\n")
    assert minded.look(60) == []
    assert minded.keeper.before_launch("main@0", False, "") == []


def test_a_hostile_clone_is_drift_and_costs_little(minded: Minded) -> None:
    """A link in the place of the clone, a file of a terabyte, a thousand files, a FIFO, no repository around it."""
    clone = minded.clone()
    minded.look()

    def drifted() -> str:
        minded.keeper.before_launch("main@0", False, "")
        return "\n".join(minded.drift)

    os.truncate(clone / IDENTITY, 1 << 40)
    for number in range(1200):
        (clone / CORE / f"{number}.md").touch()
    os.unlink(clone / INVARIANTS)
    os.mkfifo(clone / INVARIANTS)
    began = time.monotonic()
    said = drifted()
    assert time.monotonic() - began < 10.0
    assert "boot/identity.md is no plain file, or a very large one" in said
    assert "boot/invariants.md is no plain file" in said
    assert len(minded.drift) <= MOST_LINES
    shutil.rmtree(clone / ".git")
    assert "boot/identity.md is no plain file" in drifted()
    shutil.rmtree(clone)
    assert drifted() == ""
    os.symlink(minded.places.remote, clone)
    assert "boot/identity.md is no plain file" in drifted()
