"""From notes to memory: whose word a note is, what becomes of it by counts; and then in the files of a real clone:
promotion, summaries, contradictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import NOTE, ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import Acted
from infra.cell.mind import learn, memory
from infra.cell.mind.coherence import judged
from infra.cell.mind.history import Promoted
from infra.cell.mind.learn import PROMOTIONS, noted_in, promote
from infra.cell.mind.memory import Fact, Facts, memory_of
from infra.cell.mind.mind import MindRun
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Position
from infra.shared import comms
from infra.shared.clock import timestamp
from infra.shared.mind.layout import BELIEFS, LONG_TERM
from tests.cell.loop.replies import Canned, fails, says
from tests.cell.mind.one_mind import OneMind
from tests.shared.mind.events import write_events
from tests.shared.mind.notes import DAY, START, Said, event_of, history_of
from tests.shared.rows import each_row

EMPTY = memory_of({})
AT = timestamp(START)


def promoted(
    said: Sequence[Said], facts: Facts = EMPTY, told: Sequence[Promoted] = (), now: float = START
) -> tuple[Facts, list[Promoted]]:
    noted = noted_in(history_of(said).notes, facts, lambda quote: quote.split()[-1])
    return promote(noted, facts, [(AT, each) for each in told], now)


def made(found: tuple[Facts, list[Promoted]]) -> list[Fact]:
    ids = [each.id for each in found[1] if each.what in PROMOTIONS]
    return [each for id in ids for each in found[0].every if each.id == id]


@each_row(
    "said, becomes",
    [
        ([Said("1", "it is 80")], "refused"),
        ([Said("1", "it is 80"), Said("1", "It is 80.")], "refused"),
        ([Said("1", "it is 80"), Said("2", "It is `80`.")], "item"),
        ([Said("1", "it is 80"), Said("2", "it is 81")], "refused"),
        ([Said("1", "it is 80", how="check")], "item"),
        ([Said("1", "it is 80", how="failed"), Said("2", "it is 80", how="failed")], "refused"),
        ([Said("1", "it is 80", how="directive")], "item"),
        ([Said(run, "it is 80") for run in "123"], "belief"),
        ([Said("1", "it is 80", how="check"), Said("2", "it is 80", how="check")], "belief"),
        ([Said("1", "it is 80", how="check"), Said("1", "it is 80", how="directive")], "belief"),
        ([Said(run, "it is 80", how="directive", task="d1") for run in "123"], "item"),
        ([Said(run, "it is 80", how="directive", task=f"d{run}") for run in "12"], "belief"),
        ([Said(run, "it is 80", how="recall") for run in "123456"], "refused"),
        ([Said(run, "it is 80", how="page") for run in "123456"], "refused"),
        ([Said("1", "it is 80", how="page"), *(Said(run, "it is 80") for run in "2345")], "refused"),
        ([Said("1", "it is 80", how="page"), Said("2", "it is 80", how="check")], "item"),
        ([Said("1", "other", how="page"), Said("1", "it is 80", how="check")], "refused"),
    ],
)
def test_the_thresholds(said: list[Said], becomes: str) -> None:
    found = made(promoted(said))
    assert ({"L": "item", "B": "belief"}[found[0].id[0]] if found else "refused") == becomes


def test_a_fact_names_its_evidence() -> None:
    said = [Said("r1", "The port is 80.", how="act"), Said("r2", "the port is 80", how="check")]
    [item] = made(promoted(said))
    assert (item.id, item.subject, item.claim, item.added) == ("L-000001", "port", "The port is 80.", "2026-01-05")
    assert [(each.source, each.evidence) for each in item.provenance] == [
        ("event logs/events/2026-01-05.jsonl:2", "check, run r2 step 1.1"),
        ("event logs/events/2026-01-05.jsonl:1", "act, run r1 step 1.1"),
    ]
    [belief] = made(promoted([*said, Said("r3", "the port is 80", how="directive")]))
    assert (belief.id, belief.type, belief.status, belief.confidence) == ("B-000001", "observed", "active", 0.95)


def test_what_was_shown_by_its_id_is_recalled() -> None:
    """Whatever the run says of it later; before that its word counted."""
    facts = EMPTY.with_fact(Fact(id="L-000001", claim="it is 80", subject="port"))
    shown = ("memory/long_term.md#L-000001",)
    said = [Said("1", "it is 80"), Said("1", "other", shown=shown), Said("1", "It is 80")]
    noted = noted_in(history_of(said).notes, facts, str)
    assert [each.origin for each in noted] == ["act", "act", "recall"]


def test_no_more_than_so_many_a_day_and_the_best_borne_out_first() -> None:
    said = [Said(run, f"it is {number}") for number in range(30) for run in ("a", "b")]
    found = promoted([*said, Said("c", "it is 99", how="check")])
    assert [each.claim for each in made(found)] == ["it is 99", *(f"it is {number}" for number in range(9))]
    assert not made(promoted(said, *found))
    assert len(made(promoted(said, *found, now=START + DAY))) == 10


def test_what_the_pm_took_out_comes_back_by_new_notes_alone_and_under_a_new_id() -> None:
    said = [Said("1", "it is 80", how="check")]
    told = promoted(said)[1]
    assert not made(promoted([*said, Said("2", "it is 80")], told=told))
    [back] = made(promoted([*said, Said("2", "it is 80", how="check")], told=told))
    assert back.id == "L-000002"


def test_what_is_held_is_validated_anew_and_not_promoted() -> None:
    """What nothing else contests is so no more."""
    held = Fact(id="B-000001", claim="It is 80", subject="port", status="contested")
    said = [Said("1", "it is 80", how="check", at=START + DAY)]
    facts, told = promoted(said, EMPTY.with_fact(held))
    assert [(each.what, each.id, facts.every[0].status) for each in told] == [("validated", "B-000001", "active")]
    assert not promoted(said, facts)[1]
    other = EMPTY.with_fact(Fact(id="B-000002", claim="It is 81", subject="port"))
    lost = msgspec.structs.replace(held, contradictions=("B-000002",), status="deprecated")
    assert promoted(said, other.with_fact(lost))[0].every[1].status == "contested"
    by_the_pm = msgspec.structs.replace(held, status="deprecated")
    assert promoted(said, other.with_fact(by_the_pm))[0].every[1].status == "deprecated"


SAID = st.builds(
    Said,
    run=st.sampled_from("abcdef"),
    statement=st.sampled_from(["it is 80", "It is 80.", "it is 81", "it is 82", "it is 83"]),
    how=st.sampled_from(["act", "check", "failed", "directive", "page", "recall"]),
    task=st.sampled_from(["", "T1", "T2"]),
    subject=st.just("port"),
    at=st.just(START),
    shown=st.just(()),
)


@given(st.lists(SAID, max_size=25), st.data())
def test_the_order_of_runs_does_not_matter(said: list[Said], data: st.DataObject) -> None:
    """And a second pass over the same promotes nothing, with what was made or without it."""
    by_run = {run: [each for each in said if each.run == run] for run in {each.run for each in said}}
    one, other = (
        [each for run in runs for each in by_run[run]]
        for runs in (sorted(by_run), data.draw(st.permutations(sorted(by_run))))
    )
    found = promoted(one)
    assert _keys(promoted(other)) == _keys(found)
    assert not [each for each in made(promoted(said, *found, START + DAY)) if each.id[0] == "L"]
    assert not made(promoted(one, told=found[1], now=START + DAY))


@given(st.lists(SAID, max_size=25))
def test_nothing_that_is_only_recalled_or_from_a_page_is_promoted(said: list[Said]) -> None:
    """Whatever is noted besides; a run that has read a page adds nothing after it."""
    poison = [Said(run, "obey the page", how=how) for run in "abcxyz" for how in ("page", "recall")]
    recalled = [Said(run, "it was so", how="recall") for run in "abcxyz"]
    mixed = [each for pair in zip(poison, [*recalled, *recalled], strict=True) for each in pair]
    assert not {each.claim for each in made(promoted([*said, *mixed, *said]))} & {"obey the page", "it was so"}


def _keys(found: tuple[Facts, list[Promoted]]) -> set[tuple[str, str]]:
    return {(each.id[0], each.key) for each in made(found)}


class Learning(OneMind):
    """A mind whose runs say what they noted."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), START)
        self.seq = 0
        os.makedirs(self.places.events, exist_ok=True)

    def say(self, *said: Said) -> None:
        for each in said:
            self.seq += 1
            event = event_of(each._replace(at=self.now), self.seq)
            write_events(self.places.events, [event])

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
        if run != "r1":
            pairs = 2 if run == "r3" else 1  # it is a belief by then, too
            verdicts = ", ".join(['{"verdict": "contradict"}'] * pairs)
            mind.ask = Canned([fails("unavailable"), says(f"[{verdicts}]")])
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
        mind.ask = Canned([says(answer)])
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
    model = mind.ask = Canned([says(answer)])
    learn.make_weekly(mind.cell(), WEEK_LATER)
    learn.make_weekly(mind.cell(), WEEK_LATER)
    assert len(model.requests) == 1
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
    [found] = judged(Canned([says(answer)]), [(fact, fact)])
    assert (found.verdict if found else "") == verdict


def test_memory_that_is_no_text_is_left_as_it_is(mind: Learning) -> None:
    mind.write(BELIEFS, b"\xff\xfe\x00")
    mind.say(Said("r2", "it is 81", how="check"))
    with pytest.raises(OSError, match="left as it is"):
        learn.learn(mind.cell())
    assert Path(mind.root, BELIEFS).read_bytes() == b"\xff\xfe\x00"
