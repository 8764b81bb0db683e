"""What tokens cost. Money is counted in whole nano-dollars, so that sums over a day are exact and a ledger read
back gives the same figure; a fraction is always rounded up.

Prices are list prices of November 2026, per million tokens: Anthropic's, with five-minute cache writes at 1.25 times
the input price, and OpenAI's standard ones (developers.openai.com/api/docs/pricing and the pages of its models, as they
were quoted by others until 2026-10-27; tokens written to the cache cost 1.25 times the input price from GPT-5.6 on,
nothing more before). A model that is not here has no price until the PM's settings give it one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from infra.keep.settings.schema import Price
from infra.shared.conversation import Usage

NANO = 1_000_000_000


def nano_dollars(amount: float) -> int:
    return round(amount * NANO)


class Rates(NamedTuple):
    """Nano-dollars per million tokens."""

    input: int
    output: int
    cache_write: int
    cache_read: int


class Tariff(NamedTuple):
    """What one model costs."""

    rates: Rates
    long_rates: Rates | None = None
    """For every token of a call whose prompt is over `long_above`."""
    long_above: int = 0


FREE = Tariff(Rates(0, 0, 0, 0))


def rates(input: float, output: float, cache_read: float = 0.1, cache_write: float = 1.25) -> Rates:
    """From dollars per million tokens; the two of the cache are multiples of the input price."""
    return Rates(*map(nano_dollars, (input, output, input * cache_write, input * cache_read)))


def _openai(input: float, output: float, cache_read: float = 0.1, cache_write: float = 1.25) -> Tariff:
    """Over 272,000 tokens of prompt, everything of it costs twice as much, and what comes out half as much again."""
    long = rates(2 * input, 1.5 * output, cache_read, cache_write)
    return Tariff(rates(input, output, cache_read, cache_write), long, 272_000)


_TARIFFS = {
    **dict.fromkeys(("claude-fable-5", "claude-mythos-5"), Tariff(rates(10, 50))),
    **dict.fromkeys(("claude-fable-5-1", "claude-mythos-5-1"), Tariff(rates(10, 50, cache_read=0.025))),
    **dict.fromkeys((f"claude-opus-{version}" for version in ("4-5", "4-6", "4-7", "4-8", "5")), Tariff(rates(5, 25))),
    "claude-opus-5-5": Tariff(rates(4, 20, cache_read=0.05)),
    **dict.fromkeys(("claude-sonnet-4-5", "claude-sonnet-4-6"), Tariff(rates(3, 15))),
    "claude-sonnet-5": Tariff(rates(2, 10)),
    "claude-sonnet-5-5": Tariff(rates(2, 10, cache_read=0.05)),
    "claude-haiku-4-5": Tariff(rates(1, 5)),
    "claude-haiku-5-5": Tariff(rates(0.1, 0.5), long_rates=rates(0.5, 2.5), long_above=100_000),
    "gpt-6.1-sol": _openai(2, 10, cache_read=0.05),
    "gpt-6.1-terra": _openai(1, 5, cache_read=0.05),
    "gpt-6-sol": _openai(2, 10),
    "gpt-6-luna": _openai(0.1, 0.5),
    "gpt-5.5": _openai(5, 30, cache_write=1),
    "gpt-5.4": _openai(2.5, 15, cache_write=1),
    "gpt-5.4-mini": Tariff(rates(0.75, 4.5, cache_write=1)),
    "gpt-5.4-nano": Tariff(rates(0.2, 1.25, cache_write=1)),
    "gpt-5-mini": Tariff(rates(0.25, 2, cache_write=1)),
}
_DATE = re.compile(r"-20\d{6}$|-20\d\d-\d\d-\d\d$")
"""`claude-haiku-4-5-20251001` is a dated version of `claude-haiku-4-5`, at the same price."""


def tariff(model: str, own: Mapping[str, Price]) -> Tariff | None:
    """The price of `model`: the PM's own first, then the table; None when neither has it."""
    for name in (model, _DATE.sub("", model)):
        if price := own.get(name):
            write = 1.25 * price.input if price.cache_write is None else price.cache_write
            read = 0.1 * price.input if price.cache_read is None else price.cache_read
            return Tariff(Rates(*map(nano_dollars, (price.input, price.output, write, read))))
        if name in _TARIFFS:
            return _TARIFFS[name]
    return None


def cost(tariff: Tariff, usage: Usage) -> int:
    """Nano-dollars of a call that used `usage`."""
    is_long = sum(usage) - usage.output_tokens > tariff.long_above
    applied = tariff.long_rates if tariff.long_rates and is_long else tariff.rates
    return _rounded_up(
        usage.input_tokens * applied.input
        + usage.output_tokens * applied.output
        + usage.cache_write_tokens * applied.cache_write
        + usage.cache_read_tokens * applied.cache_read
    )


def worst_cost(tariff: Tariff, most: Usage) -> int:
    """Nano-dollars that a call of at most these tokens can cost, in whichever class and band they come to be billed."""
    prompt = sum(most) - most.output_tokens
    return max(
        _rounded_up(prompt * max(band.input, band.cache_write, band.cache_read) + most.output_tokens * band.output)
        for band in (tariff.rates, tariff.long_rates or tariff.rates)
    )


def most_image_tokens(model: str) -> int:
    """What one image can be counted as, however few bytes it has: Claude counts at most 4,784 tokens (28 x 28 pixels
    each), OpenAI's models 10,000 patches of 32 x 32 pixels with a factor of 1.2 (November 2026); but gpt-4o-mini 2,833
    and 5,667 more for each of at most eight tiles."""
    return 50_000 if "gpt-4o-mini" in model else 16_000


def _rounded_up(times_a_million: int) -> int:
    return -(-times_a_million // 1_000_000)
