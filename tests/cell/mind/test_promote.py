"""From notes to memory: whose word a note is, and what becomes of it by counts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.history import Promoted
from infra.cell.mind.learn import PROMOTIONS, noted_in, promote
from infra.cell.mind.memory import Fact, Facts, memory_of
from infra.shared.clock import timestamp
from tests.shared.mind.notes import DAY, START, Said, history_of
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
