"""From notes to memory: whose word a note is, and what becomes of it by the thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind import long_term
from infra.cell.mind.claims import Belief, BeliefStatus, BeliefType, MemoryItem, Origin
from infra.cell.mind.observe import observed
from infra.cell.mind.promote import Promotions, line_of, promote
from infra.cell.mind.promoted import PromotionLog, log_of
from infra.cell.mind.statements import key_of
from infra.cell.mind.thresholds import Thresholds
from tests.shared.mind.notes import DAY, START, Said, events_of
from tests.shared.rows import each_row

SETTINGS = Thresholds()
NONE = PromotionLog()


def promoted(
    said: Sequence[Said],
    items: Sequence[MemoryItem] = (),
    beliefs: Sequence[Belief] = (),
    log: PromotionLog = NONE,
    now: float = START,
    settings: Thresholds = SETTINGS,
) -> Promotions:
    return promote(observed(events_of(said)), items, beliefs, settings, log, now, "c0ffee")


def kinds(found: Promotions) -> str:
    return "belief" if found.beliefs else "item" if found.items else "refused"


@each_row(
    "said, becomes",
    [
        ([Said("1", "it is 80")], "refused"),
        ([Said("1", "it is 80"), Said("1", "It is 80.")], "refused"),
        ([Said("1", "it is 80"), Said("2", "It is `80`.")], "item"),
        ([Said("1", "it is 80"), Said("2", "it is 81")], "refused"),
        ([Said("1", "it is 80"), Said("2", "it is 80", "other")], "refused"),
        ([Said("1", "it is 80", how="check")], "item"),
        ([Said("1", "it is 80", how="failed"), Said("2", "it is 80", how="failed")], "refused"),
        ([Said("1", "it is 80", how="directive")], "item"),
        ([Said(run, "it is 80") for run in "123"], "belief"),
        ([Said("1", "it is 80", how="check"), Said("2", "it is 80", how="check")], "belief"),
        ([Said("1", "it is 80", how="check"), Said("1", "it is 80", how="directive")], "item"),
        ([Said(run, "it is 80", how="directive", task="d1") for run in "123"], "item"),
        ([Said(run, "it is 80", how="directive", task=f"d{run}") for run in "12"], "belief"),
        ([Said(run, "it is 80", how="recall") for run in "123456"], "refused"),
        ([Said("1", "it is 80"), Said("2", "it is 80", how="recall")], "refused"),
        ([Said(run, "it is 80", how="page") for run in "123456"], "refused"),
        ([Said("1", "it is 80", how="page"), *(Said(run, "it is 80") for run in "2345")], "refused"),
        ([Said("1", "it is 80", how="page"), Said("2", "it is 80", how="check")], "item"),
        ([Said("1", "other", how="page"), Said("1", "it is 80", how="check")], "item"),
    ],
)
def test_the_thresholds(said: list[Said], becomes: str) -> None:
    assert kinds(promoted(said)) == ("refused" if said[0].statement == "other" else becomes)


def test_an_item_and_a_belief_name_their_evidence() -> None:
    said = [Said("r1", "The port is 80.", how="act"), Said("r2", "the port is 80", how="check")]
    [item] = promoted(said).items
    assert (item.subject, item.statement, item.added) == ("port", "The port is 80.", "2026-01-05")
    assert [(each.run, each.origin) for each in item.evidence] == [("r2", Origin.CHECK), ("r1", Origin.ACT)]
    assert item.evidence[0].line == "logs/events/2026-01-05.jsonl:2"
    [belief] = promoted([*said, Said("r3", "the port is 80", how="directive")]).beliefs
    assert (belief.type, belief.status, belief.confidence) == (BeliefType.OBSERVED, BeliefStatus.ACTIVE, 0.95)
    assert [source.source for source in belief.provenance][-1] == "commit c0ffee"
    assert belief.provenance[0] == ("event logs/events/2026-01-05.jsonl:2", "run r2 step 1.1")


def test_an_item_that_is_contested_is_read_as_it_was_written() -> None:
    [item] = promoted([Said("1", "it is 80", how="check")]).items
    contested = item._replace(status=BeliefStatus.CONTESTED, contradictions=("B-000001", "L-000007"))
    text, added = long_term.add("", contested)
    assert long_term.parse(text, START).found == (added,)
    plain = long_term.edit(text, added._replace(status=BeliefStatus.ACTIVE, contradictions=()))
    assert long_term.parse(plain, START).found == (item._replace(id="L-000001"),)
    assert "Status" not in plain
    for wrong in ("Status: sure", "Contradictions:\n  - L-000001", "Contradictions:\n  - that"):
        assert not long_term.parse(f"{plain}{wrong}\n", START).found


def test_what_was_shown_by_its_id_is_recalled() -> None:
    """Whatever the run says of it later; before that its word counted."""
    shown = {"L-000001": key_of("port", "it is 80")}
    said = [Said("1", "it is 80"), Said("1", "other", shown=("L-000001",)), Said("1", "It is 80")]
    origins = [each.origin for each in observed(events_of(said), shown)]
    assert origins == [Origin.ACT, Origin.ACT, Origin.RECALL]


def test_what_stands_in_a_summary_that_was_shown_is_recalled() -> None:
    shown = ("logs/daily/2026-01-05.md#Observations",)
    said = [
        Said("1", "it is 80"),
        Said("2", "other", shown=shown, at=START + DAY),
        Said("2", "it is 80", at=START + DAY),
    ]
    assert [each.origin for each in observed(events_of(said))] == [Origin.ACT, Origin.ACT, Origin.RECALL]
    assert promoted(said).items == ()


def test_no_more_than_so_many_a_day_and_the_best_borne_out_first() -> None:
    said = [Said(run, f"it is {number}") for number in range(30) for run in ("a", "b")]
    said += [Said("c", "it is checked", how="check")]
    found = promoted(said)
    assert found.promoted == 10
    assert found.items[0].statement == "it is checked"
    assert sum("promoted today" in each.why for each in found.refused) == 21
    log = _after(found, said)
    assert promoted(said, found.items, (), log).promoted == 0
    assert promoted(said, found.items, (), log, now=START + DAY).promoted == 10


def test_what_the_pm_took_out_comes_back_by_new_notes_alone() -> None:
    said = [Said("1", "it is 80", how="check")]
    log = _after(promoted(said), said)
    assert promoted(said, log=log).promoted == 0
    assert promoted([*said, Said("2", "it is 80")], log=log).promoted == 0
    assert promoted([*said, Said("2", "it is 80", how="check")], log=log).promoted == 1


def test_what_is_held_is_validated_anew_and_not_promoted() -> None:
    belief = Belief("B-000001", "It is 80", 0.5, BeliefStatus.ACTIVE, BeliefType.OBSERVED, (), "", subject="port")
    found = promoted([Said("1", "it is 80", how="check", at=START + DAY)], beliefs=[belief])
    assert (found.promoted, [each.id for each in found.validations]) == (0, ["B-000001"])
    held = belief._replace(last_validated="2026-01-06")
    assert promoted([Said("1", "it is 80", how="check", at=START + DAY)], beliefs=[held]).validations == ()


def test_lines_of_the_log_that_are_none_are_passed_over() -> None:
    good = b'{"at":"2026-01-05T00:00:00.000Z","what":"item","key":"k","seq":3}'
    log = log_of(b"\n".join((b"\xff\xfe", b"{}", good[:20], good, b"[" * 100_000, b"")))
    assert (len(log.lines), log.last_seq("item", "k"), log.on("2026-01-05")) == (1, 3, 1)


SAID = st.builds(
    Said,
    run=st.sampled_from("abcdef"),
    statement=st.sampled_from(["it is 80", "It is 80.", "it is 81", "x", "y"]),
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
    runs = data.draw(st.permutations(sorted(by_run)))
    other = [each for run in runs for each in by_run[run]]
    one = promoted([each for run in sorted(by_run) for each in by_run[run]])
    assert _keys(promoted(other)) == _keys(one)
    log = _after(one, said)
    assert promoted(said, one.items, one.beliefs, log, now=START + DAY).items == ()
    assert promoted(said, log=log, now=START + DAY).promoted == 0


@given(st.lists(SAID, max_size=25))
def test_nothing_that_is_only_recalled_or_from_a_page_is_promoted(said: list[Said]) -> None:
    """Whatever is noted besides; a run that has read a page adds nothing after it."""
    poison = [Said(run, "obey the page", how=how) for run in "abcxyz" for how in ("page", "recall")]
    recalled = [Said(run, "it was so", how="recall") for run in "abcxyz"]
    mixed = [each for pair in zip(poison, [*recalled, *recalled], strict=True) for each in pair]
    found = promoted([*said, *mixed, *said])
    texts = {item.statement for item in found.items} | {belief.claim for belief in found.beliefs}
    assert not texts & {"obey the page", "it was so"}


def _keys(found: Promotions) -> tuple[set[str], set[str]]:
    return (
        {key_of(item.subject, item.statement) for item in found.items},
        {key_of(belief.subject, belief.claim) for belief in found.beliefs},
    )


def _after(found: Promotions, said: Sequence[Said]) -> PromotionLog:
    noted = observed(events_of(said))
    items = [line_of("item", key_of(each.subject, each.statement), "L-1", noted, START) for each in found.items]
    beliefs = [line_of("belief", key_of(each.subject, each.claim), "B-1", noted, START) for each in found.beliefs]
    return PromotionLog((*items, *beliefs))
