"""What tokens cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.ledger.prices import NANO, cost, nano_dollars, tariff, worst_cost
from infra.keep.settings.schema import Price
from infra.shared.conversation import Usage

counts = st.integers(0, 10**7)
usages = st.builds(Usage, counts, counts, counts, counts)
MILLION_OF_EACH = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
KNOWN = ["claude-opus-5-5", "claude-haiku-4-5", "claude-haiku-5-5", "claude-fable-5-1", "claude-sonnet-5"]


@pytest.mark.parametrize(
    ("model", "input", "output", "write", "read"),
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
    assert found is not None

    each = [Usage(**{name: 1_000_000}) for name in Usage.__struct_fields__]
    assert [cost(found, usage) / NANO for usage in each[:1] + each[2:]] == [input, write, read]
    assert cost(found, MILLION_OF_EACH) / NANO == pytest.approx(input + output + write + read, rel=1e-12)


def test_a_long_prompt_makes_every_token_of_the_call_dearer() -> None:
    """claude-haiku-5-5 has two bands; all classes of the prompt count towards the border, and it is inclusive below."""
    haiku = tariff("claude-haiku-5-5", {})
    assert haiku is not None

    below = Usage(input_tokens=50_000, output_tokens=1000, cache_write_tokens=25_000, cache_read_tokens=25_000)
    above = below._replace(cache_read_tokens=25_001)

    assert cost(haiku, below) == round((50_000 * 0.1 + 1000 * 0.5 + 25_000 * 0.125 + 25_000 * 0.01) * 1000)
    assert cost(haiku, above) == -(-round((50_000 * 0.5 + 1000 * 2.5 + 25_000 * 0.625 + 25_001 * 0.05) * 10**6) // 1000)


@pytest.mark.parametrize("model", ["claude-opus-9", "gpt-7", "", "claude-opus-5-5-20261", "claude-opus-5-5 "])
def test_an_unknown_model_has_no_price(model: str) -> None:
    """A name that is not in the table is not guessed at."""
    assert tariff(model, {}) is None


def test_the_own_price_of_the_pm_comes_first() -> None:
    """A price in the settings wins over the table and names models that the table lacks; the cache has its defaults."""
    own = {
        "claude-opus-5-5": Price(input=8.0, output=9.0),
        "mine": Price(input=1, output=2, cache_write=3, cache_read=0),
    }

    ours, mine = tariff("claude-opus-5-5", own), tariff("mine-20260101", own)

    assert ours is not None
    assert mine is not None
    assert [rate / NANO for rate in ours.rates] == [8, 9, 10, 0.8]
    assert [rate / NANO for rate in mine.rates] == [1, 2, 3, 0]


@given(st.sampled_from(KNOWN), usages, st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_worst_case_is_never_passed(model: str, usage: Usage, more_input: int, more_output: int) -> None:
    """A call within the reserved tokens costs at most the reserved money, whatever classes they are billed in."""
    found = tariff(model, {})
    assert found is not None
    prompt = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
    most = Usage(input_tokens=prompt + more_input, output_tokens=usage.output_tokens + more_output)

    assert cost(found, usage) <= worst_cost(found, most)
    assert sum(usage) <= sum(most)


@given(st.integers(0, 10**6 * NANO))
def test_money_survives_the_ledger(nano: int) -> None:
    """Nano-dollars written as dollars and read back are the same to the last one."""
    assert nano_dollars(nano / NANO) == nano
