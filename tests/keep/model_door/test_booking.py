"""What a reply that broke off is booked at: never less than what was certainly used, and seldom the worst case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.model_door.booking import (
    MOST_BYTES_PER_TOKEN,
    MOST_TOKENS_PER_SECOND,
    NOTICE_SECONDS,
    Booking,
    Heard,
    booking_of,
    counted,
)
from infra.shared.conversation import Usage
from tests.keep.model_door.conversations import usages

BODY = 40_000
MOST = Usage(BODY + 4096, 32_000)
AFTER = round(NOTICE_SECONDS * MOST_TOKENS_PER_SECOND)


@pytest.mark.parametrize(
    ("heard", "booking"),
    [
        (Heard(), Booking(Usage(MOST.input_tokens, AFTER), False, False)),
        (Heard(Usage(900, 1, 0, 9000), False, 400, 0.5), Booking(Usage(900, 400 + 500 + AFTER, 0, 9000), True, False)),
        (Heard(Usage(900, 1, 0, 9000), is_over=True), Booking(Usage(900, 1, 0, 9000), True, False)),
        (Heard(Usage(900, 7000), False, 10), Booking(Usage(900, 7000), True, False)),
        (Heard(Usage(900, 70), True, 10, 100.0), Booking(Usage(900, 70), True, True)),
        (Heard(Usage(900, 1), False, 10, 100.0), Booking(Usage(900, 32_000), True, False)),
    ],
    ids=["nothing", "in the middle", "ended by the provider", "counted so far", "counted to the end", "long thoughts"],
)
def test_what_was_counted_is_booked_and_the_rest_at_its_most(heard: Heard, booking: Booking) -> None:
    """A call of ten thousand tokens that broke off early no longer costs thirty-two thousand more."""
    assert booking_of(heard, MOST, BODY) == booking


@pytest.mark.parametrize("prompt", [0, BODY // MOST_BYTES_PER_TOKEN - 1, MOST.input_tokens + 1, 2**53])
def test_a_count_that_cannot_be_true_is_none(prompt: int) -> None:
    """Too small for what was sent, or too large: the prompt is booked at its most, in the dearest class."""
    booking = booking_of(Heard(Usage(prompt, 5), True, 0), MOST, BODY)
    assert booking == Booking(Usage(MOST.input_tokens, 5), False, False)


def test_what_was_shown_was_made_whatever_the_provider_says() -> None:
    """Also as its last word."""
    assert booking_of(Heard(Usage(900, 0), True, 64_000), MOST, BODY).usage.output_tokens == 1000


@pytest.mark.parametrize(
    ("last", "told", "shown", "booked"),
    [
        (Usage(900, 70, 0, 9000), Usage(), 280, Usage(900, 70, 0, 9000)),
        (Usage(900, 0), Usage(), 64_000, Usage(900, 1000)),
        (Usage(900, 0), Usage(900, 70), 10, Usage(900, 70)),
        (Usage(10**6, 70), Usage(), 280, Usage(10**6, 70)),
        (Usage(0, 0), Usage(900, 70), 280, None),
        (Usage(BODY // MOST_BYTES_PER_TOKEN - 1, 70), Usage(), 280, None),
    ],
    ids=["true", "less than was shown", "less than before", "more than was sent", "nothing", "less than was sent"],
)
def test_a_whole_reply_is_booked_as_counted_unless_that_cannot_be(
    last: Usage, told: Usage, shown: int, booked: Usage | None
) -> None:
    """A provider, or what stands before it, that says nothing was used would make every budget endless."""
    assert counted(Heard(told, True, shown), last, BODY) == booked
    assert counted(Heard(told, False, shown), last, BODY) is None


@given(usages, st.booleans(), st.integers(0, 10**6), st.floats(0, 1e6), st.booleans())
def test_no_stream_lowers_its_booking_below_what_is_certain(
    told: Usage, final: bool, shown: int, unseen: float, over: bool
) -> None:
    """Nor does hearing more of it."""
    booked = booking_of(Heard(told, final, shown, unseen, over), MOST, BODY).usage
    assert sum(booked) - booked.output_tokens >= BODY // MOST_BYTES_PER_TOKEN
    assert booked.output_tokens >= max(told.output_tokens, shown // MOST_BYTES_PER_TOKEN)
    more = booking_of(Heard(told, final, shown + 1000, unseen + 1, over), MOST, BODY).usage
    assert more.output_tokens >= booked.output_tokens
