"""The keep's care for the mind: when a snapshot is due and which go, and drift of the PM's files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.mind.drift import MOST_LINES, read_drift
from infra.keep.mind.keeper import LOOK_SECONDS, Finding, MindKeeper
from infra.keep.mind.snapshots import (
    DAILY,
    KEPT,
    POST_FAILURE,
    PRE_MODIFICATION,
    SCHEDULED,
    Snapshot,
    due,
    snapshot_of,
    snapshots,
)
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

    def another(self, on_drift: str = "report") -> MindKeeper:
        return MindKeeper(self.places, OURS, on_drift, structlog.stdlib.get_logger(), lambda: self.wall)

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

    def look(self, after: float = 0.0) -> list[Finding]:
        """The keep's look when so many seconds have passed."""
        self.wall, self.at = self.wall + after, self.at + max(after, LOOK_SECONDS)
        return self.keeper.look(self.at)

    def tags(self) -> list[str]:
        return [each.name for each in snapshots(Git(self.places.remote))]

    @property
    def drift(self) -> tuple[str, ...]:
        return read_drift(self.places.var).lines


@pytest.fixture
def minded(tmp_path: Path) -> Minded:
    made = Minded(tmp_path)
    made.push(BIRTH)
    return made


def test_snapshots_come_by_the_clock_and_beside_changes(minded: Minded) -> None:
    """Daily, weekly and monthly at once; one before a hop and one after a fall back; each says when, of what and why.
    Another watcher makes none again."""
    commit = minded.push({WORKING: "one\n"}, AGENT)
    minded.look()
    minded.keeper = minded.another()
    minded.look(DAY)
    assert minded.tags() == [f"{kind}/2026-01-31T10-42-12Z" for kind in ("daily", "monthly", "weekly")]
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

    def dailies(day: int) -> int:
        minded.push({WORKING: f"{day}\n"}, AGENT)
        minded.look(DAY)
        return sum(name.startswith("daily/") for name in minded.tags())

    assert max(map(dailies, range(KEPT[DAILY] + 1))) == KEPT[DAILY]
    Git(minded.places.remote)("pack-refs", "--all")
    lock = Path(minded.places.remote, "packed-refs.lock")
    lock.touch()
    (minded.clone() / INVARIANTS).write_text("Log nothing.\n")
    assert dailies(9) == KEPT[DAILY] + 1
    assert "boot/invariants.md" in minded.drift[0]
    lock.unlink()
    assert dailies(10) == KEPT[DAILY]


def test_the_pms_change_is_no_drift_and_a_large_one_is_told(minded: Minded) -> None:
    """By hash and by the identity's words; the clone that is only behind is no drift."""
    minded.clone()
    minded.look()
    minded.push({INVARIANTS: "Log everything. Ask first.\n"})
    assert minded.look(60) == []
    changed = minded.push({IDENTITY: "You trade shares, quietly and fast, with other people's money.\n"})
    assert minded.look(60) == []
    assert minded.keeper.before_launch("main@0", False, "") == []

    def pushes() -> float:
        minded.push({INVARIANTS: "Log everything. Ask twice.\n"})
        minded.clone()
        return START

    minded.keeper._wall = pushes  # while the keep looks
    assert minded.look() == []

    (words,) = read_drift(minded.places.var).changes
    assert f"commit {changed[:12]} changed 9" in words
    assert words.endswith("of the words of boot/identity.md")
    assert minded.drift == ()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("echo I am free >boot/identity.md", IDENTITY),
        ("rm skills/core/look/SKILL.md", f"{CORE}/look/SKILL.md"),
        ("cd skills/core; seq -f %g.md 1200 | xargs touch", f"{CORE}/1000.md"),
        ("ln -sf /etc/passwd boot/invariants.md", INVARIANTS),
        ("truncate -s 1T boot/identity.md", IDENTITY),
        ("rm -r boot skills", IDENTITY),
        ('rm -r "$PWD"', ""),
        ('mv "$PWD" "$PWD.away"; ln -s "$PWD.away" "$PWD"', IDENTITY),
    ],
)
def test_a_file_of_the_pms_that_the_cell_changed_is_drift(minded: Minded, command: str, path: str) -> None:
    """It is told once, and is over when the clone is right. No clone at all is none."""
    clone = minded.clone()
    minded.look()
    subprocess.run(command, shell=True, check=True, cwd=clone)
    assert [title for title, _ in minded.look(60)] == (["the mind has drifted"] if path else [])
    assert bool(path) == (f"the agent's clone: {path} is not as the PM wrote it" in minded.drift)
    assert len(minded.drift) <= MOST_LINES
    assert minded.keeper.before_launch("main@0", False, "") == []
    if clone.is_symlink():
        clone.unlink()
    minded.clone()
    assert (minded.look(60), minded.drift) == ([], ())


def test_a_change_of_the_agents_on_the_branch_is_drift_until_the_pm_takes_it_back(minded: Minded) -> None:
    """The door lets none through; should one be there, it never becomes the baseline."""
    minded.look()
    minded.push({INVARIANTS: "Log nothing.\n"}, AGENT)
    (found,) = minded.look(8 * DAY)
    assert "the agent changed boot/invariants.md; 'minifram mind restore" in found[1]
    minded.push({INVARIANTS: BIRTH[INVARIANTS]})
    assert minded.look(8 * DAY) == []
    assert minded.drift == ()


def test_safe_mode_comes_only_where_the_pm_wants_it(minded: Minded) -> None:
    (minded.clone() / IDENTITY).write_text("I am free.\n")
    assert (len(minded.look()), minded.keeper.drifted) == (1, "")
    safe = minded.another("safe_mode")
    assert len(safe.before_launch("main@0", False, "")) == 1, "a watcher that begins tells it again"
    assert "boot/identity.md" in safe.drifted


def test_a_spoiled_repository_ends_nothing(minded: Minded) -> None:
    """One that cannot be read is tried again later; without a mind nothing is kept."""
    minded.look()
    branch = Path(minded.places.remote) / "refs/heads/mind"
    for spoil in (lambda: branch.write_text("nonsense\n"), branch.unlink):
        spoil()
        assert minded.look(60) == []
        assert minded.keeper.before_launch("main@0", False, "") == []


def _step(there: list[Snapshot], tip: str, now: float) -> list[Snapshot]:
    """What is there after one look."""
    make, prune = due(there, tip, now, {})
    assert not set(make) & set(prune)
    return [each for each in [*there, *make] if each not in prune]


def _of(kind: str, there: list[Snapshot]) -> list[str]:
    return [each.name for each in there if each.kind == kind]


def test_a_year_of_changing_days_leaves_seven_four_and_twelve() -> None:
    """One each day, week and month, the newest are kept; a second look on the same day does nothing."""
    there = list[Snapshot]()
    for day in range(400):
        there = _step(there, f"{day:040x}", START + day * DAY)
        assert due(there, "f" * 40, START + day * DAY + 60, {}) == ([], [])
    assert [len(_of(kind, there)) for kind in SCHEDULED] == [7, 4, 12]
    assert _of(DAILY, there)[-1] == "daily/2027-03-06T10-42-12Z"


def test_what_has_not_changed_is_not_kept_again_and_a_down_time_costs_one() -> None:
    """A mind at rest makes no snapshots; after a month without a watcher there is one more of each kind, not thirty."""
    there = _step([], "a" * 40, START)
    assert len(there) == 3
    assert _step(there, "a" * 40, START + 3 * DAY) == there
    assert len(_step(there, "b" * 40, START + 40 * DAY)) == 6


@given(st.lists(st.tuples(st.floats(-400 * DAY, 400 * DAY), st.integers(0, 3)), max_size=40))
def test_whatever_the_clock_does_looks_settle(moves: list[tuple[float, int]]) -> None:
    """With a clock that jumps either way: never more than are kept, a second look changes nothing, and the newest
    content that was due is there."""
    there, now = list[Snapshot](), START
    for by, tip in moves:
        now += by
        there = _step(there, f"{tip:040x}", now)
        assert due(there, f"{tip:040x}", now, {}) == ([], [])
        assert all(len(_of(kind, there)) == len(set(_of(kind, there))) <= KEPT[kind] for kind in SCHEDULED)


def test_what_is_kept_beside_changes_is_bounded_too() -> None:
    many = [snapshot_of(PRE_MODIFICATION, START + at, "a" * 40, "x") for at in range(30)]
    assert _of(PRE_MODIFICATION, _step(many, "a" * 40, START + 60)) == [each.name for each in many[-20:]]


def test_before_a_change_the_mind_is_kept_once() -> None:
    """Of one state of the mind one is enough, however often the agent hops meanwhile."""

    def beside(there: list[Snapshot], kind: str, tip: str) -> list[Snapshot]:
        make, _ = due(there, tip, START + 9, {kind: "improve@0123456789ab"})
        return [each for each in make if each.kind == kind]

    (first,) = beside([], PRE_MODIFICATION, "a" * 40)
    assert first.reason == "pre-modification: improve@0123456789ab"
    assert beside([first], PRE_MODIFICATION, "a" * 40) == []
    assert beside([first._replace(name=f"{first.name[:-3]}00Z")], PRE_MODIFICATION, "b" * 40)
    assert beside([first], POST_FAILURE, "a" * 40)
