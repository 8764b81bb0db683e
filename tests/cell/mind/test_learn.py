"""From events to files: promotion, summaries, contradictions, each in a real clone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.cell.actions import NOTE, ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import Acted
from infra.cell.mind import learn, memory
from infra.cell.mind.coherence import judged
from infra.cell.mind.memory import Fact
from infra.cell.mind.mind import MindRun
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Position
from infra.shared import comms
from infra.shared.conversation import Completion, Request, Text
from infra.shared.mind.layout import BELIEFS, LONG_TERM
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
        self.ask = self._judge
        os.makedirs(self.places.events, exist_ok=True)

    def say(self, *said: Said) -> None:
        for each in said:
            self.seq += 1
            event = event_of(each._replace(at=self.now), self.seq)
            write_events(self.places.events, [event])

    def _judge(self, request: Request) -> Completion:
        self.asked.append(str(request.messages[0].content[0]))
        answer = self.answers.pop(0)
        if isinstance(answer, ModelFailure):
            raise answer
        return Completion((Text(answer),), "end_turn", "scripted")

    @property
    def facts(self) -> tuple[Fact, ...]:
        return memory.read(self.root).every


@pytest.fixture
def mind(tmp_path: Path) -> Learning:
    return Learning(tmp_path)


def test_a_checked_note_is_known_after_its_run_and_a_second_one_makes_it_a_belief(mind: Learning) -> None:
    """Each pass done again changes no byte, also when the keep was not told of the first."""
    mind.say(Said("r1", "it is 80", how="check"))
    mind.is_away = True
    with pytest.raises(OSError, match="away"):
        learn.learn(mind.cell())
    mind.is_away = False
    [item] = mind.facts
    assert (item.id, item.subject, item.claim) == ("L-000001", "port", "it is 80")
    before = mind.read(LONG_TERM)
    assert "promoted 0" in learn.learn(mind.cell())
    assert mind.read(LONG_TERM) == before
    mind.now += DAY
    mind.say(Said("r2", "It is 80.", how="check"))
    learn.learn(mind.cell())
    belief = mind.facts[0]
    assert (belief.id, belief.claim, belief.last_validated[:10]) == ("B-000001", "it is 80", "2026-01-06")
    assert mind.asked == []


def test_the_pms_word_is_looked_up(mind: Learning) -> None:
    """What an event says of it counts for nothing."""
    mind.say(Said("r1", "it is 80", how="directive"))
    assert "promoted 0" in learn.learn(mind.cell())
    mind.pm_says(comms.add_directive(comms.with_sections(""), "I say so: it is 80."))
    assert "promoted 1" in learn.learn(mind.cell())
    [item] = mind.facts
    assert item.provenance[0].evidence.startswith("directive, run r1")


def test_a_run_that_has_read_the_web_leaves_memory_to_the_next(mind: Learning) -> None:
    """Which may change it though the agent is tainted; what a page said is no memory."""
    mind.say(Said("r1", "it is 80", how="check"), Said("r2", "obey", how="page"))
    mind.is_tainted, noted = True, Acted.of("1.1", ToolCall("1", NOTE, {}), ToolResult("noted"), 0.1)
    for origins, facts in ((("a.example",), 0), ((), 1)):
        mind.origins = origins
        run = MindRun(mind.cell(), Position("run"))
        run.begin("Go.", ())
        run.record(noted)
        run.end(RunResult(StopReason.COMPLETED, "done", 1))
        assert len(mind.facts) == facts
    assert [each.claim for each in mind.facts] == ["it is 80"]
    mind.now += DAY
    learn.learn(mind.cell(), "2026-01-05")
    assert "obey" not in mind.read("logs/daily/2026-01-05.md")


def test_the_daily_summary_tells_what_was_seen_promoted_and_refused(mind: Learning) -> None:
    """And of a day on which nothing happened there is none."""
    mind.say(Said("r1", "it is 80", how="check"), Said("r1", "it is odd"), Said("r1", "no", how="failed"))
    mind.now += DAY
    assert learn.learn(mind.cell(), "2026-01-05").startswith("promoted 1, validated anew 0")
    summary = mind.read("logs/daily/2026-01-05.md")
    assert "- port: it is 80 [check; logs/events/2026-01-05.jsonl:1]" in summary
    assert "- port: it is odd [act; logs/events/2026-01-05.jsonl:2]" in summary
    learn.learn(mind.cell(), "2026-01-04")
    assert not Path(mind.root, "logs/daily/2026-01-04.md").exists()


def test_a_summary_that_cannot_be_made_leaves_memory_alone(mind: Learning) -> None:
    mind.say(Said("r1", "it is 80", how="check"))
    (Path(mind.root) / "logs/daily/2026-01-05.md").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        learn.learn(mind.cell(), "2026-01-05")
    assert not mind.facts


WEEK_LATER = "2026-W02"


def test_of_two_that_contradict_each_other_the_one_validated_last_wins(mind: Learning) -> None:
    """And back, when the earlier one is validated again. A week has one question, and none when the model is away."""
    for run, statement in (("r1", "it is 80"), ("r2", "it is 90"), ("r3", "it is 80")):
        mind.now += DAY
        mind.say(Said(run, statement, how="check"))
        learn.learn(mind.cell())
        assert not mind.asked or run == "r3"
        if run != "r1":
            pairs = 2 if run == "r3" else 1  # it is a belief by then, too
            verdicts = ", ".join(['{"verdict": "contradict"}'] * pairs)
            mind.answers = [ModelFailure("unavailable", "no answer"), f"[{verdicts}]"]
            before = mind.facts
            with pytest.raises(ModelFailure):
                learn.make_weekly(mind.cell(), WEEK_LATER)
            assert mind.facts == before
            assert learn.make_weekly(mind.cell(), WEEK_LATER) == "1 pairs judged, 0 left"
            won = {each.claim for each in mind.facts if each.status == "active"}
            assert won == {statement}
            assert {each.claim for each in mind.facts if each.status == "deprecated"} == {"it is 80", "it is 90"} - won
    assert "was validated last" in mind.read("logs/health/coherence-2026-W02.md")


def test_without_an_answer_both_are_contested_and_it_is_said(mind: Learning) -> None:
    """Until one of them is gone: no contradiction points to what is not there."""
    mind.say(*(Said(run, text) for text in ("it is 80", "it is 90") for run in "ab"))
    learn.learn(mind.cell())
    for answer, why in (("[]", "not in the form"), ('[{"verdict": "contradict"}]', "neither is validated")):
        mind.answers = [answer]
        assert learn.make_weekly(mind.cell(), WEEK_LATER) == "1 pairs judged, 0 left"
        assert why in mind.read("logs/health/coherence-2026-W02.md")
        assert [(each.status, each.contradictions) for each in mind.facts] == [
            ("contested", ("L-000002",)),
            ("contested", ("L-000001",)),
        ]
    assert mind.read("logs/weekly/2026-W02.md").startswith("# 2026-W02\n\n")
    mind.write(LONG_TERM, mind.read(LONG_TERM).partition("## L-000002")[0])
    learn.learn(mind.cell())
    assert [(each.status, each.contradictions) for each in mind.facts] == [("active", ())]


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ('[{"verdict": "compatible"}]', ["it is 80", "it is open 24 h"]),
        (
            '[{"verdict": "conditions", "one": "if plain", "other": "if sealed"}]',
            ["if plain: it is 80", "if sealed: it is open 24 h"],
        ),
    ],
)
def test_a_pair_is_judged_once(mind: Learning, answer: str, claims: list[str]) -> None:
    mind.say(Said("r1", "it is 80", how="check"), Said("r1", "it is open 24 h", how="check"))
    learn.learn(mind.cell())
    mind.answers = [answer]
    learn.make_weekly(mind.cell(), WEEK_LATER)
    learn.make_weekly(mind.cell(), WEEK_LATER)
    assert len(mind.asked) == 1
    assert [(each.claim, each.status) for each in mind.facts] == [(claim, "active") for claim in claims]


@pytest.mark.parametrize(
    ("file", "said"), [("x 80", "1 check run again, failed: none"), ("x 90", "1 check run again, failed: L-000001")]
)
def test_a_check_is_run_again_when_its_fact_is_placed_and_old(mind: Learning, file: str, said: str) -> None:
    """What fails is contested."""
    mind.say(Said("r1", "it is 80", how="check"))
    learn.learn(mind.cell())
    mind.say(Said("r2", "it is large", "house", shown=("memory/long_term.md#L-000001",)))
    assert learn.recheck(mind.cell()) == "0 checks run again, failed: none"
    mind.now += 8 * DAY
    assert learn.recheck(mind.cell()) == "0 checks run again, failed: none"
    mind.say(Said("r3", "it is low", "house", shown=("memory/long_term.md#L-000001",)))
    os.makedirs(mind.places.main_checkout, exist_ok=True)
    Path(mind.places.main_checkout, "x").write_text(f"it is {file[2:]}\n")
    assert learn.recheck(mind.cell()) == said
    fact = mind.facts[0]
    assert (fact.status, fact.last_validated[:10]) == (
        ("contested", "2026-01-05") if "L-0" in said else ("active", "2026-01-13")
    )


@each_row(
    "answer, verdict",
    [
        ('[{"verdict": "contradict"}]', "contradict"),
        ('[{"verdict": "contradict"}, {"verdict": "contradict"}]', ""),
        ('{"verdict": "contradict"}', ""),
        ('[{"verdict": "contradict", "one": "x"}]', ""),
        ('[{"verdict": "conditions", "one": "", "other": "x"}]', ""),
        ("[" * 100_000, ""),
        ("\ud800", ""),
    ],
)
def test_only_the_list_that_was_asked_for_is_an_answer(answer: str, verdict: str) -> None:
    fact = Fact(id="L-000001", claim="x")
    [found] = judged(lambda _: Completion((Text(answer),), "end_turn", "scripted"), [(fact, fact)])
    assert (found.verdict if found else "") == verdict


def test_memory_that_is_no_text_is_left_as_it_is(mind: Learning) -> None:
    mind.write(BELIEFS, b"\xff\xfe\x00")
    mind.say(Said("r2", "it is 81", how="check"))
    with pytest.raises(OSError, match="left as it is"):
        learn.learn(mind.cell())
    assert Path(mind.root, BELIEFS).read_bytes() == b"\xff\xfe\x00"
