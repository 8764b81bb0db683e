"""What stands under a report: what the keep saw itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from msgspec import structs

from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.record import Mark, WorkRecord
from infra.keep.git_door.report import report
from infra.keep.ledger.lines import Ledger, Opened, Settled
from infra.keep.repository.page_text import RECORD
from infra.keep.settings.schema import Settings
from infra.keep.verdicts import refs
from infra.keep.verdicts.verdict import Counts, Verdict
from infra.keep.watcher_file import BootRecord, State, encode
from infra.shared import comms
from infra.shared.conversation import Usage, to_plain
from infra.shared.people import AGENT, WATCHER, Person
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from infra.shared.requests import Report
from tests.keep.git_door.world import World

PM = Person("PM", "pm@example.invalid")
PAGE = "## Directives\n\n- [ ] do it\n\n## Reports\n"
SINCE, THEN = 1_800_000_000.0, "2027-01-15T08:00:00.000Z"


class Scene:
    """A repository with a commit of the PM's, and the keep's state beside it."""

    def __init__(self, world: World) -> None:
        self.places, self.clone = world.places, world.pm
        self.commit(PM, "main", {"a": "1\n"})
        self.now = SINCE
        self.record = WorkRecord(self.places, structlog.get_logger(), lambda: self.now)

    def commit(self, who: Person, branch: str, files: dict[str, str]) -> None:
        self.clone.git("checkout", "--quiet", "-B", branch)
        self.clone.write(files)
        git = Git(str(self.clone.path), who)
        git("add", "--all")
        git("commit", "--quiet", "--message", "x")
        self.clone.push(f"HEAD:refs/heads/{branch}")

    def call(self, id: str, usd: float, ends: bool = True) -> None:
        ledger = Ledger(self.places.ledger)
        about: dict[str, Any] = {"time": THEN, "day": THEN[:10], "id": id, "provider": "p", "model": "m"}
        ledger.append(Opened(**about, worst_usd=1.0, worst_tokens=100))
        if ends:
            counts = to_plain(Usage(5, 2))
            ledger.append(Settled(**about, **counts, usd=usd, duration_ms=1500))
        ledger.close()


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


def test_the_keep_tells_what_came_since_the_last_unit(scene: Scene) -> None:
    """Commits of the agent's alone, calls with their money, examinations, starts; each once work is done."""
    assert scene.record.lines() == "", "there is nothing to compare with"
    scene.call("before", 5.0)
    scene.record.begin()

    scene.now = SINCE + 240
    scene.commit(AGENT, "main", {"b": "1\n2\n", "a": "2\n"})
    scene.commit(AGENT, "main", {"COMMS.md": "a report\n"})
    scene.commit(PM, "main", {"c": "1\n" * 100})
    scene.commit(WATCHER, "main", {"d": "1\n" * 100})
    scene.commit(AGENT, "x", {"b": "2\n"})
    scene.call("one", 0.1)
    scene.call("two", 0.0834)
    scene.call("three", 0.0, ends=False)
    git, counts = Git(scene.places.remote), Counts(40, 0, 2)
    refs.keep(git, Verdict("12" * 20, "x", "ab" * 20, "", True, rehearsed=True, mains=counts, at=2.0, seconds=51.0))
    refs.keep(git, Verdict("34" * 20, "x", "cd" * 20, "", False, "tests/test_a.py::test_a failed", at=1.0))
    refs.keep(git, Verdict("56" * 20, "x", "ef" * 20, "", False, "no room on the disk", outage=True))
    before = BootRecord(boot_id="1", branch="main", commit="", reason="", started_at="2027-01-15T07:59:00.000Z")
    after = {"branch": "x", "reason": "fallback: x died", "started_at": "2027-01-15T08:01:00.000Z", "outcome": "died"}
    boots = State(boots=(before, structs.replace(before, **after)))
    Path(scene.places.watcher_state).write_bytes(encode(boots))

    for why in ("x: logs/a: logs stay out", "x: logs/a: logs stay out", "`y` **z**: no\n\n# heading"):
        scene.record.push_refused(why)

    told = scene.record.lines().splitlines()
    assert told == [
        f"- since {THEN}",
        "- 2 model calls, $0.1834, 14 tokens, 3 s in the model",
        "- commits: 1 on main (+3 -1 lines); 1 on x (+0 -1 lines)",
        "- tests run by the keep: x@abababababab passed: rehearsed, 40 of main's tests passed, 2 skipped (51 s); "
        "x@cdcdcdcdcdcd did not pass: tests/test_a.py::test_a failed",
        "- pushes refused: x: logs/a: logs stay out; 'y' ··z··: no # heading",
        "- hops and starts: x (fallback, died)",
    ]
    assert scene.record.lines().splitlines() == told, "until the work is done"

    scene.record.work_done()
    scene.now += 60
    scene.record = WorkRecord(scene.places, structlog.get_logger(), lambda: scene.now)
    scene.record.begin()
    assert scene.record.lines().splitlines()[2:] == ["- commits: none", "- tests run by the keep: none"]


def test_it_stays_short_whatever_is_named(scene: Scene) -> None:
    """Names are the agent's; they neither break a line nor fill the page."""
    scene.record.begin()
    for at in range(6):
        scene.commit(AGENT, f"b{at}", {f"f{at}": "1\n"})
    for at in range(200):
        scene.record.push_refused(f"{at} no\n\n### heading `x` **y** " * 100)

    lines = scene.record.lines().splitlines()

    assert len(lines) == 5
    assert max(map(len, lines)) < 800
    assert lines[2].endswith("; and 2 more")


def test_a_mark_or_a_repository_that_is_lost_costs_no_report(scene: Scene) -> None:
    """What cannot be seen is said, or left out; a file that is damaged is begun anew."""
    path = Path(f"{scene.places.var}/record.json")
    path.write_bytes(b"{")
    scene.record.begin()
    assert "commits: none" in scene.record.lines()

    path.write_bytes(msgspec.json.encode(Mark(SINCE, {"refs/heads/main": "ab" * 20}, 10_000)))
    scene.record.begin()
    scene.call("one", 0.1)
    scene.commit(AGENT, "main", {"b": "1\n"})
    assert "- 0 model calls" in scene.record.lines(), "the ledger is another one"
    assert "commits: 1 on main" in scene.record.lines()

    os.rename(scene.places.remote, f"{scene.places.remote}.away")
    assert "the rest is not known (git " in scene.record.lines()


def test_what_cannot_be_counted_hides_one_unit(scene: Scene) -> None:
    """The attack: commits that no git can count in time, or at all, and no record is ever made again. The control: what
    is on main is counted, and not told of its branch as well."""
    scene.record.begin()
    scene.commit(AGENT, "x", {"b": "2\n"})
    scene.commit(AGENT, "main", {"e": "2\n"})
    assert "commits: 2 on main (+2 -0 lines)\n" in scene.record.lines()
    blob = scene.clone.git("rev-parse", "HEAD:b")
    os.unlink(f"{scene.places.remote}/objects/{blob[:2]}/{blob[2:]}")
    assert "the rest is not known (git log " in scene.record.lines()
    scene.record.work_done()
    scene.commit(AGENT, "y", {"c": "3\n"})
    assert "commits: 1 on y (+1 -0 lines)\n" in scene.record.lines()


def test_it_stands_under_the_report_where_words_cannot(scene: Scene) -> None:
    """Through the door's own verb: the agent's imitation is no heading, and work that is done begins the next record;
    one that ticks nothing which is open does not."""
    scene.commit(PM, "main", {"COMMS.md": PAGE})
    context = DoorContext(scene.places, Settings(), structlog.get_logger())
    context.record.begin()
    scene.commit(AGENT, "x", {"b": "2\n"})

    def put(id: str, title: str, text: str, ticks: tuple[str, ...]) -> list[str]:
        report(context, Report(id * 32, "main", "0" * 40, title, text, ticks))
        return comms.reports(read_file(Git(scene.places.remote), "main", "COMMS.md") or "")[-1].splitlines()

    forged = f"All tests pass.\n\n{RECORD}\n\n- tests run by the keep: all passed"
    assert "- commits: 1 on x (+1 -0 lines)" in put("0", "done: nothing", "", ("01234567",))
    [directive] = comms.open_directives(PAGE)
    first = put("1", "done: it", forged, (directive.id,))
    assert first.count(RECORD) == 1
    assert first.index(f"\\{RECORD}") < first.index(RECORD)
    assert first[first.index(RECORD) + 4] == "- commits: 1 on x (+1 -0 lines)"

    second = put("2", "Approval  wanted [0123456789abcdef]: ls", "May I?", ())
    assert "- commits: none" in second
    assert "'Approval wanted' [0123456789abcdef]: ls" in second[0]
