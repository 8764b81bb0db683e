"""Long text is cut in the middle, and says so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.clip import HeadAndTail, clip
from tests.shared.texts import any_text


@given(any_text(max_size=200), st.integers(min_value=1, max_value=250))
def test_short_text_stays_and_long_text_keeps_both_ends(text: str, limit: int) -> None:
    """What fits is unchanged; of what does not, exactly `limit` characters stay, around a note that counts the rest."""
    shown = clip(text, limit)

    if len(text) <= limit:
        assert shown == text
    else:
        said = f"\n[… {len(text) - limit} of {len(text)} characters left out here …]\n"
        head, tail = (limit + 1) // 2, limit // 2
        assert shown == text[:head] + said + text[len(text) - tail :]


@given(st.lists(any_text(max_size=30), max_size=20), st.integers(min_value=1, max_value=100))
def test_pieces_come_to_the_same_as_the_whole(pieces: list[str], limit: int) -> None:
    """However a text is cut into pieces on its way, the same is kept of it."""
    kept = HeadAndTail(limit)
    for piece in pieces:
        kept.feed(piece)

    assert kept.text() == clip("".join(pieces), limit)
