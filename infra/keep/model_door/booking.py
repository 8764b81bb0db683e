"""What a reply is booked at: what the provider has counted, and for the rest of one that broke off the most that it can
have made; pure.

The provider is believed upwards only: a count that is too small to be true counts as none, and one that becomes smaller
stays as it was."""

from __future__ import annotations

from typing import NamedTuple

from infra.shared.conversation import Usage

MOST_BYTES_PER_TOKEN = 64
"""No tokenizer makes longer tokens on average: fewer tokens than that cannot have been read or written."""
MOST_TOKENS_PER_SECOND = 1000
"""No provider's model is faster."""
NOTICE_SECONDS = 2.0
"""So long a provider may go on after the connection is gone."""


class Heard(NamedTuple):
    """A reply as far as it came."""

    told: Usage = Usage()
    """The highest counts so far."""
    is_final: bool = False
    """They are the provider's last word."""
    shown_bytes: int = 0
    """Of text, thoughts and arguments."""
    unseen_seconds: float = 0.0
    """In which the provider may have made what it does not show: before the first text, in withheld thoughts, and since
    the last line."""
    is_over: bool = False
    """The provider broke off itself, so it makes no more."""


class Booking(NamedTuple):
    usage: Usage
    has_classes: bool
    """False: the prompt's price class is not known, so the dearest counts."""
    is_measured: bool


def booking_of(heard: Heard, most: Usage, body_bytes: int) -> Booking:
    """`most`: the call's worst case; `body_bytes`: the length of what was sent."""
    output = max(heard.told.output_tokens, heard.shown_bytes // MOST_BYTES_PER_TOKEN)
    if not heard.is_final:
        unseen = heard.unseen_seconds + (0.0 if heard.is_over else NOTICE_SECONDS)
        made = heard.shown_bytes + round(unseen * MOST_TOKENS_PER_SECOND)
        output = max(output, min(made, most.output_tokens))
    prompt = sum(heard.told) - heard.told.output_tokens
    is_plausible = _least(body_bytes) <= prompt <= most.input_tokens
    if not is_plausible:
        return Booking(Usage(most.input_tokens, output), False, False)
    return Booking(heard.told._replace(output_tokens=output), True, heard.is_final)


def counted(heard: Heard, last: Usage, body_bytes: int) -> Usage | None:
    """What a whole reply is booked at, when the provider's last word is `last`; None when that is no count, and its
    worst case is booked. More than the worst case is believed: the provider may have added words of its own."""
    prompt = sum(last) - last.output_tokens
    if not heard.is_final or prompt < _least(body_bytes):
        return None
    made = max(last.output_tokens, heard.told.output_tokens, heard.shown_bytes // MOST_BYTES_PER_TOKEN)
    return last._replace(output_tokens=made)


def _least(body_bytes: int) -> int:
    """Tokens of a prompt that was sent as so many bytes."""
    return max(1, body_bytes // MOST_BYTES_PER_TOKEN)


def highest(one: Usage, other: Usage) -> Usage:
    """The higher count of each class."""
    return Usage(*map(max, one, other))
