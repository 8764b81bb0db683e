"""Texts for hypothesis to choose from."""

from __future__ import annotations

from hypothesis import strategies as st

_ANY = st.characters(exclude_categories=["Cs"])


def any_text(max_size: int | None = None) -> st.SearchStrategy[str]:
    """All that UTF-8 holds, as `st.text` by itself. That finds out by encoding each character, which takes each process
    0.8 s of a fresh checkout; the one category that it leaves out takes a tenth of that."""
    return st.text(_ANY, max_size=max_size)
