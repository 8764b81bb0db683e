"""The fold over the log of events, and what is counted by it: figures, and the profile of the context; the sandbox, and
whether the agent is fit to change itself."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from infra.cell.loop.record import Answered
from infra.cell.mind import preflight
from infra.cell.mind.health import Sandbox, problems_with
from infra.cell.mind.history import Drafted, DutyStep, History, Moved, Promoted, Run, Trial
from infra.cell.mind.metrics import FILE, MAX_SERIES, Metric, _shown, write_metrics
from infra.cell.mind.profile import Citations, compile_week
from infra.cell.mind.record import tell
from infra.shared.clock import moment
from infra.shared.conversation import Completion, Text, ToolUse
from infra.shared.mind.event import name_of
from infra.shared.mind.layout import DAILY, EVENTS, IDENTITY, INVARIANTS, LONG_TERM, WORKING
from infra.shared.paths import CONTAINER
from infra.shared.safe_files import Below
from tests.cell.mind.one_mind import OneMind
from tests.shared.rows import any_text, each_row

DAY = "2026-01-31"
SKILL = "learned/csv-sum@1.0.0"


def raw(
    seq: int, type: str = "skill_execution", tool: str = "bash", run: str = "r1", day: str = DAY, **more: Any
) -> str:
    """A line of the log; `more` may hold `details`, `skill` and what else `metadata` has."""
    skill, metadata = more.pop("skill", None), {"tool": tool, **more}
    event = {"event_type": type, "context": {"triggering_skill": skill}, "metadata": metadata, "run_id": run}
    return json.dumps({**event, "timestamp": f"{day}T10:00:00.000Z", "seq": seq}) + "\n"


def end(seq: int, status: str, run: str = "r1", day: str = DAY, **details: Any) -> str:
    return raw(seq, "task_update", "", run, day, status=status, details={"steps": 3, **details})


def history_of(tmp_path: Path, *lines: str) -> History:
    for line in lines:
        with (tmp_path / name_of(json.loads(line)["timestamp"])).open("a") as file:
            file.write(line)
    history = History()
    history.read(Below(str(tmp_path)))
    return history


def test_a_run_is_told_by_its_events(tmp_path: Path) -> None:
    begun = raw(1, "task_update", "", status="began", details={"directives": ["TASK-001"], "shown": ["a.md#B-000001"]})
    ended = end(5, "max_steps", loaded={"a.md": 12}, cited=["a.md"], completed=[])
    acts = (raw(2, skill=SKILL), raw(3, "note", "note", origins=["a.example"]), raw(4, skill=SKILL))
    found = history_of(tmp_path, begun, *acts, ended)
    run = found.runs["r1"]
    assert (run.end, run.succeeded, run.loaded, run.cited) == ("max_steps", False, {"a.md": 12}, ("a.md",))
    assert [(use.run, use.seq) for use in found.uses[SKILL]] == [(run, 2)]
    assert [(note.tainted, note.shown) for note in found.notes] == [(True, frozenset(run.shown))]
    assert (found.last_seq, found.acts) == (5, 0)


def test_entries_are_told_and_read_again(tmp_path: Path) -> None:
    mind = OneMind(str(tmp_path), 1e9)
    entries = (
        Promoted("item", "k", "L-000001", 3),
        Trial("self_test", SKILL, "h", False),
        Moved("a", "b"),
        Drafted("csv-sum", "h", ("a.example",)),
        DutyStep("daily_summary", DAY, "done"),
    )
    tell(mind.cell(), *entries)
    history = History()
    history.read(Below(mind.places.events))
    assert tuple(told.fact for entry in entries for told in history.entries(type(entry))) == entries
    assert history.origins_of("csv-sum") == ("a.example",)


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    history = history_of(tmp_path, raw(1), raw(2))
    with (tmp_path / name_of(DAY)).open("a") as file:
        file.write(f"torn\n{raw(3)}{raw(4)[:40]}")  # the keep writes at this moment
    history.read(Below(str(tmp_path)))
    with (tmp_path / name_of(DAY)).open("a") as file:
        file.write(raw(4)[40:])
    (tmp_path / name_of("2026-02-01")).write_text(raw(5, day="2026-02-01"))
    history.read(Below(str(tmp_path)))
    assert (len(history.runs["r1"].commands), history.last_seq) == (0, 5)


def test_what_says_too_much_stops_nothing(tmp_path: Path) -> None:
    huge = raw(2, details={"entry": "promoted", "what": "item", "key": "k", "seq": 10**30})
    wrong = [raw(3, details={"entry": 1}), end(4, "completed", completed=1, loaded=[])]
    found = history_of(tmp_path, raw(1), huge, *wrong, raw(6))
    assert (found.last_seq, found.entries(Promoted), found.runs["r1"].end) == (6, [], "")


NOW = moment("2026-01-31T10:00:00")
SAMPLE = re.compile(r'([a-z_]+)(?:\{[a-z_]+="((?:[^"\\\n]|\\[\\"n])*)"\})? (nan|-?inf|[-+0-9.e]+)')


def read(text: str) -> dict[str, dict[str, float]]:
    """By name and label; fails for what the text format does not have."""
    found: dict[str, dict[str, float]] = {}
    for line in text.split("\n")[:-1]:
        if not line.startswith(("# HELP ", "# TYPE ")):
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            found.setdefault(sample[1], {})[sample[2] or ""] = float(sample[3])
    return found


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    return OneMind(str(tmp_path), NOW)


def shown(mind: OneMind) -> dict[str, dict[str, float]]:
    write_metrics(mind.cell())
    return read(mind.read(FILE))


def test_what_is_counted_comes_from_the_log(mind: OneMind) -> None:
    lines = [
        raw(1, skill="learned/csv-sum@1.0.0", context_tokens=100),
        raw(2, tool="recall", context_tokens=300),
        raw(3, "error"),
        end(4, "completed", completed=["TASK-001", "0123abcd"]),
        end(5, "max_steps", "r2"),
        end(6, "completed", "r3", completed=[]),  # its report asked the PM
        raw(7, context_tokens=10**30),  # no event
    ]
    mind.write("skills/learned/csv-sum/SKILL.md", "")
    Path(mind.places.events).mkdir(parents=True)
    (Path(mind.places.events) / name_of(DAY)).write_text("".join(lines))
    tell(
        mind.cell(),
        Promoted("item", "k", "L-000001"),
        *(Promoted(what, "k") for what in ("contested", "superseded")),
    )
    mind.now += 5
    found = shown(mind)
    assert found["agent_tasks_completed_total"] == {"": 2}
    assert found["agent_context_tokens_avg"] == {"": 200}
    assert found["agent_contradictions_total"] == {"": 2}
    assert found["agent_skills"]["learned"] == 1
    assert found["agent_last_tick_timestamp_seconds"] == {"": NOW + 5}


def test_a_mind_without_events_has_all_its_figures(mind: OneMind) -> None:
    mind.write("memory/beliefs.md", b"\xff\xfe## B-000001\n")
    found = shown(mind)
    assert found["agent_tasks_completed_total"] == {"": 0}
    assert found["agent_beliefs"] == {"active": 0, "contested": 0, "deprecated": 0}


@given(any_text())
def test_no_text_breaks_a_line(text: str) -> None:
    metric = Metric("agent_skills", "", {f"{text}{number}": 1.0 for number in range(MAX_SERIES + 9)}, "end")
    assert len(read(_shown(metric))[metric.name]) <= MAX_SERIES


SEALED = Sandbox(True, 1000, 0, CONTAINER.mind, False, False, 9 << 30)


@each_row(
    "seen, words",
    [
        (SEALED, ""),
        (SEALED._replace(uid=0), "uid 0"),
        (SEALED._replace(capabilities=1), "capabilities 0x1"),
        (SEALED._replace(root_writable=True), "the root file system can be written"),
        (SEALED._replace(remote_writable=True), "the repository can be written"),
        (SEALED._replace(link="/etc"), "/agent leads to /etc, expected"),
        (SEALED._replace(free_bytes=1 << 20), "1 MiB free, expected 100"),
        (SEALED._replace(free_bytes=1 << 20, in_container=False), "1 MiB free, expected 100"),
        (Sandbox(False, 0, 1, "/etc", True, True, 9 << 30), ""),
    ],
)
def test_each_thing_that_is_wrong_with_a_sandbox_is_named(seen: Sandbox, words: str) -> None:
    """Without a container less is expected."""
    assert words in "".join(problems_with(seen))
    assert len(problems_with(seen)) == bool(words)


FACT = f"{LONG_TERM}#L-000001"
SHOWN = {IDENTITY: "The careful gardener.\n", f"{WORKING}#Now": "## Now\nKernel modules.\n", FACT: "nginx"}


@each_row(
    "said, done, cited",
    (
        ("Now I deploy staging.", "", []),
        ("As L-000001 says", "", [FACT]),
        ("", "cat /agent/memory/working.md", [f"{WORKING}#Now"]),
        ("\ud800 identity", "sed -n 1p boot/identity.md; echo L-000001", [IDENTITY, FACT]),
    ),
)
def test_a_section_is_cited_by_its_id_or_its_file(said: str, done: str, cited: list[str]) -> None:
    run = Citations()
    run.shown |= SHOWN
    acts = (Text(said), ToolUse("1", "bash", {"command": done}))
    run.seen(Answered("1", Completion(acts, "tool_use", "m")))
    told = run.told()
    assert (told["loaded"].keys(), told["cited"]) == (SHOWN.keys(), cited)
    assert all(tokens > 0 for tokens in told["loaded"].values())


def test_a_week_counts_its_runs_also_when_there_are_none(tmp_path: Path) -> None:
    runs = [
        Run("a", "", end="completed", loaded={FACT: 50, IDENTITY: 9}, cited=(FACT,)),
        Run("b", "", end="budget", loaded={FACT: 50}, cited=("gone.md",)),
    ]
    assert compile_week(str(tmp_path), runs, "2026-W05") == "2 runs were shown 2 sections, and named 1"
    assert json.loads((tmp_path / "logs/health/context-profile-2026-W05.json").read_text()) == {
        "week": "2026-W05",
        "runs": 2,
        "outcomes": {"completed": 1, "budget": 1},
        "sections": [
            {"section": FACT, "loaded": 2, "cited": 1, "completed": 1, "tokens": 100},
            {"section": IDENTITY, "loaded": 1, "cited": 0, "completed": 1, "tokens": 9},
        ],
    }
    assert compile_week(str(tmp_path), (), "2026-W06").startswith("0 runs")


def linked(mind: OneMind, path: str) -> None:
    os.unlink(f"{mind.root}/{path}")
    os.symlink("/etc/passwd", f"{mind.root}/{path}")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda mind: None, ""),
        (lambda mind: os.unlink(f"{mind.root}/{IDENTITY}"), "cannot read boot/identity.md: No such file"),
        (lambda mind: linked(mind, IDENTITY), "cannot read boot/identity.md"),
        (lambda mind: mind.write(IDENTITY, b" \n"), "it is empty, or no text; 'git checkout"),
        (lambda mind: mind.write(INVARIANTS, b"\xff\xfe\x00"), "boot/invariants.md: it is empty, or no text"),
        (lambda mind: Path(mind.places.events).write_text("a file"), f"cannot write events ({EVENTS}/)"),
        (lambda mind: mind.write(DAILY, "a file"), f"cannot write a daily summary ({DAILY}/)"),
        (lambda mind: shutil.rmtree(mind.root), ""),
    ],
)
def test_each_lack_is_named(mind: OneMind, spoil: Callable[[OneMind], object], words: str) -> None:
    """A file that is gone, empty, binary or a link; a directory that is a file. Without a clone nothing is looked at,
    and nothing is left behind by the look."""
    mind.write(IDENTITY, "I am.\n")
    mind.write(INVARIANTS, "Log.\n")
    spoil(mind)
    said = preflight.problem(mind.cell())
    assert (words in said and "Mend that first" in said) if words else not said
    assert not os.path.isdir(f"{mind.root}/{DAILY}") or os.listdir(f"{mind.root}/{DAILY}") == []
