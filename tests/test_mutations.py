"""The table of mutations still fits the product: each text stands once in its file, and each test is there."""

from __future__ import annotations

from tests.mutations.table import MUTATIONS


def test_every_mutation_applies() -> None:
    """Playing them takes minutes: `python -m tests.mutations`."""
    assert [f"{mutation.name}: {problem}" for mutation in MUTATIONS if (problem := mutation.problem())] == []
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 30
