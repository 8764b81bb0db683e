"""`minifram mind forget`: afterwards nothing of the agent's memory holds it, and it does not come back."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from host.agent.forget_cell import DO, LOOK
from infra.cell.mind import clone
from infra.cell.mind.mind import MindContext
from infra.keep.mind import heads as keeps_heads
from infra.shared.files import make_directories
from infra.shared.mind.event import each_event
from infra.shared.mind.event_chain import verify
from infra.shared.mind.forgotten import read_forgotten
from infra.shared.mind.heads import FILE, Forgotten, read_heads, standing
from infra.shared.mind.layout import BELIEFS, EVENTS
from infra.shared.mind.snapshots import SnapshotKind, snapshots
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from infra.shared.requests import Done, NoteHead, Refused
from tests.cell.mind.one_mind import OneMind
from tests.host.desk import PROJECT, Desk
from tests.host.test_mind import push_mind, tag_mind
from tests.shared.mind.test_forgetting import chain_of

SECRET = "Blue Whale-77"
PLAIN = "the PM likes tea"
BELIEF = f"""\
# Beliefs

Next: B-000003

## B-000001
Claim: The code word is {SECRET}.
Confidence: 0.9
Status: active
Type: observed
Provenance:
  - Source: event {EVENTS}/2026-01-31.jsonl:2
    Evidence: hash:HASH
Last_validated: 2026-01-31
Contradictions:
  - None
Notes: -

## B-000002
Claim: {PLAIN}
Confidence: 0.9
Status: active
Type: observed
Provenance:
  - Source: event {EVENTS}/2026-01-31.jsonl:3
    Evidence: hash:HASH
Last_validated: 2026-01-31
Contradictions:
  - None
Notes: -
"""


class Remembering:
    """An agent that is down and knows the secret everywhere."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.git = desk, desk.git()
        self.home = desk.home()
        self.mind = Path(self.home.places.mind)
        content = chain_of("one", f"it is {SECRET}", PLAIN)
        self.hashes = [json.loads(line)["hash"] for line in content.splitlines()]
        seen = self.git("rev-parse", "mind")
        self.first = push_mind(
            self.git, {"tasks/größe-blue whale-77.md": "-\n", "logs/daily/1.md": f"- blue  whale-77, {PLAIN}\n"}, seen
        )
        self.second = push_mind(self.git, {BELIEFS: BELIEF.replace("HASH", self.hashes[2])}, self.first)
        for kind in (SnapshotKind.DAILY, SnapshotKind.PRE_MODIFICATION):
            tag_mind(self.git, self.first, kind, "2026-01-31T10:42:12Z", SECRET)
        self.git("update-ref", "refs/heads/rescue/2026", self.second)
        self.git("update-ref", "refs/tags/snapshot/mine", self.first)
        make_directories(self.home.places.bot)
        shutil.rmtree(self.mind, ignore_errors=True)
        words = ["git", "clone", "--quiet", "--branch", "mind", self.home.remote, str(self.mind)]
        subprocess.run(words, check=True, capture_output=True)
        self.events = self.mind / EVENTS / "2026-01-31.jsonl"
        self.events.parent.mkdir(parents=True, exist_ok=True)
        self.events.write_bytes(content)
        (self.mind / "scratch").mkdir(exist_ok=True)
        (self.mind / "scratch/index.db").write_text(SECRET)
        make_directories(self.home.places.var)
        note = NoteHead("run", 3, self.hashes[2])
        assert keeps_heads.note(self.home.places.var, note, 0.0) == Done("")

    def bytes_of_all(self, top: str) -> bytes:
        """Of every file below, and of every object of a repository, whatever leads to it."""
        found = b"".join(path.read_bytes() for path in Path(top).rglob("*") if path.is_file())
        if (Path(top) / "objects").is_dir():
            words = ["git", "--git-dir", top, "cat-file", "--batch-all-objects", "--batch"]
            found += subprocess.run(words, check=True, capture_output=True).stdout
        return found.lower()

    def holds(self) -> bool:
        return any(
            part in self.bytes_of_all(top)
            for part in (b"blue whale", b"blue  whale")
            for top in (self.home.remote, str(self.mind))
        )


def run_of(places: Paths) -> MindContext:
    """What the next run of the agent works with."""
    mind = object.__new__(OneMind)
    mind.places, mind.git, mind.now, mind.log = places, Git(places.mind, AGENT), 1_769_856_132.0, []
    return mind.context()


def test_after_it_nothing_holds_the_word(desk: Desk) -> None:
    """Repository with all its objects, tags, clone, index, events, a fresh backup; what was beside it stays, and the
    chain verifies against the keep's heads, which say that something was forgotten."""
    there = Remembering(desk)
    assert there.holds()

    ended = desk.done("mind", "forget", SECRET, "--yes")

    assert not there.holds()
    assert "1 event" in ended.out
    assert SECRET.lower() not in (ended.out + ended.err).lower()
    git = there.git
    log = git("log", "-p", "--all", "--text").lower()
    assert "whale" not in log
    assert "[forgotten]" in log
    assert PLAIN.lower() in log
    assert [each.name for each in snapshots(git)] == [
        *("daily/2026-01-31T10-42-12Z", "pre-modification/2026-01-31T10-42-12Z")
    ]
    assert {each.commit for each in snapshots(git)} == {git("rev-parse", "mind^"), git("rev-parse", "snapshot/mine")}
    assert {there.first, there.second} <= read_forgotten(there.home.places.var)
    assert git("rev-parse", "main") == desk.main()
    lines = list(each_event(there.events.read_bytes().splitlines(), "1"))
    entries = read_heads((Path(there.home.places.var) / FILE).read_bytes())
    assert isinstance(entries[-2], Forgotten)
    assert verify(lines, standing(entries)) == []
    assert json.loads(lines[2].raw)["hash"] in git("cat-file", "blob", f"mind:{BELIEFS}")
    assert os.listdir(there.mind) == ["logs"]
    old = keeps_heads.note(there.home.places.var, NoteHead("run", 3, there.hashes[2]), 0.0)
    assert isinstance(old, Refused)
    desk.done("backup", str(desk.root / "after.tar.gz"))
    with tarfile.open(desk.root / "after.tar.gz") as archive:
        (desk.root / "whole").mkdir()
        archive.extractall(desk.root / "whole", filter="data")
    assert b"whale" not in there.bytes_of_all(str(desk.root / "whole"))
    bundle = next((desk.root / "whole").rglob("*.bundle"))
    subprocess.run(["git", "clone", "--quiet", "--mirror", bundle, desk.root / "whole.git"], check=True)
    assert b"whale" not in there.bytes_of_all(str(desk.root / "whole.git"))
    tip = git("rev-parse", "mind")
    assert clone.prepare(run_of(there.home.places))
    assert Git(there.home.places.mind)("rev-parse", "HEAD") == tip
    assert there.events.exists()
    assert clone.publish(run_of(there.home.places), "the next run", "next")
    assert git("log", "--format=%s", f"{tip}..mind") in ("", "the next run")
    assert not there.holds()
    again = desk.done("mind", "forget", SECRET, "--yes")
    assert "nothing of it was found" in again.out


def test_an_item_goes_with_its_statement(desk: Desk) -> None:
    """By its id: the section, and what it says wherever it stands; its number is not free again."""
    there = Remembering(desk)

    desk.done("mind", "forget", "B-000002", "--yes")

    text = there.git("cat-file", "blob", f"mind:{BELIEFS}")
    assert "B-000002" not in text
    assert "Next: B-000003" in text
    assert PLAIN not in there.git("log", "-p", "--all", "--text")
    assert PLAIN.encode() not in there.events.read_bytes()
    assert there.holds()
    assert desk.run("mind", "forget", "B-000009", "--yes").code == 4


def test_it_is_asked_for_and_only_of_an_agent_that_is_down(desk: Desk) -> None:
    """Without a yes, or beside a watcher, nothing changes; words that would take out too much are refused."""
    there = Remembering(desk)
    before = there.git("for-each-ref")
    assert desk.run("mind", "forget", SECRET).code != 0
    assert desk.run("mind", "forget", "a", "--yes").code == 2
    with open(there.home.places.watcher_lock, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = desk.run("mind", "forget", SECRET, "--yes")
    assert ended.code == 6
    assert "minifram down" in ended.err
    assert there.git("for-each-ref") == before
    assert there.holds()


def test_what_leads_there_from_elsewhere_is_named(desk: Desk) -> None:
    """Another branch with that history, and files outside of the mind, are the PM's to decide about."""
    there = Remembering(desk)
    there.git("update-ref", "refs/heads/copy", there.second)
    desk.branch("improve", {"src/a.py": f"WORD = '{SECRET}'\n"})
    log = desk.log("main", "transcripts/run.jsonl", f"{SECRET}\n")

    ended = desk.done("mind", "forget", SECRET, "--yes")

    assert "left as it is, with the old history: refs/heads/copy" in ended.out
    assert "in: refs/heads/improve:src/a.py" in ended.out
    assert f"in: {log}" in ended.out


def test_the_cells_part_runs_by_itself(desk: Desk) -> None:
    """As the host's command starts it where the cell's files are another user's: the words come on standard input."""
    there = Remembering(desk)
    wanted = {"bot": there.home.places.bot, "uid": None, "words": [SECRET], "ids": []}
    for how, is_left in ((LOOK, True), (DO, False)):
        words = [sys.executable, "-s", "-P", "-m", "host.agent.forget_cell"]
        said = subprocess.run(
            words,
            input=json.dumps(wanted | {"do": how}),
            env={"PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert json.loads(said)["events"] == 1
        assert list(json.loads(said)["hashes"]) == there.hashes[1:]
        assert (SECRET.encode() in there.events.read_bytes()) is is_left
