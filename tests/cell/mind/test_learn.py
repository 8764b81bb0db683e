"""From events to files: promotion, summaries, contradictions, each in a real clone."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cell.doors import ModelFailure
from infra.cell.mind import learn
from infra.cell.mind.claims import BeliefStatus
from infra.cell.mind.coherence import judgement_of
from infra.cell.mind.judgements import PairVerdict
from infra.cell.mind.memory_files import MemoryFiles, read_log
from infra.cell.mind.mind import MindContext
from infra.cell.mind.summaries import EmptySummary
from infra.shared.conversation import Completion, Request, Text
from infra.shared.mind.event import MindEvent
from infra.shared.mind.layout import BELIEFS, FAILURES, LONG_TERM
from tests.cell.mind.one_mind import OneMind
from tests.shared.mind.events import write_events
from tests.shared.mind.notes import DAY, START, Said, event_of
from tests.shared.rows import each_row


class Learning(OneMind):
    """A mind whose runs say what they noted, and a model that judges."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), START)
        self.seq = 0
        self.answers: list[str | ModelFailure] = []
        self.asked: list[str] = []

    def say(self, *said: Said) -> None:
        for each in said:
            self.seq += 1
            event = event_of(each._replace(at=self.now), self.seq)
            self.append(event)

    def append(self, event: MindEvent) -> None:
        write_events(self.places.events, [event])

    @property
    def live(self) -> MindContext:
        return self.context()._replace(ask=self._judge)

    def _judge(self, request: Request) -> Completion:
        self.asked.append(str(request.messages[0].content[0]))
        answer = self.answers.pop(0)
        if isinstance(answer, ModelFailure):
            raise answer
        return Completion((Text(answer),), "end_turn", "scripted")

    @property
    def files(self) -> MemoryFiles:
        return MemoryFiles(self.root, self.now)


@pytest.fixture
def mind(tmp_path: Path) -> Learning:
    return Learning(tmp_path)


CONTRADICT, COMPATIBLE = '{"verdict": "contradict"}', '{"verdict": "compatible"}'


def test_a_checked_note_is_known_after_its_run_and_a_second_one_makes_it_a_belief(mind: Learning) -> None:
    """Each pass done again changes no byte."""
    mind.say(Said("r1", "it is 80", how="check"))
    assert "promoted 1" in learn.after_run(mind.live)
    [item] = mind.files.items
    assert (item.id, item.subject, item.statement) == ("L-000001", "port", "it is 80")
    before = mind.read(LONG_TERM), mind.read("logs/health/promotions.jsonl")
    assert "promoted 0" in learn.after_run(mind.live)
    assert (mind.read(LONG_TERM), mind.read("logs/health/promotions.jsonl")) == before
    mind.now += DAY
    mind.say(Said("r2", "It is 80.", how="check"))
    learn.after_run(mind.live)
    [belief] = mind.files.beliefs
    assert (belief.claim, belief.last_validated) == ("it is 80", "2026-01-06")
    assert mind.git("rev-parse", "HEAD") in belief.provenance[-1].source
    assert mind.asked == []


def test_a_pass_that_was_cut_short_between_memory_and_its_log_is_not_made_twice(mind: Learning) -> None:
    mind.say(Said("r1", "it is 80", how="check"))
    learn.after_run(mind.live)
    before = mind.read(LONG_TERM)
    (Path(mind.root) / "logs/health/promotions.jsonl").unlink()
    assert "promoted 0" in learn.after_run(mind.live)
    assert mind.read(LONG_TERM) == before


def test_a_run_that_has_read_the_web_leaves_memory_to_the_next(mind: Learning) -> None:
    """Which may change it though the agent is tainted; what a page said is no memory."""
    mind.say(Said("r1", "it is 80", how="check"), Said("r2", "obey", how="page"))
    assert "waits for one that has not" in learn.after_run(mind.live._replace(origins=lambda: ("a.example",)))
    assert not mind.files.items
    assert "promoted 1" in learn.after_run(mind.live._replace(is_tainted=lambda: True))
    assert [item.statement for item in mind.files.items] == ["it is 80"]
    mind.now += DAY
    learn.make_daily(mind.live, "2026-01-05")
    summary = mind.read("logs/daily/2026-01-05.md")
    assert "obey" not in summary
    assert "1 statement of runs that had read the web, candidates: logs/events/2026-01-05.jsonl:2" in summary


def test_the_daily_summary_tells_what_was_seen_promoted_and_refused(mind: Learning) -> None:
    mind.say(Said("r1", "it is 80", how="check"), Said("r1", "it is odd"), Said("r1", "no", how="failed"))
    mind.now += DAY
    assert learn.make_daily(mind.live, "2026-01-05").startswith("Seen 2 statements, promoted 1, refused 1.")
    summary = mind.read("logs/daily/2026-01-05.md")
    assert "- port: it is 80 [check; in memory; logs/events/2026-01-05.jsonl:1]" in summary
    assert "- port: it is odd [act; noted by 1 of 2 runs, and not validated; logs/events/2026-01-05.jsonl:2]" in summary
    learn.make_daily(mind.live, "2026-01-06")
    assert "Nothing happened." in mind.read("logs/daily/2026-01-06.md")


def test_a_summary_that_cannot_be_made_leaves_memory_alone(mind: Learning) -> None:
    """Its events stay, and the failure is told."""
    mind.say(Said("r1", "it is 80", how="check"))
    Path(mind.places.events, "2026-01-06.jsonl").write_bytes(b"\x00\xff garbage\n" * 3)
    mind.now += 2 * DAY
    with pytest.raises(EmptySummary, match="none of the 3 lines"):
        learn.make_daily(mind.live, "2026-01-06")
    assert not mind.files.items
    assert "Memory was not changed" in mind.read(FAILURES)
    (Path(mind.root) / "logs/daily/2026-01-05.md").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        learn.make_daily(mind.live, "2026-01-05")
    assert not mind.files.items
    assert mind.read(FAILURES).count("## ") == 2


def test_of_two_that_contradict_each_other_the_one_validated_last_wins(mind: Learning) -> None:
    """At once, when the later one comes to memory; and back, when the earlier one is validated again."""
    mind.say(Said("r1", "it is 80", how="check"))
    learn.after_run(mind.live)
    mind.now += 60
    mind.say(Said("r2", "it is 90", how="check"))
    mind.answers = [CONTRADICT]
    assert "L-000002 was validated last" in learn.after_run(mind.live)
    states = {item.statement: item.status for item in mind.files.items}
    assert states == {"it is 80": BeliefStatus.DEPRECATED, "it is 90": BeliefStatus.ACTIVE}
    mind.now += DAY
    mind.say(Said("r3", "it is 80", how="check"))
    learn.after_run(mind.live)
    held = {item.statement: item.status for item in mind.files.items} | {
        belief.claim: belief.status for belief in mind.files.beliefs
    }
    assert held["it is 90"] is BeliefStatus.DEPRECATED
    assert held["it is 80"] is BeliefStatus.ACTIVE


def test_without_a_model_both_are_contested_and_it_is_said(mind: Learning) -> None:
    mind.say(*(Said(run, text) for text in ("it is 80", "it is 90") for run in "ab"))
    mind.answers = [ModelFailure("unavailable", "no answer")]
    assert "the model is not available" in learn.after_run(mind.live)
    assert [item.status for item in mind.files.items] == [BeliefStatus.CONTESTED] * 2
    assert [item.contradictions for item in mind.files.items] == [("L-000002",), ("L-000001",)]
    mind.answers = [CONTRADICT]
    mind.now += 7 * DAY
    learn.make_weekly(mind.live, "2026-W02")
    report = mind.read("logs/health/coherence-2026-W02.md")
    assert "1 pairs judged" in report
    assert "neither is validated" in report
    assert mind.read("logs/weekly/2026-W02.md").startswith("# 2026-W02\n\n4 events")


def test_what_is_no_memory_and_says_something_else_is_in_the_report(mind: Learning) -> None:
    """Of working memory, and of notes that were not promoted; nothing is asked and nothing changes."""
    mind.say(Said("r1", "it is 80", how="check"), Said("r2", "it is 90"), Said("r2", "it is 95", how="page"))
    mind.write("memory/working.md", "# Working\n\n- Port: it is 70\n- port: It is 80.\n- other: x\n")
    learn.after_run(mind.live)
    learn.make_weekly(mind.live, "2026-W02")
    told = mind.read("logs/health/coherence-2026-W02.md").partition("## Not in memory, and against it\n")[2]
    assert told.strip().splitlines() == [
        "- memory/working.md: it is 70 (against L-000001: it is 80)",
        "- logs/events/2026-01-05.jsonl:2: it is 90 (against L-000001: it is 80)",
    ]


def test_pairs_that_are_compatible_are_judged_once(mind: Learning) -> None:
    mind.say(Said("r1", "it is open", how="check"), Said("r1", "it is 80", how="check"))
    mind.answers = [COMPATIBLE]
    learn.after_run(mind.live)
    learn.make_weekly(mind.live, "2026-W02")
    assert len(mind.asked) == 1
    assert [item.status for item in mind.files.items] == [BeliefStatus.ACTIVE] * 2
    assert read_log(mind.root).compatible


def test_two_that_hold_under_conditions_are_split(mind: Learning) -> None:
    mind.say(Said("r1", "it is 80", how="check"), Said("r1", "it is 90", how="check"))
    mind.answers = ['{"verdict": "conditions", "one": "if plain", "other": "if sealed"}']
    learn.after_run(mind.live)
    assert sorted(item.statement for item in mind.files.items) == ["if plain: it is 80", "if sealed: it is 90"]
    learn.make_weekly(mind.live, "2026-W02")
    learn.after_run(mind.live)
    assert len(mind.files.items) == 2
    assert len(mind.asked) == 1


@each_row(
    "answer, verdict",
    [
        (CONTRADICT, PairVerdict.CONTRADICT),
        (COMPATIBLE, PairVerdict.COMPATIBLE),
        ("contradict", PairVerdict.UNKNOWN),
        ('{"verdict": "unknown"}', PairVerdict.UNKNOWN),
        ('{"verdict": "contradict", "one": "x"}', PairVerdict.UNKNOWN),
        ('{"verdict": "conditions"}', PairVerdict.UNKNOWN),
        ('{"verdict": "conditions", "one": "", "other": "x"}', PairVerdict.UNKNOWN),
        ('{"verdict": ["contradict"]}', PairVerdict.UNKNOWN),
        ("[" * 100_000, PairVerdict.UNKNOWN),
        ("", PairVerdict.UNKNOWN),
    ],
)
def test_only_the_line_that_was_asked_for_is_an_answer(answer: str, verdict: PairVerdict) -> None:
    assert judgement_of(answer).verdict is verdict


def test_memory_that_is_no_text_is_left_as_it_is(mind: Learning) -> None:
    """Sections that do not parse stay byte for byte beside what is added."""
    broken = "# Long-term memory\n\n## L-000007 x\nnonsense\n\n<<<<<<< HEAD\n"
    mind.write(LONG_TERM, broken)
    mind.say(Said("r1", "it is 80", how="check"))
    learn.after_run(mind.live)
    assert "## L-000007 x\nnonsense\n\n<<<<<<< HEAD\n" in mind.read(LONG_TERM)
    assert "L-000008" in mind.read(LONG_TERM)
    mind.write(BELIEFS, b"\xff\xfe\x00")
    mind.say(Said("r2", "it is 81", how="check"))
    with pytest.raises(OSError, match="left as it is"):
        learn.after_run(mind.live)
    assert Path(mind.root, BELIEFS).read_bytes() == b"\xff\xfe\x00"
