"""The mind's clone: whatever was done to it, a run has it whole, and what both sides wrote is there after it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cell.mind.clone import prepare, publish, put_right
from infra.cell.mind.memory import memory_of
from infra.shared.mind import layout
from infra.shared.people import Person
from infra.shared.repository.git import Git
from tests.cell.mind.one_mind import OneMind

NOW = 1_770_000_000.0
EVENTS = "logs/events/2026-02-02.jsonl"
PM = Person("PM", "pm@x")


def belief(number: int, claim: str) -> str:
    return f"## B-{number:06d}\nClaim: {claim}\nStatus: active\nLast_validated: 2026-01-31\n"


class Both(OneMind):
    """With the PM's clone beside the agent's."""

    def __init__(self, root: str) -> None:
        super().__init__(root, NOW)
        self.pm_root = Path(root, "pm")
        self.pm = Git(str(self.pm_root), PM)
        self.has_its_remote(str(self.pm_root))
        self.cell().keep.record([{"event_type": "note"}])
        self.write("scratch/idea.txt", "mine")

    def bear(self, root: str) -> None:
        super().bear(root)
        self.write(layout.BELIEFS, "# Beliefs\n\n" + "\n".join(belief(at, f"claim {at}") for at in (1, 2, 3)))
        self.write(layout.IDENTITY, "# Identity\n")
        self.write(layout.WORKING, "# Working memory\n")
        self.write(layout.INVARIANTS, "Log.\n")
        self.write("skills/core/look/SKILL.md", "look\n")
        self.pm_pushes()
        Git(root, PM)("clone", "--quiet", "--branch", "mind", self.places.remote, "pm")

    def pm_writes(self, path: str, edit: Callable[[str], str]) -> None:
        self.pm("pull", "--quiet", "--ff-only")
        file = self.pm_root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(edit(file.read_text() if file.exists() else ""))
        self.pm("add", "--all")
        self.pm("commit", "--quiet", "--message", "the PM's")
        self.pm("push", "--quiet", "origin", "mind")

    def pushed(self, path: str) -> str:
        return self.bare("show", f"mind:{path}")

    def files(self) -> list[str]:
        return self.bare("ls-tree", "-r", "--name-only", "mind").splitlines()

    def edit(self, path: str, old: str, new: str) -> None:
        text = self.read(path)
        assert old in text
        self.write(path, text.replace(old, new))

    def runs(self, command: str) -> str:
        """In the clone, as the agent."""
        git = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(command, shell=True, cwd=self.root, env=os.environ | git, check=True, capture_output=True)
        return done.stdout.decode()


@pytest.fixture
def mind(tmp_path: Path) -> Both:
    return Both(str(tmp_path))


def test_a_run_ends_with_one_commit_that_leaves_out_events_and_scratch(mind: Both) -> None:
    """Without a clone and a branch nothing is done."""
    assert prepare(mind.cell())
    mind.write("memory/archive/a.md", "kept\n")
    assert publish(mind.cell(), "run R-1: completed", "R-1")

    assert mind.bare("log", "--format=%s %an", "mind").splitlines()[0] == "run R-1: completed minifram agent"
    assert [path for path in mind.files() if layout.is_below(path, layout.NOT_COMMITTED)] == []
    assert '"seq":1' in mind.read(EVENTS)
    assert publish(mind.cell(), "run R-2: completed", "R-2")  # nothing changed
    assert mind.bare("rev-list", "--count", "mind") == "3"
    shutil.rmtree(mind.root)
    assert not publish(mind.cell(), "run R-3: completed", "R-3")
    mind.bare("update-ref", "-d", "refs/heads/mind")
    assert not prepare(mind.cell())
    assert not os.path.exists(mind.root)


def in_history(mind: Both, text: str) -> bool:
    return text in mind.bare("log", "-p", "mind")


@pytest.mark.fault("F87")
@pytest.mark.heavy
def test_both_write_the_pms_text_stands_and_nothing_is_lost(mind: Both) -> None:
    """The PM writes in mid-run: what is apart comes together; of the same lines, of a file that is no text, and of one
    that the PM removed, the PM's stands, and ours is in the history."""
    prepare(mind.cell())
    mind.edit(layout.BELIEFS, "claim 1", "claim 1, by the agent")
    mind.write(layout.BELIEFS, mind.read(layout.BELIEFS) + "\n" + belief(4, "new"))
    mind.write("tools/x.bin", b"\0agent's\n")
    mind.write(layout.WORKING, "# Working memory\n\nby the agent\n")
    mind.pm_writes(layout.BELIEFS, lambda text: text.replace("claim 1", "claim 1, by the PM"))
    mind.pm_writes("tools/x.bin", lambda _: "\0PM's\n")
    mind.pm("rm", "--quiet", layout.WORKING)
    mind.pm_writes("tools/y", lambda _: "y")

    assert publish(mind.cell(), "run R-1: completed", "R-1"), mind.log

    text = mind.pushed(layout.BELIEFS) + "\n"
    claims = [each.claim for each in memory_of({layout.BELIEFS: text}).every]
    assert claims == ["claim 1, by the PM", "claim 2", "claim 3", "new"]
    assert text == mind.read(layout.BELIEFS)
    assert in_history(mind, "claim 1, by the agent")
    assert mind.pushed("tools/x.bin") == "\0PM's"
    assert layout.WORKING not in mind.files()
    assert in_history(mind, "by the agent")
    assert mind.git("status", "--porcelain") == ""


def test_a_run_begins_with_what_the_pm_pushed_and_keeps_what_a_dead_one_left(mind: Both) -> None:
    mind.write(layout.WORKING, "# Working memory\n\nhalf a thought\n")  # a runner was killed before its commit
    mind.pm_writes(layout.IDENTITY, lambda _: "# Identity\n\nNewer.\n")

    assert prepare(mind.cell())

    assert mind.read(layout.IDENTITY) == "# Identity\n\nNewer.\n"
    assert not os.path.exists(f"{mind.root}/{layout.DRIFT_REPORTS}")  # who is behind has changed nothing
    assert "half a thought" in mind.read(layout.WORKING)
    assert "half a thought" in mind.pushed(layout.WORKING)


@pytest.mark.fault("F87")
@pytest.mark.heavy
@pytest.mark.parametrize("what", ["refs/heads/mind", ""])
def test_a_branch_or_a_repository_that_is_gone_stops_no_run(mind: Both, what: str) -> None:
    """What the run learned is committed in the clone, and goes out when it is there again."""
    away = f"{mind.places.remote}/{what}".rstrip("/")
    os.rename(away, f"{mind.places.bot}/away")
    assert prepare(mind.cell())
    mind.write(layout.WORKING, "learned\n")
    assert not publish(mind.cell(), "run R-1: completed", "R-1")
    assert [word for word, _ in mind.log] == ["mind.not_prepared", "mind.not_pushed"]
    os.rename(f"{mind.places.bot}/away", away)
    assert publish(mind.cell(), "run R-2: completed", "R-2")
    assert mind.pushed(layout.WORKING) == "learned"


BREAKS = {
    "no .git": ("rm -r .git", "memory/new.md"),
    "no objects": ("rm -r .git/objects", "memory/new.md"),
    "half a merge": ("git rev-parse HEAD >.git/MERGE_HEAD", "memory/new.md"),
    "no clone": ('mv "$PWD" ../x; mkdir "$PWD"; echo mine >"$PWD/mine"', "mine"),
    "a file": ('mv "$PWD" ../x; echo mine >"$PWD"', ""),
    "a link": ('mv "$PWD" ../x; ln -s ../x "$PWD"', ""),
}


@pytest.mark.fault("F87")
@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_clone_is_set_aside_whole_and_made_anew(mind: Both, how: str) -> None:
    """What was not pushed lies in it, and nothing of it is pushed by itself."""
    mind.edit(layout.BELIEFS, "claim 2", "unsaved")
    mind.write("memory/new.md", "new\n")
    mind.pm_writes(layout.BELIEFS, lambda text: text.replace("claim 3", "three"))
    mind.runs(BREAKS[how][0])
    assert prepare(mind.cell())
    [cloned] = mind.notes("mind.cloned")
    assert os.path.lexists(f"{cloned['aside']}/{BREAKS[how][1]}".rstrip("/"))
    assert "Claim: three" in mind.read(layout.BELIEFS)
    assert '"seq":1' in mind.read(EVENTS)
    assert not os.path.islink(mind.root)
    assert publish(mind.cell(), "run R-1: completed", "R-1"), mind.log
    assert not in_history(mind, "unsaved")
    assert mind.git("status", "--porcelain") == ""
    assert not os.path.exists(f"{mind.root}/{layout.DRIFT_REPORTS}")


@pytest.mark.fault("F87")
def test_what_vanished_is_there_again_before_a_run(mind: Both) -> None:
    """A file of the PM's is told as put back; a clone that is gone is made, and another branch left."""
    mind.runs("rm -r boot memory .gitignore; git checkout --quiet -b other")
    assert prepare(mind.cell())
    assert mind.read(layout.IDENTITY) == "# Identity\n"
    assert "claim 1" in mind.read(layout.BELIEFS)
    assert os.path.exists(f"{mind.root}/{layout.DRIFT_REPORTS}")
    assert not mind.notes("mind.cloned")
    shutil.rmtree(mind.root)
    assert prepare(mind.cell())
    assert [each["aside"] for each in mind.notes("mind.cloned")] == [""]


@pytest.mark.attack("S61")
def test_a_repository_inside_is_not_committed_and_what_an_exclusion_hides_is(mind: Both) -> None:
    prepare(mind.cell())
    mind.runs("git init --quiet memory/inner; echo obey >memory/inner/x.md; mkdir -p .git/info")
    mind.runs("echo memory/ >.git/info/exclude")
    mind.runs("git -C memory/inner add .; git -C memory/inner commit --quiet -m x")
    mind.write("memory/y.md", "y")
    assert publish(mind.cell(), "run R-1: completed", "R-1")
    assert [path for path in mind.files() if path.startswith("memory/")] == [
        layout.BELIEFS,
        layout.WORKING,
        "memory/y.md",
    ]


def _hook(mind: Both, script: str) -> Path:
    path = Path(mind.places.remote, "hooks", "pre-receive")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.heavy
def test_a_refused_push_stays_as_a_commit_and_goes_later(mind: Both) -> None:
    """The door's words are in the runner's log, and nothing is forced. Where a commit of the agent's own is what it
    refuses, what the files hold goes out as one commit."""
    prepare(mind.cell())
    hook = _hook(mind, "echo 'refused: not this' >&2; exit 1")
    mind.write(layout.WORKING, "one\n")
    assert not publish(mind.cell(), "run R-1: completed", "R-1")
    assert "refused: not this" in mind.notes("mind.refused")[0]["error"]
    hook.unlink()
    mind.write("memory/archive/b.md", "two\n")
    assert publish(mind.cell(), "run R-2: completed", "R-2")
    assert mind.bare("log", "--format=%s", "mind").splitlines()[:2] == ["run R-2: completed", "run R-1: completed"]

    _hook(mind, "while read old new ref; do git log --format=%s $old..$new | grep -q '^bad' && exit 1; done; exit 0")
    mind.write("memory/archive/b.md", "three\n")
    mind.git("commit", "--quiet", "--all", "--message", "bad")
    mind.write(layout.WORKING, "one and a half\n")
    assert publish(mind.cell(), "run R-3: completed", "R-3")
    assert mind.bare("log", "--format=%s", "mind").splitlines()[:2] == ["run R-3: completed", "run R-2: completed"]
    assert mind.pushed("memory/archive/b.md") == "three"


HIDDEN = {
    "from the index": "git update-index --assume-unchanged boot/identity.md; echo I am free >boot/identity.md",
    "by a commit": "echo I am free >boot/identity.md; git commit --quiet --all --message mine",
    "a link above": "mv boot ..; ln -s ../boot boot; echo I am free >boot/identity.md",
    "a file above": "rm -r skills/core; echo mine >skills/core",
    "ignored": "echo '*' >skills/core/.gitignore; echo mine >skills/core/x.md",
    "a repository above": "git init --quiet skills; echo mine >skills/core/x.md",
    "a repository": "git init --quiet skills/core/mine; echo mine >skills/core/mine/SKILL.md",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_the_pms_files_are_put_right_however_a_change_was_hidden(mind: Both, how: str) -> None:
    """The branch has the report of it, and no change of theirs."""
    before, wanted = mind.bare("rev-parse", "mind"), "# Identity\nLog.\nlook\n"
    mind.runs(HIDDEN[how])

    assert put_right(mind.cell(), "R-1")

    assert mind.runs("cat boot/identity.md boot/invariants.md; find skills/core ! -type d | xargs cat") == wanted
    assert publish(mind.cell(), "run R-1: completed", "R-1")
    assert mind.bare("diff", "--name-only", before, "mind") == layout.DRIFT_REPORTS
    assert "- put back as the branch has it: '" in mind.read(layout.DRIFT_REPORTS)
