"""Which versions the PM has taken back, read from a real repository that is changed as a PM changes it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from infra.keep.supervision.main_branch import roll_back
from infra.keep.supervision.versions import version_of
from infra.keep.supervision.withdrawn import HeldVersion, Withdrawals, left_behind
from infra.shared.control import KNOWN_GOOD, REJECTED
from infra.shared.paths import Paths
from infra.shared.people import AGENT, WATCHER, Person
from infra.shared.repository.git import Git
from tests.keep.supervision.agents import within

PM = Person("PM", "pm@example.invalid")


class Repository:
    """One repository, played in by several people."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.pm = Git(str(directory), PM)
        self.pm("init", "-q", "-b", "main")
        (directory / "infra").mkdir()
        self.withdrawals = Withdrawals(self.pm)

    def version(self, words: str, person: Person = AGENT) -> str:
        """Commit another version; it is known as good from then on."""
        (self.directory / "infra/runner.py").write_text(words)
        return self.commit(person)

    def commit(self, person: Person = AGENT) -> str:
        git = Git(str(self.directory), person)
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", "change")
        commit = git("rev-parse", "HEAD")
        self.pm("update-ref", f"{KNOWN_GOOD}/{self.id(commit)}", commit)
        return commit

    def id(self, commit: str) -> str:
        return version_of(self.pm, commit).id

    def withdrawn(self) -> set[str]:
        return set(self.withdrawals.look(version_of(self.pm, self.pm("rev-parse", "main"))))

    def ids(self, *commits: str) -> set[str]:
        return {self.id(commit) for commit in commits}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_what_the_pm_rolls_back_from_is_withdrawn_until_main_holds_it_again(repository: Repository) -> None:
    """Any number of versions at once, with reports between them; going back to one of them gives it back."""
    first, second, third = (repository.version(words) for words in ("one", "two", "three"))
    (repository.directory / "COMMS.md").write_text("a report")
    repository.commit(WATCHER)
    assert repository.withdrawn() == set()
    repository.version("one", PM)
    assert repository.withdrawn() == repository.ids(second, third)
    repository.version("four", PM)
    assert repository.withdrawn() == repository.ids(second, third)
    repository.version("two", PM)
    assert repository.withdrawn() == repository.ids(third)
    assert repository.id(first) not in repository.withdrawn()


def test_git_is_asked_again_when_a_ref_is_another_one(tmp_path: Path) -> None:
    """In a bare repository whose refs and main stay as they are, looking costs no process of git's."""
    made = Repository(tmp_path / "made")
    commit = made.version("one")
    bare = Git(str(tmp_path / "bare"), PM)
    made.pm("clone", "-q", "--mirror", str(made.directory), bare.directory)
    asked: list[str] = []

    class Counted(Git):
        def afresh(self, seconds: float) -> Git:
            asked.append("git")
            return super().afresh(seconds)

    withdrawals, main = Withdrawals(Counted(bare.directory, PM)), version_of(bare, commit)

    def look(expected: tuple[str, ...]) -> int:
        asked.clear()
        assert withdrawals.look(main) == expected
        return len(asked)

    expected: tuple[str, ...] = ()
    for ref in (f"{KNOWN_GOOD}/{main.id}", f"{REJECTED}/better/{commit[:12]}"):
        bare("update-ref", ref, commit)
        expected = (main.id,) if ref.startswith(REJECTED) else ()
        assert look(expected) == 1
        within(30.0, functools.partial(lambda known: look(known) == 0, expected), "a look that asks nothing")


def test_a_revert_by_plain_git_is_a_rollback(repository: Repository) -> None:
    """No command of ours took part in it."""
    repository.version("one")
    bad = repository.version("two")
    repository.pm("revert", "--no-edit", bad)
    assert repository.withdrawn() == repository.ids(bad)


@pytest.mark.parametrize("person", [AGENT, WATCHER])
def test_the_agent_s_own_rollback_withdraws_nothing(repository: Repository, person: Person) -> None:
    """Which versions stand in for main is not the agent's to say."""
    for words in ("one", "two", "one"):
        repository.version(words, person)
    assert repository.withdrawn() == set()


def test_a_history_that_the_pm_pushed_over_is_left_behind(repository: Repository) -> None:
    """`git push --force` of an older main; a version that the new history has as well stays."""
    first = repository.version("one")
    second = repository.version("two")
    assert repository.withdrawn() == set()
    repository.pm("reset", "-q", "--hard", first)
    assert repository.withdrawn() == repository.ids(second)
    repository.pm("commit", "-q", "--amend", "--allow-empty", "-m", "other words, same files")
    assert repository.withdrawn() == repository.ids(second)


def test_what_a_rejected_branch_brought_is_withdrawn(repository: Repository) -> None:
    """Also where it is still what main holds; a branch that brought no version withdraws none."""
    repository.version("one")
    repository.pm("checkout", "-q", "-b", "better")
    rejected = repository.version("two")
    repository.pm("checkout", "-q", "main")
    (repository.directory / "notes").write_text("mine")
    repository.commit(PM)
    repository.pm("merge", "-q", "--no-ff", "-m", "merge", "better")
    merged = repository.version("two and more", PM)
    assert repository.withdrawn() == set()
    repository.pm("update-ref", f"{REJECTED}/better/{rejected[:12]}", rejected)
    assert repository.withdrawn() == repository.ids(rejected)
    assert repository.id(merged) not in repository.withdrawn()
    repository.pm("checkout", "-q", "-b", "text")
    (repository.directory / "text").write_text("words")
    text = repository.commit()
    repository.pm("checkout", "-q", "main")
    repository.pm("merge", "-q", "--no-ff", "-m", "merge", "text")
    repository.pm("update-ref", f"{REJECTED}/text/{text[:12]}", text)
    assert repository.withdrawn() == repository.ids(rejected)


def test_a_version_that_stays_on_main_is_not_left_behind() -> None:
    """What the PM went back to a second time by another way is held all the same."""
    one, two = ("1",), ("2",)
    line = [
        HeldVersion("a", one, False),
        HeldVersion("b", two, False),
        HeldVersion("c", one, False),
        HeldVersion("d", two, True),
    ]
    assert left_behind(line) == []
    assert left_behind([*line, HeldVersion("e", one, True)]) == ["b"]


def test_the_agent_does_not_roll_main_back_to_what_the_pm_took_back(tmp_path: Path) -> None:
    """However well it served, and before anything was found good; what the PM allows again it may."""
    repository, bare = Repository(tmp_path / "clone"), str(tmp_path / "bare.git")
    repository.version("one", PM)
    second = repository.version("two")
    one_again = repository.version("one", PM)
    git = Git(str(tmp_path))
    git("clone", "-q", "--bare", repository.directory.as_uri(), bare)
    places = Paths(f"{tmp_path}/bot", bare, f"{tmp_path}/run", f"{tmp_path}/var")
    [taken_back] = repository.ids(second)

    with pytest.raises(PermissionError, match="the PM has rolled back from this version"):
        roll_back(places, second, "merge", "a signal")
    Git(bare)("fetch", "-q", str(tmp_path / "clone"), f"{KNOWN_GOOD}/*:{KNOWN_GOOD}/*")
    roll_back(places, second, "merge", "another", pardoned=(taken_back,))
    assert Git(bare)("show", "main:infra/runner.py") == "two"
    roll_back(places, one_again, "merge", "a third")
