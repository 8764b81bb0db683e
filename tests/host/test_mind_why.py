"""`minifram mind why`: from what is held to be so back to the directive, and which link is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from infra.cell.mind.memory import Fact, Source, memory_of
from infra.shared import comms
from infra.shared.mind.layout import BELIEFS, INBOX, LONG_TERM
from tests.host.desk import Desk
from tests.shared.mind.events import write_events
from tests.shared.mind.notes import Said, event_of

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


def _rewritten(traced: Traced, words: bytes) -> None:
    traced.log.write_bytes(traced.log.read_bytes().replace(b"they run", words))


def test_a_broken_link_is_said_and_is_a_finding(desk: Desk) -> None:
    """Each spoils the way a little more."""
    traced = Traced(desk)
    spoils: list[tuple[Callable[[], object], str]] = [
        (
            partial(desk.write_page, "# COMMS\n\n## Directives\n\n## Reports\n"),
            "neither COMMS.md nor a task of the inbox",
        ),
        (traced.transcript.unlink, "there is no transcript of it any more"),
        (partial(_rewritten, traced, b"they walk"), "it says something else"),
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
