"""The day's budget: decisions, the ledger under them, both together under any history; the part of it that may be
explored with; and what is written down of calls that nobody counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.ledger.budgets import Passed, Used, by_label, limits_of, passed
from infra.keep.ledger.lines import Ledger, Line, Opened, Settled
from infra.keep.ledger.prices import FREE, NANO, Rates, Tariff, cost, nano_dollars, rates, tariff, worst_cost
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.app import ModelDoor
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.models import Offer
from infra.keep.settings.schema import Price
from infra.shared.conversation import END_TURN, Completion, Request, Text, Usage, to_plain
from tests.keep.model_door.doors import a_request
from tests.shared.rows import each_row

DAY, NEXT_DAY = "2026-01-31", "2026-02-01"
NOON = 1769860800.0
"""2026-01-31T12:00:00Z"""
LIMIT = 1000
"""Nano-dollars."""
AMPLE = 10**12
FLAT = Tariff(Rates(2_000_000, 2_000_000, 2_000_000, 2_000_000))
"""2 nano-dollars a token of any kind."""
TARIFF = Tariff(Rates(input=2_000_000, output=5_000_000, cache_write=3_000_000, cache_read=1_000_000))
"""2, 5, 3 and 1 nano-dollars a token."""


def an_opening(id: str, nano: int = 100, tokens: int = 50, day: str = DAY) -> Opened:
    about: dict[str, Any] = {"time": f"{day}T12:00:00.000Z", "day": day, "id": id, "provider": "p", "model": "m"}
    return Opened(**about, worst_usd=nano / NANO, worst_tokens=tokens)


def an_end(id: str, nano: int = 10, tokens: int = 5) -> Settled:
    about: dict[str, Any] = {"time": f"{DAY}T12:00:01.000Z", "day": DAY, "id": id, "provider": "p", "model": "m"}
    return Settled(**about, **to_plain(Usage(tokens)), usd=nano / NANO, duration_ms=1)


def an_answer(usage: Usage) -> Answer:
    return Answer(Completion((), END_TURN, "m", usage))


def used(lines: list[Line]) -> Used:
    return by_label(lines).get("task", Used())


def problem(used: Used, worst: int, limit: int = LIMIT) -> Passed | None:
    return passed(limits_of(limit, None), {"task": used}, "task", worst, DAY)


def test_a_call_up_to_the_limit_is_allowed_and_one_more_is_not() -> None:
    """Spent, reserved and the new worst case may together reach the limit, and not pass it."""
    before = Used(spent=300, open={"a": 300})

    assert problem(before, 400) is None
    assert problem(before, 401) is not None


@pytest.mark.fault("F79")
def test_a_refusal_names_spent_reserved_limit_and_the_day_s_end() -> None:
    """The PM reads in it what was spent, what is reserved, which setting to raise, and when the day ends."""
    before = Used(spent=9 * 10**9, open={"a": 5 * 10**8})

    found, alone = problem(before, 10**9, 10**10), problem(before, 10**10 + 1, 10**10)

    assert found
    assert alone
    for part in ("$9.0000", "$0.5000", "$10.0000", "budget.daily_usd", f"{NEXT_DAY}T00:00:00Z"):
        assert part in found.words
    assert ("alone" in found.words, found.is_for_ever) == (False, False)
    assert ("alone" in alone.words, alone.is_for_ever) == (True, True)


def test_the_end_of_a_call_replaces_its_worst_case() -> None:
    """Settling frees the reservation and counts what was really used; a second settling changes nothing."""
    lines: list[Line] = [an_opening("a", 900, 400), an_end("a", 10, 4)]

    assert used(lines) == used([*lines, an_end("a", 10, 4)]) == Used(10, 4, {}, 1)


steps = st.lists(
    st.tuples(st.sampled_from(["open", "settle", "crash"]), st.integers(0, 300), st.floats(0, 1)), max_size=60
)


@pytest.mark.attack("S17")
@given(steps)
def test_no_history_passes_the_limit(history: list[tuple[str, int, float]]) -> None:
    """Whatever is opened, settled and cut off by crashes, what was really used stays within the limit."""
    lines: list[Line] = []
    really = 0
    for number, (step, nano, share) in enumerate(history):
        known = used(lines)
        under_way = sorted(known.open)
        if step == "open" and problem(known, nano) is None:
            lines.append(an_opening(str(number), nano))
        elif step == "settle" and under_way:
            actual = int(known.open[under_way[0]] * share)
            really += actual
            lines.append(an_end(under_way[0], actual))
        elif step == "crash":
            # Calls under way may have used all that they could; nobody will ever say.
            assert used([msgspec.json.decode(msgspec.json.encode(line), type=Line) for line in lines]) == known
        assert really + used(lines).reserved <= LIMIT
        assert used(lines).spent == really


def forged(line: Line, **other: float) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(line) | other)


@each_row(
    "foreign",
    [
        *(forged(an_opening("x"), **other) for other in ({"worst_usd": -1e6}, {"worst_tokens": -(10**9)})),
        *(forged(an_opening("x"), **other) for other in ({"worst_usd": 1e308}, {"event": 1})),
        *(forged(an_end("a"), **other) for other in ({"usd": -1e6}, {"input_tokens": -(10**9)})),
        forged(an_end("a"), cache_read_tokens=-1),
        b'{"event":"opened","time":"\xff"}',
        b'{"x":' + b"[" * 100_000,
        b" " * (3 << 20),
    ],
)
def test_a_line_that_no_door_wrote_gives_no_budget_and_keeps_no_door_shut(foreign: bytes) -> None:
    """A ledger may come from a stranger's archive: less than nothing, or more than any call costs, is no line."""
    lines = [msgspec.json.encode(an_opening("a")), foreign, msgspec.json.encode(an_opening("b"))]
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(b"\n".join(lines))
        assert used(Ledger(file.name).day(DAY)) == Used(open={"a": 100, "b": 100}, calls=2)


@given(st.integers(1, 400), st.sampled_from([b"", b"\0" * 30, b"\xff\xfe{"]))
def test_a_torn_last_line_neither_counts_nor_harms(cut: int, garbage: bytes) -> None:
    """After a power cut in mid line the lines before it count, what is written next counts, and nothing is removed."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "ledger.jsonl")
        whole = b"".join(msgspec.json.encode(line) + b"\n" for line in (an_opening("a"), an_end("a")))
        torn = msgspec.json.encode(an_opening("torn"))[:-1][:cut] + garbage
        path.write_bytes(whole + torn)
        with contextlib.closing(Ledger(str(path))) as ledger:
            before = used(ledger.day(DAY))
            ledger.append(an_opening("b"))
            assert before == Used(10, 5, {}, calls=1)
            assert used(ledger.day(DAY)) == before.after(an_opening("b"))
        assert path.read_bytes().startswith(whole + torn)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with contextlib.closing(Ledger(str(tmp_path / "ledger.jsonl"))) as made:
        yield made


def test_only_the_asked_day_is_read_and_the_rest_is_left_alone(tmp_path: Path, ledger: Ledger) -> None:
    """Days do not mix, not even when a clock was put back for a while."""
    for id, day in (("o", "2025-06-01"), ("a", DAY), ("n", NEXT_DAY), ("b", DAY), ("m", NEXT_DAY)):
        ledger.append(an_opening(id, day=day))
    for day, ids in ((DAY, ["a", "b"]), (NEXT_DAY, ["n", "m"]), ("2025-06-01", ["o"])):
        assert [line.id for line in ledger.day(day)] == ids
    assert (tmp_path / "ledger.jsonl").stat().st_mode & 0o777 == 0o600


@dataclass
class Clock:
    """A wall clock that is set by hand."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


@pytest.mark.attack("S17")
def test_calls_at_the_same_time_cannot_pass_the_limit_together(ledger: Ledger) -> None:
    """Of a hundred calls that all ask at once, so many are let through as fit, and the ledger says the same. Who asks
    for more than any day has is not told to wait for the next one."""
    accounts = Accounts(ledger, LIMIT, {("p", "m"): FLAT}, lambda: NOON)

    async def ask(tokens: int) -> list[object]:
        calls = (accounts.open("p", "m", Usage(input_tokens=tokens)) for _ in range(100))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    outcomes, too_large = asyncio.run(ask(60)), asyncio.run(ask(501))
    assert sum(isinstance(outcome, Opened) for outcome in outcomes) == 500 // 60
    refused = [outcome for outcome in [*outcomes, *too_large] if isinstance(outcome, CallFailure)]
    assert {failure.type for failure in refused} == {"budget_exhausted"}
    assert [failure.retry_after_seconds for failure in refused] == [12 * 3600] * 92 + [None] * 100
    assert used(ledger.day(DAY)).reserved == 960


def test_a_new_day_begins_with_an_empty_budget(ledger: Ledger) -> None:
    """At midnight UTC the sums start anew; a call that spans it counts on the day it began; a clock put back finds
    the old day as it was."""
    clock = Clock(NOON + 12 * 3600 - 1)
    accounts = Accounts(ledger, LIMIT, {("p", "m"): TARIFF}, clock)

    async def live() -> None:
        call = await accounts.open("p", "m", Usage(input_tokens=200, output_tokens=80))
        with pytest.raises(CallFailure) as caught:
            await accounts.open("p", "m", Usage(input_tokens=100))
        assert caught.value.retry_after_seconds == 1
        clock.now += 2
        other = await accounts.open("p", "m", Usage(input_tokens=300))
        await accounts.settle(call, an_answer(Usage(1, 2, 3, 4)), 5)
        assert used(ledger.day(NEXT_DAY)) == Used(0, 0, {other.id: 900}, 1)
        await accounts.settle(other, CallFailure("unavailable", "gone", usage=None), 5)
        clock.now -= 2
        await accounts.open("p", "m", Usage(input_tokens=1))
        assert used(ledger.day(DAY))[:2] == (1 * 2 + 10 + 9 + 4, 10)

    asyncio.run(live())
    last = ledger.day(NEXT_DAY)[-1]
    assert isinstance(last, Settled)
    assert (last.nano_usd, sum(last.usage), last.measured, last.error) == (900, 300, False, "unavailable")


def test_no_call_is_made_that_cannot_be_written_down(ledger: Ledger) -> None:
    """A ledger that takes no line refuses the call and reserves nothing; one that does, lets it through."""
    accounts = Accounts(ledger, LIMIT, {("p", "m"): FLAT}, lambda: NOON)
    kept = os.dup(ledger._descriptor)
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), ledger._descriptor)
    with pytest.raises(CallFailure, match="No space left") as caught:
        asyncio.run(accounts.open("p", "m", Usage(input_tokens=10)))
    assert caught.value.type == "unavailable"
    os.dup2(kept, ledger._descriptor)
    os.close(kept)
    asyncio.run(accounts.open("p", "m", Usage(input_tokens=10)))
    assert used(ledger.day(DAY)).reserved == 20


def test_a_call_waits_for_the_disk_before_it_is_made_and_not_when_it_has_ended(ledger: Ledger) -> None:
    """Nothing is spent that is not reserved on the disk; an end that is lost leaves the reservation, which is more."""
    reads, writes = os.pipe()
    accounts = Accounts(ledger, AMPLE, {("p", "m"): TARIFF}, lambda: NOON)
    line = asyncio.run(accounts.open("p", "m", Usage(100)))
    os.dup2(writes, ledger._descriptor)  # it takes lines and cannot put them onto a disk: fsync(2) refuses a pipe
    with pytest.raises(CallFailure, match="ledger cannot be written"):
        asyncio.run(accounts.open("p", "m", Usage(100)))
    assert asyncio.run(accounts.settle(line, an_answer(Usage(10)), 1)).usage == Usage(10)
    assert b'"event":"settled"' in os.read(reads, 1 << 16)
    os.close(writes)
    os.close(reads)
    assert used(ledger.day(DAY)).reserved == 300


# Exploration stays within what the PM allows for a UTC day, and everything else goes on.


DEAR = {("p", "m"): Tariff(Rates(10**12, 10**12, 10**12, 10**12))}
"""A thousandth of a dollar for a token."""


def accounts_of(path: Path, usd: float | None, clock: Clock) -> Accounts:
    return Accounts(Ledger(str(path)), 10**18, DEAR, clock, exploration_usd=usd)


async def call(accounts: Accounts, label: str, tokens: int = 100) -> None:
    entry = await accounts.open("p", "m", Usage(input_tokens=tokens), "run", label)
    await accounts.settle(entry, an_answer(Usage(input_tokens=tokens)), 1)


async def refused(accounts: Accounts, label: str, tokens: int = 100) -> CallFailure:
    with pytest.raises(CallFailure) as caught:
        await call(accounts, label, tokens)
    return caught.value


@pytest.mark.attack("S62")
def test_exploration_ends_at_its_own_limit_and_all_else_goes_on(tmp_path: Path) -> None:
    """A new door knows what was used, a new day begins anew."""
    clock, path = Clock(), tmp_path / "ledger.jsonl"

    async def live() -> None:
        await call(accounts_of(path, 1.0, clock), "exploration", 600)
        restarted = accounts_of(path, 1.0, clock)
        failure = await refused(restarted, "exploration", 401)
        assert (failure.type, failure.retry_after_seconds) == ("exploration_exhausted", 43200)
        assert "exploration.usd" in failure.message
        await call(restarted, "task", 9999)
        await call(restarted, "maintenance", 9999)
        used = by_label(Ledger(str(path)).day("2026-01-31"))
        assert (used["exploration"].tokens, used["exploration"].calls) == (600, 1)
        assert used["task"].calls == used["maintenance"].calls == 1
        clock.now += 86400
        await call(restarted, "exploration", 1000)

    asyncio.run(live())
    lines = path.read_bytes().splitlines()
    assert json.loads(lines[0])["label"] == "exploration"


def test_without_an_amount_nothing_is_explored(tmp_path: Path) -> None:
    """As it is by default."""
    failure = asyncio.run(refused(accounts_of(tmp_path / "ledger.jsonl", None, Clock()), "exploration"))
    assert "exploration.usd, which is not set" in failure.message
    assert passed(limits_of(0, None), {}, "exploration", 0, "2026-01-31"), "also when it costs nothing"
    assert passed(limits_of(0, None), {}, "maintenance", 0, "2026-01-31") is None


@each_row("label", ["exploration\n", "task\n", "task 2", "", "exploration/web"])
def test_a_label_that_is_none_of_ours_is_no_request(label: str) -> None:
    """It would have no limit of exploration."""
    with pytest.raises(ValueError, match="label"):
        msgspec.convert({"system": [], "messages": [], "tools": [], "label": label}, Request)


# Calls that nobody counted, by a model made by hand.


MOST = Usage(1000, 100)


@dataclass
class Hand:
    """A model that does as it is told, and its one call."""

    does: Answer | Exception
    provider, name, sees, problem = "openai", "m", True, None
    most = MOST

    def prepare(self, request: Request) -> Hand:
        return self

    async def make(self) -> Answer:
        if isinstance(self.does, Exception):
            raise self.does
        return self.does


def completed(path: Path, does: Answer | Exception, price: Tariff = FREE) -> Completion:
    """By a door that has this model alone."""
    accounts = Accounts(Ledger(str(path)), 10**15, {("openai", "m"): price}, lambda: NOON)
    return asyncio.run(ModelDoor([Offer(cast(Any, Hand(does)), FREE)], accounts).complete(a_request()))


def last_line(path: Path) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    return line


def test_a_bug_in_a_call_settles_it_at_its_worst(tmp_path: Path) -> None:
    """The reservation is not left open for the day: what was paid is not known, and the exception goes on."""
    with pytest.raises(OverflowError, match="a bug"):
        completed(tmp_path / "ledger.jsonl", OverflowError("a bug"))
    line = last_line(tmp_path / "ledger.jsonl")
    assert (line["event"], line["measured"], line["input_tokens"]) == ("settled", False, sum(MOST))


@pytest.mark.parametrize("measured", [True, False])
def test_the_worst_case_is_not_told_as_a_count(tmp_path: Path, measured: bool) -> None:
    """The ledger has it; the runner, who reckons with counts, hears of none."""
    counted = Usage(10, 2) if measured else MOST
    answer = Answer(Completion((Text("Hello."),), END_TURN, "m", counted), measured)
    said = completed(tmp_path / "ledger.jsonl", answer)
    assert said.usage == (counted if measured else Usage())
    line = last_line(tmp_path / "ledger.jsonl")
    assert line["measured"] is measured
    assert sum(line[name] for name in Usage.__struct_fields__) == sum(counted)


def test_a_prompt_of_unknown_class_is_settled_at_its_dearest(tmp_path: Path) -> None:
    """At its own class it would be booked too low."""
    for has_classes, usd in ((True, 10.0), (False, 12.5)):
        failure = CallFailure("unavailable", "gone", usage=Usage(10**6))
        failure.measured, failure.has_classes = False, has_classes
        with pytest.raises(CallFailure):
            completed(tmp_path / "ledger.jsonl", failure, Tariff(rates(10, 50)))
        line = last_line(tmp_path / "ledger.jsonl")
        assert (line["usd"], line["measured"]) == (usd, False)


# What tokens cost.


counts = st.integers(0, 10**7)
usages = st.builds(Usage, counts, counts, counts, counts)
MILLION_OF_EACH = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
KNOWN = ["claude-opus-5-5", "claude-haiku-4-5", "claude-haiku-5-5", "claude-fable-5-1", "claude-sonnet-5"]


@each_row(
    "model, input, output, write, read",
    [
        ("claude-opus-5-5", 4, 20, 5, 0.2),
        ("claude-sonnet-5-5", 2, 10, 2.5, 0.1),
        ("claude-sonnet-4-6", 3, 15, 3.75, 0.3),
        ("claude-haiku-4-5-20251001", 1, 5, 1.25, 0.1),
        ("claude-fable-5-1", 10, 50, 12.5, 0.25),
        ("claude-haiku-5-5", 0.5, 2.5, 0.625, 0.05),
    ],
)
def test_a_million_of_each_class_costs_the_list_price(
    model: str, input: float, output: float, write: float, read: float
) -> None:
    """The list price, class by class; a dated name has its family's; a prompt of millions is a long one."""
    found = tariff(model, {})
    assert found
    each = [Usage(**{name: 1_000_000}) for name in Usage.__struct_fields__]
    assert [cost(found, usage) / NANO for usage in each[:1] + each[2:]] == [input, write, read]
    assert cost(found, MILLION_OF_EACH) / NANO == pytest.approx(input + output + write + read, rel=1e-12)


def test_a_long_prompt_makes_every_token_of_the_call_dearer() -> None:
    """claude-haiku-5-5 has two bands; all classes of the prompt count towards the border, and it is inclusive below."""
    haiku = tariff("claude-haiku-5-5", {})
    assert haiku
    below = Usage(input_tokens=50_000, output_tokens=1000, cache_write_tokens=25_000, cache_read_tokens=25_000)
    above = below._replace(cache_read_tokens=25_001)
    assert cost(haiku, below) == round((50_000 * 0.1 + 1000 * 0.5 + 25_000 * 0.125 + 25_000 * 0.01) * 1000)
    assert cost(haiku, above) == -(-round((50_000 * 0.5 + 1000 * 2.5 + 25_000 * 0.625 + 25_001 * 0.05) * 10**6) // 1000)


@each_row("model", ["claude-opus-9", "gpt-7", "", "claude-opus-5-5-20261", "claude-opus-5-5 "])
def test_an_unknown_model_has_no_price(model: str) -> None:
    """A name that is not in the table is not guessed at."""
    assert tariff(model, {}) is None


def test_the_own_price_of_the_pm_comes_first() -> None:
    """A price in the settings wins over the table and names models that the table lacks; the cache has its defaults."""
    prices = {"claude-opus-5-5": Price(input=8.0, output=9.0)}
    own = prices | {"mine": Price(input=1, output=2, cache_write=3, cache_read=0)}
    ours, mine = tariff("claude-opus-5-5", own), tariff("mine-20260101", own)
    assert ours
    assert mine
    assert [rate / NANO for rate in ours.rates] == [8, 9, 10, 0.8]
    assert [rate / NANO for rate in mine.rates] == [1, 2, 3, 0]


@given(st.sampled_from(KNOWN), usages, st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_worst_case_is_never_passed(model: str, usage: Usage, more_input: int, more_output: int) -> None:
    """A call within the reserved tokens costs at most the reserved money, whatever classes they are billed in."""
    found = tariff(model, {})
    assert found
    prompt = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
    most = Usage(input_tokens=prompt + more_input, output_tokens=usage.output_tokens + more_output)
    assert cost(found, usage) <= worst_cost(found, most)
    assert sum(usage) <= sum(most)


@given(st.integers(0, 10**6 * NANO))
def test_money_survives_the_ledger(nano: int) -> None:
    """Nano-dollars written as dollars and read back are the same to the last one."""
    assert nano_dollars(nano / NANO) == nano
