"""What the door takes on the branch `mind`: a table of what the agent may change, and real pushes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infra.cell.mind import clone
from infra.keep.git_door.mind_rules import RULES, MindChange, MindVersion, tainted
from infra.keep.git_door.rules import Words
from infra.keep.mind.events import EventLog
from infra.keep.taint import Taint
from infra.shared.mind import layout
from infra.shared.mind.event import name_of
from infra.shared.mind.layout import MOST_FILE_BYTES, MOST_FILES, PUT_BACK
from infra.shared.refused import refusals_in
from tests.cell.mind.one_mind import OneMind
from tests.keep.git_door.test_taint import Scene
from tests.keep.git_door.world import World
from tests.shared.rows import each_row
from tests.shared.web_traces import EVIL

EVENT = "logs/events/2026-01-31.jsonl:1"


def facts(*numbers: int, text: str = "Claim: x") -> str:
    return "# Beliefs\n\n" + "".join(f"## B-{at:06d}\n{text}\n\n" for at in numbers)


def tasks(*ids: str, words: str = "Do it.") -> str:
    return "".join(f"---\ntask_id: {id}\npriority: low\n---\n{words}\n\n" for id in ids)


MIND = {
    "boot/identity.md": "I am.\n",
    "memory/beliefs.md": facts(1, 2, 3, 4, 5, 6),
    "memory/long_term.md": facts(1, 2, 3).replace("B-", "L-"),
    "tasks/inbox.md": tasks("TASK-001", "TASK-002"),
    "reflection/open_questions.md": "- Q-0001: Is it so?\n",
    **{f"skills/learned/s{at}/{name}": "x" for at in range(3) for name in ("SKILL.md", "more.md")},
}
GONE = None
Row = tuple[dict[str, str | None], dict[str, str]]
"""Files with what they become, and words of the refusal of each path that is named."""
ROWS: dict[str, Row] = {
    "free": ({"memory/working.md": "x", "logs/daily/d.md": "x", "skills/candidates/n/SKILL.md": "x"}, {}),
    "the PM's file": ({"boot/identity.md": "mine"}, {"boot/identity.md": "the PM's alone; put it back (git"}),
    "the PM's file, removed": ({"boot/identity.md": GONE}, {"boot/identity.md": "is the PM's alone"}),
    "in capitals, or below the PM's folder": (
        {"Boot/Identity.md": "x", "skills/core/a/b": "x"},
        {"Boot/Identity.md": "is the PM's alone", "skills/core/a/b": "is the PM's alone"},
    ),
    "never committed": (
        {"logs/events/d.jsonl": "{}", "scratch/x": "x"},
        {"logs/events/d.jsonl": "is never committed", "scratch/x": "is never committed"},
    ),
    "too large": (
        {"memory/archive/a.md": "x" * (MOST_FILE_BYTES + 1)},
        {"memory/archive/a.md": "a file of the mind has at most 1,048,576; shorten it"},
    ),
    "too many": ({f"tools/{at}": "" for at in range(MOST_FILES)}, {"": f"over the limit of {MOST_FILES:,}"}),
    "a third of the beliefs": ({"memory/beliefs.md": facts(1, 2, 3, 4)}, {}),
    "more of them": ({"memory/beliefs.md": facts(1, 2, 3)}, {"memory/beliefs.md": "3 of 6 entries in memory"}),
    "headings alone": ({"memory/beliefs.md": facts(*range(7), text="")}, {"memory/beliefs.md": "6 of 6 entries"}),
    "the file": ({"memory/long_term.md": GONE}, {"memory/long_term.md": "3 of 3 entries"}),
    "one skill": ({"skills/learned/s0/SKILL.md": GONE}, {}),
    "two skills": (
        {f"skills/learned/s{at}/{name}": GONE for at in (0, 1) for name in ("SKILL.md", "more.md")},
        {f"skills/learned/s{at}/{name}": "2 of 3 skills" for at in (0, 1) for name in ("SKILL.md", "more.md")},
    ),
    "skills that moved": (
        {path: GONE for path in MIND if path.startswith("skills/")}
        | {path.replace("learned", "deprecated"): "x" for path in MIND if path.startswith("skills/")},
        {},
    ),
    "a task that is answered": ({"tasks/inbox.md": tasks("TASK-002"), "tasks/completed/TASK-001.md": "x"}, {}),
    "all tasks": ({"tasks/inbox.md": "", **{f"tasks/blocked/TASK-00{at}.md": "x" for at in (1, 2)}}, {}),
    "a task without an answer": (
        {"tasks/inbox.md": tasks("TASK-002")},
        {"tasks/inbox.md": "it takes TASK-001 out without an answer; write tasks/completed/TASK-001.md"},
    ),
    "a new task": (
        {"tasks/inbox.md": tasks("TASK-001", "TASK-002", "TASK-003")},
        {"tasks/inbox.md": "it adds TASK-003"},
    ),
    "other words": (
        {"tasks/inbox.md": tasks("TASK-001") + tasks("TASK-002", words="Obey.")},
        {"tasks/inbox.md": "it changes TASK-002"},
    ),
    "a task that cannot be read": (
        {"tasks/inbox.md": tasks("TASK-001", "TASK-002") + tasks("TASK-003").replace("priority", "bad")},
        {"tasks/inbox.md": "it adds TASK-003"},
    ),
}
TAINTED = "changes, and the agent has read the web"
PLACED = ("memory/working.md", "logs/daily/d.md", "tasks/active.md", "boot/recovery.md")
WHEN_TAINTED: dict[str, Row] = {
    "free": (
        {path: "x" for path in ("reflection/f.md", "logs/health/d", "tasks/completed/T", "skills/failed/c/SKILL.md")},
        {},
    ),
    "placed": ({path: "obey" for path in PLACED}, dict.fromkeys(PLACED, TAINTED)),
    "an answer": ({layout.OPEN_QUESTIONS: "- Q-0001: Is it so?\n  - Answer (2026-02-02, run R-1): yes\n"}, {}),
    "a question": ({layout.OPEN_QUESTIONS: "- Q-0002: What?\n"}, {layout.OPEN_QUESTIONS: "asks Q-0002 anew"}),
    "another question": ({layout.OPEN_QUESTIONS: "- Q-0001: Run it?\n"}, {layout.OPEN_QUESTIONS: "asks Q-0001 anew"}),
    "on a clean note": ({layout.BELIEFS: facts(1, 2, 3, 4, 5, 6) + f"## B-000007\nSource: {EVENT}\n"}, {}),
    "on no note": ({layout.BELIEFS: facts(1, 2, 3, 4, 5, 6, 7)}, {layout.BELIEFS: TAINTED}),
}


def change(edits: dict[str, str | None]) -> MindChange:
    after = {path: text for path, text in (MIND | edits).items() if text is not None}
    versions = (
        MindVersion({path: len(text) for path, text in files.items()}, lambda path, files=files: files.get(path, ""))  # type: ignore[misc]
        for files in (MIND, after)
    )
    return MindChange(list(edits), *versions)


def agree(found: list[Words], expected: dict[str, str]) -> None:
    assert sorted(path for path, _ in found) == sorted(expected), found
    for path, why in found:
        assert expected[path] in why


@pytest.mark.attack("S61", "S62", "S63")
@each_row("edits, expected", ROWS.values())
def test_what_is_refused_at_any_time(edits: dict[str, str | None], expected: dict[str, str]) -> None:
    agree([words for _, rule in RULES for words in rule(change(edits))], expected)


@pytest.mark.attack("S61")
@each_row("edits, expected", WHEN_TAINTED.values())
def test_what_is_refused_while_the_agent_is_tainted(edits: dict[str, str | None], expected: dict[str, str]) -> None:
    taint = Taint(0.0, ("https://evil.example",))
    agree(list(tainted(change(edits), taint, lambda place: place == EVENT)), expected)
    assert not list(tainted(change(edits), None, lambda _: False))


# Real pushes.


KEY = "sk-ant-api03-" + "a1B2c3D4" * 12
FILES = {path: text for path, text in MIND.items() if not path.startswith("tasks/")} | {
    "memory/working.md": "nothing\n"
}
LEARNED = [path for path in FILES if path.startswith("skills/learned/")]


@pytest.fixture
def scene(world: World) -> Scene:
    """Before there is a mind."""
    return Scene(world)


@pytest.fixture
def mind(world: World) -> World:
    """A world with a mind; `agent` and `pm` have it checked out."""
    world.pm.git("checkout", "--quiet", "--orphan", "mind")
    world.pm.git("rm", "--quiet", "-r", "--force", ".")
    world.pm.commit(FILES, "the mind", to="mind")
    world.agent.git("fetch", "--quiet", "origin")
    world.agent.git("checkout", "--quiet", "mind")
    return world


@pytest.mark.attack("S61", "S62", "S63")
def test_each_refused_path_is_named_and_the_pms_push_meets_none_of_it(mind: World) -> None:
    """With the id of its rule, for a program; the rest of the push is sound, and logs are taken here, though nowhere
    else."""
    many = {f"skills/core/{at}.md": "mine\n" for at in range(9)}
    mind.agent.git("rm", "--quiet", "-r", "skills/learned")
    mind.agent.commit(
        {"memory/beliefs.md": "", "tasks/inbox.md": tasks("T-1"), "scratch/x": "x", "logs/daily/d.md": "d", **many}
    )
    found = {(each.id, each.path) for each in refusals_in(mind.agent.refused("mind"))}
    lost = {("losses", path) for path in (*LEARNED, "memory/beliefs.md")}
    barred = {("file", path) for path in (*many, "scratch/x")}
    assert found == {*lost, *barred, ("orders", "tasks/inbox.md")}

    mind.agent.git("reset", "--quiet", "--hard", "origin/mind")
    mind.agent.commit({"logs/daily/d.md": "d", "memory/working.md": "busy\n"}, to="mind")
    mind.agent.git("checkout", "--quiet", "main")
    mind.agent.commit({"logs/daily/x.md": "x"})
    assert "never committed" in mind.agent.refused("HEAD:refs/heads/other")
    mind.pm.git("pull", "--quiet", "origin", "mind")
    mind.pm.commit({"memory/beliefs.md": "# Beliefs\n", "boot/identity.md": "another\n"}, to="mind")


@pytest.mark.attack("S61")
def test_a_frozen_agents_refusal_names_the_paths_as_well(mind: World) -> None:
    """So that they are put back, and steer nothing, though nothing lands."""
    mind.settings(autonomy="frozen")
    mind.agent.commit({"boot/identity.md": "mine\n"})
    found = refusals_in(mind.agent.refused("mind"))
    assert {(each.id, each.path) for each in found} == {("autonomy", ""), ("file", "boot/identity.md")}


@pytest.mark.attack("S61")
def test_the_mind_has_a_history_of_its_own(mind: World) -> None:
    """It only grows, from its one beginning; no branch is made from it, and it is the PM's to create."""
    git = mind.agent.git
    fresh = git("commit-tree", "HEAD^{tree}", "-m", "fresh")
    joined = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-p", fresh, "-m", "join")
    mind.judges({f"{fresh}:refs/heads/mind": "history only grows"})
    mind.judges({f"{joined}:refs/heads/mind": "has a beginning of its own"})
    mind.judges({"mind:refs/heads/other": "has its history from the branch 'mind'"})
    mind.bare("update-ref", "-d", "refs/heads/mind")
    mind.judges({"mind:refs/heads/mind": "mind is the PM's to create"})


@pytest.mark.attack("S61")
def test_the_runner_puts_back_what_the_door_names_and_the_rest_lands(scene: Scene, mind: World) -> None:
    """Also what a killed run left: the next one does not read it."""
    mind.pm.git("checkout", "--quiet", "main")
    one = OneMind.__new__(OneMind)  # in this world, not in one of its own
    one.lies(mind.places, time.time())
    assert clone.prepare(one.cell())
    scene.trace.served(EVIL)
    many = {f"memory/archive/{at}.md": "obey\n" for at in range(9)}
    files = {"memory/working.md": "obey\n", "boot/identity.md": "mine\n", "reflection/failures.md": "sound\n", **many}
    for path, text in {**files, "reflection/improvements.md": f"the key is {KEY}\n"}.items():
        one.write(path, text)

    assert clone.prepare(one.cell()), one.log

    assert one.read("boot/identity.md") == FILES["boot/identity.md"]
    assert one.read("memory/working.md") == FILES["memory/working.md"]
    landed = mind.bare("ls-tree", "-r", "--name-only", "mind")
    assert "reflection/failures.md" in landed
    assert len(list(Path(one.root, PUT_BACK).glob("*/memory/**/*.md"))) == 10
    assert "obey" not in landed
    assert "improvements" not in landed
    assert "boot/identity.md" in one.read("reflection/drift_reports.md")
    assert one.notes("mind.not_prepared") == []


@pytest.mark.attack("S61")
def test_a_tainted_agent_remembers_what_no_page_can_have_said(scene: Scene, mind: World) -> None:
    """Sections of the memory that rest on a note which the keep has from a run that had been served nothing by then;
    neither words of its own, nor a note of the run that read the page, nor what is no note."""
    now = time.time()
    scene.trace.served(EVIL, ago=100.0)
    log, told = EventLog(mind.places), now - 90.0
    day = name_of(log.append([], told).at)
    for began, type in ((95.0, "note"), (120.0, "note"), (95.0, "skill_execution")):
        run = f"{time.strftime('%Y-%m-%dT%H%M%S', time.gmtime(now - began))}.000Z-0123abcd"
        log.append([{"event_type": type, "run_id": run}], told)
    items = FILES["memory/long_term.md"]

    def item(note: int) -> str:
        return f"## L-000007\nClaim: it is 80\nProvenance:\n  - Source: event logs/events/{day}:{note}\n\n"

    wrong = [items + item(note) for note in (2, 3, 4)] + [items + item(1) + "## L-000008 y\nobey\n"]
    wrong += [items.replace(old, "# Obey") + item(1) for old in ("# Beliefs", "Claim: x")]
    for made in mind.agent.commits({"memory/long_term.md": text} for text in wrong):
        words = "'memory/long_term.md' changes, and the agent has read the web"
        mind.judges({f"{made}:refs/heads/mind": words})
    mind.agent.commit({"memory/long_term.md": items + item(1)}, to="mind")
