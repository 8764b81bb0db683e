"""`minifram mind`: what the PM sees of the agent's memory, does with it, and why something is held to be so."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from infra.cell.mind.memory import Fact, Source, memory_of
from infra.keep.mind.drift import FILE, MindDrift, write_drift
from infra.keep.mind.snapshots import DAILY, PRE_MODIFICATION, Snapshot, make, snapshot_of, snapshots
from infra.shared import comms
from infra.shared.mind.layout import BELIEFS, INBOX, LONG_TERM
from infra.shared.people import WATCHER
from infra.shared.repository.git import EMPTY_TREE, Git
from infra.shared.repository.tip import commit_tree, tree_with, write_file
from tests.host.desk import Desk
from tests.shared.mind.events import write_events
from tests.shared.mind.notes import Said, event_of

MOMENT = 1_769_856_132.0
"""2026-01-31T10:42:12Z."""


def tag_mind(git: Git, commit: str, kind: str, at: float, about: str = "") -> Snapshot:
    made = snapshot_of(kind, at, commit, about)
    make(Git(git.directory, WATCHER), made)
    return made


def test_snapshots_are_listed_with_time_commit_and_reason(desk: Desk) -> None:
    """The oldest first; a tag that is not the keep's is not taken for one."""
    git = desk.git()
    commit = commit_tree(git, EMPTY_TREE, (), "the mind")
    later = tag_mind(git, commit, PRE_MODIFICATION, MOMENT + 86_400, "improve@0123456789ab")
    first = tag_mind(git, commit, DAILY, MOMENT)
    git("update-ref", "refs/tags/snapshot/daily/2026-01-30T00-00-00Z", commit)

    ended = desk.done("mind", "snapshots", "--json")
    lines = desk.done("mind", "snapshots").out.splitlines()

    assert snapshots(git) == [first, later]
    assert [(each["name"], each["commit"], each["reason"]) for each in ended.json["snapshots"]] == [
        ("daily/2026-01-31T10-42-12Z", commit, "scheduled"),
        ("pre-modification/2026-02-01T10-42-12Z", commit, "pre-modification: improve@0123456789ab"),
    ]
    assert lines[0].split() == ["daily/2026-01-31T10-42-12Z", commit[:12], "scheduled"]


def push_mind(git: Git, files: dict[str, str | None], seen: str = "") -> str:
    """A commit on the branch mind."""
    blobs = {path: write_file(git, text) if text is not None else None for path, text in files.items()}
    commit = commit_tree(git, tree_with(git, seen or EMPTY_TREE, blobs), (seen,) if seen else (), "a change")
    git("update-ref", "refs/heads/mind", commit)
    return commit


def test_the_mind_goes_back_as_a_new_commit_and_the_undo_undoes_it(desk: Desk) -> None:
    """Whole or in part; what came after stays in the history; a second time there is nothing to do."""
    git = desk.git()
    first = push_mind(git, {"memory/beliefs.md": "old\n", "memory/working.md": "old\n", "logs/daily/1.md": "day\n"})
    made = tag_mind(git, first, DAILY, MOMENT)
    later = push_mind(
        git, {"memory/beliefs.md": None, "memory/working.md": "new\n", "logs/weekly/1.md": "week\n"}, first
    )

    ended = desk.done("mind", "restore", made.name, "/agent/memory", "--json").json
    assert (ended["before"], git("rev-parse", "mind^")) == (later, later)
    assert git("log", "-1", "--format=%an %s", "mind") == f"PM Restore {made.name}"
    assert git("ls-tree", "-r", "--name-only", "mind").split() == [
        *("logs/daily/1.md", "logs/weekly/1.md", "memory/beliefs.md", "memory/working.md")
    ]
    whole = desk.done("mind", "restore", made.name, "--agent", "agent", MINIFRAM_AGENT="second")
    assert git("rev-parse", "mind^{tree}") == git("rev-parse", f"{first}^{{tree}}")
    assert "D logs/weekly/1.md" in whole.out
    assert "nothing to do" in desk.done("mind", "restore", made.name).out
    undo = next(line for line in whole.out.splitlines() if line.startswith("undo:"))
    desk.done(*undo.removeprefix("undo:").split()[1:], MINIFRAM_AGENT="second")
    assert git("cat-file", "blob", "mind:logs/weekly/1.md") == "week"
    assert git.ok("merge-base", "--is-ancestor", later, "mind")


def test_what_cannot_be_restored_is_named(desk: Desk) -> None:
    """No mind, no such snapshot, another history, no such path."""
    git = desk.git()
    git("update-ref", "-d", "refs/heads/mind")
    assert "has no mind" in desk.run("mind", "restore", "daily/x").err
    first = push_mind(git, {"a.md": "1\n"})
    tag_mind(git, first, DAILY, MOMENT)
    before = git("rev-parse", "mind")
    for words, code, said in (
        (("weekly/2026",), 4, "'weekly/2026' is no snapshot"),
        ((desk.main(),), 4, "no commit of the mind's history"),
        (("daily/2026-01-31T10-42-12Z", "b.md"), 4, "'b.md' is neither"),
        (("daily/2026-01-31T10-42-12Z", "../x"), 1, "outside repository"),
    ):
        ended = desk.run("mind", "restore", *words)
        assert (ended.code, said in ended.err) == (code, True), ended
    assert git("rev-parse", "mind") == before


def test_status_tells_of_drift_and_of_an_identity_that_became_another(desk: Desk) -> None:
    """As the keep has it; a state that is no such is a trouble, and no end of the command."""
    var = Path(desk.home().places.var)
    var.mkdir(parents=True, exist_ok=True)
    write_drift(str(var), MindDrift(("the agent's clone: boot/identity.md is missing",), ("90% of the words",)))
    shown = desk.run("status").out
    assert "drifted: the agent's clone: boot/identity.md is missing" in shown
    assert "90% of the words" in shown
    (var / FILE).write_bytes(b"{}{")
    assert "mind.json is not what the keep writes" in desk.run("status").out


RUN = "2026-01-05T100000Z-abcdefab"
PLACE = "logs/events/2026-01-05.jsonl"


class Traced:
    """An agent that was told a fact, and holds it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        home = desk.home()
        page = comms.add_directive(desk.page(), "I say so: deploys run from release only.")
        desk.write_page(page)
        [directive] = comms.directives(page)
        self.directive = directive.id
        said = (Said(RUN, "they run from release", "deploys", "directive", task=directive.id), Said(RUN, "x"))
        self.log = Path(home.places.events) / PLACE.rpartition("/")[2]
        write_events(home.places.events, [event_of(said[0]._replace(task=""), 1), event_of(said[1], 2)])
        self.transcript = Path(home.places.bot) / f"main/minifram/logs/transcripts/{RUN}.jsonl"
        self.transcript.parent.mkdir(parents=True)
        line = {"at": "2026-01-05T10:00:00.000Z", "kind": "acted", "run_id": RUN, "step_id": "1.1"}
        self.transcript.write_text(json.dumps(line) + "\n")
        source = Source(f"event {PLACE}:1", f"directive, run {RUN} step 1.1")
        item = Fact(id="L-000001", claim="They run from release.", subject="deploys", provenance=(source,))
        desk.puts_mind({LONG_TERM: memory_of({}).with_fact(item).texts[LONG_TERM]})
        belief = msgspec.structs.replace(item, id="B-000001")
        desk.puts_mind({BELIEFS: memory_of({}).with_fact(belief).texts[BELIEFS]})


def test_the_way_goes_back_to_the_directive(desk: Desk) -> None:
    traced = Traced(desk)
    for id in ("L-000001", "B-000001"):
        links = desk.done("mind", "why", id, "--json").json["links"]
        kinds = [each["kind"] for each in links]
        assert [kind for kind in kinds if kind != "commit"] == [*("statement", "event", "note", "run", "directive")]
        assert "They run from release" in links[0]["words"]
        assert "in the PM's words" in next(each["words"] for each in links if each["kind"] == "note")
        assert links[-1]["words"].startswith(traced.directive)


def test_a_broken_link_is_said_and_is_a_finding(desk: Desk) -> None:
    """Each spoils the way a little more."""
    traced = Traced(desk)
    spoils: list[tuple[Callable[[], object], str]] = [
        (
            partial(desk.write_page, "# COMMS\n\n## Directives\n\n## Reports\n"),
            "neither COMMS.md nor a task of the inbox",
        ),
        (traced.transcript.unlink, "there is no transcript of it any more"),
        (
            lambda: traced.log.write_bytes(traced.log.read_bytes().replace(b"they run", b"they walk")),
            "it says something else",
        ),
        (traced.log.unlink, "the log has no such event"),
    ]
    for spoil, words in spoils:
        spoil()
        ended = desk.run("mind", "why", "B-000001")
        assert (ended.code, words in ended.out) == (8, True), ended.out


def test_the_words_of_a_task_are_found_when_it_has_left_the_inbox(desk: Desk) -> None:
    Traced(desk)
    desk.write_page("# COMMS\n\n## Directives\n\n## Reports\n")
    desk.puts_mind({INBOX: "---\ntask_id: TASK-1000\npriority: low\n---\nI say so, write it.\n"})
    desk.puts_mind({INBOX: "# Inbox\n"})
    assert "TASK-1000: priority: low --- I say so, write it." in desk.done("mind", "why", "L-000001").out


def test_what_is_no_id_or_is_not_there(desk: Desk) -> None:
    desk.puts_mind({BELIEFS: "# Beliefs\n\n## B-000002\nnothing\n"})
    assert [desk.run("mind", "why", id).code for id in ("x", "B-9", "L-000001\n")] == [4, 4, 4]
    ended = desk.run("mind", "why", "B-000002")
    assert (ended.code, "cannot be read" in ended.err) == (1, True)
