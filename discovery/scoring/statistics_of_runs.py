"""Medians with their intervals, and runs paired by their world. Pure.

An interval is the percentile bootstrap of the median: so many samples of the same size are drawn with replacement, by a
seeded generator, and the middle 95 % of their medians is given. Of one value there is none."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

SAMPLES = 2000
SEED = 20231
SHARE = 0.95


class Estimate(NamedTuple):
    """A median; `low` and `high` are None for fewer than two values."""

    median: float
    low: float | None
    high: float | None
    n: int


class Scored(NamedTuple):
    """One run, as it is compared."""

    run: str
    model: str
    world: str
    """What is the same for runs of the same world; empty when that is not known."""
    world_words: str
    """For people: `seed 7, size 40`."""
    figures: Mapping[str, float | None]


class Pair(NamedTuple):
    """How `b` differs from `a` over the worlds that both explored; of several runs in one world their median counts."""

    a: str
    b: str
    worlds: tuple[str, ...]
    """In words."""
    figures: Mapping[str, Estimate]
    """Of the differences, `b` less `a`."""


def estimate(values: Sequence[float], seed: int = SEED) -> Estimate | None:
    """None for no values."""
    if not values:
        return None
    median = float(statistics.median(values))
    if len(values) == 1:
        return Estimate(median, None, None, 1)
    draw = random.Random(seed)  # noqa: S311 - it is no secret
    ordered = sorted(values)
    medians = sorted(statistics.median(draw.choices(ordered, k=len(ordered))) for _ in range(SAMPLES))
    cut = round(SAMPLES * (1 - SHARE) / 2)
    return Estimate(median, float(medians[cut]), float(medians[-1 - cut]), len(values))


def by_model(runs: Iterable[Scored]) -> dict[str, list[Scored]]:
    """In the order in which the models come."""
    found: dict[str, list[Scored]] = {}
    for run in runs:
        found.setdefault(run.model, []).append(run)
    return found


def estimates(runs: Sequence[Scored], names: Iterable[str]) -> dict[str, Estimate]:
    """Of each figure that at least one of the runs has."""
    found = {name: estimate([value for run in runs if (value := run.figures.get(name)) is not None]) for name in names}
    return {name: each for name, each in found.items() if each}


def pairs(runs: Sequence[Scored], names: Sequence[str]) -> list[Pair]:
    """Each two models, also those that have no world in common."""
    groups = by_model(runs)
    return [_pair(a, b, groups[a], groups[b], names) for a, b in itertools.combinations(groups, 2)]


def unpaired(runs: Sequence[Scored]) -> list[str]:
    """Why runs stand in no pair, a line for each. With one model nothing could be paired, and nothing is said."""
    groups = by_model(runs)
    if len(groups) < 2:
        return []
    models: dict[str, set[str]] = {}
    for run in runs:
        models.setdefault(run.world, set()).add(run.model)
    lines = [f"{run.run}: which world it explored is not known" for run in runs if not run.world]
    alone = [run for run in runs if run.world and len(models[run.world]) == 1]
    return lines + [f"{run.run}: only {run.model} explored its world ({run.world_words})" for run in alone]


def _pair(a: str, b: str, of_a: list[Scored], of_b: list[Scored], names: Sequence[str]) -> Pair:
    words = {run.world: run.world_words for run in (*of_a, *of_b)}
    common = [world for world in dict.fromkeys(run.world for run in of_a) if world]
    common = [world for world in common if any(run.world == world for run in of_b)]
    figures = {}
    for name in names:
        differences = []
        for world in common:
            left, right = (_median_in(world, runs, name) for runs in (of_a, of_b))
            if left is not None and right is not None:
                differences.append(right - left)
        if found := estimate(differences):
            figures[name] = found
    return Pair(a, b, tuple(words[world] for world in common), figures)


def _median_in(world: str, runs: list[Scored], name: str) -> float | None:
    values = [value for run in runs if run.world == world and (value := run.figures.get(name)) is not None]
    return float(statistics.median(values)) if values else None
