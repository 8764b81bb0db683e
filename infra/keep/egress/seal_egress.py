"""The egress part of the seal in one call: rules, canary, proof. Called while this process still has CAP_NET_ADMIN, and
before anything of the cell runs; what it gives back can be asked for ever after, without any capability."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from infra.keep.egress import canary
from infra.keep.egress.rules import Exits, RulesError, load_rules
from infra.keep.settings import EgressSettings
from infra.shared.identity import OURS, Identity


class Users(NamedTuple):
    """Of the image. The rules tell packets apart by them."""

    resolver: Identity
    web: Identity
    cell: Identity


def put_on(
    egress: EgressSettings, upstream: str | Sequence[str], users: Users, host: Sequence[str] = ()
) -> Callable[[], str]:
    """Load the rules and prove them. What is given back proves them again: why they do not hold, or nothing.

    `host`: the machine's own addresses. Raises ValueError and OSError; the text says what to do."""
    resolver, web, cell = (each.uid for each in users)
    if resolver is None or web is None or cell is None:
        raise ValueError("the resolver, the web door and the cell need users of their own; the image makes them")
    upstreams = (upstream,) if isinstance(upstream, str) else tuple(upstream)
    exits = Exits(resolver, web, upstreams, egress.mode, tuple(host))
    birds = canary.canaries()
    # In the keep's own group: the rules always tell that one of a refusal.
    walled = Identity(cell, os.getegid()) if egress.mode == "door" else None
    try:
        load_rules(exits)
        canary.place(birds)
    except (RulesError, canary.CanaryError) as error:
        raise OSError(str(error)) from error
    why = why_not(birds, walled)
    if why:
        raise OSError(f"the egress rules were loaded and do not hold: {why}")
    return lambda: why_not(birds, walled)


def why_not(birds: Sequence[canary.Canary], walled: Identity | None = None) -> str:
    """Why the rules do not hold; empty when every canary was rejected, and to `walled`, who reaches the doors alone, by
    the rules that say so. Raises nothing: no proof is a failed one."""
    asked = [(bird, OURS) for bird in birds]
    if walled:
        asked += [(bird, walled) for bird in (*map(canary.walled, birds), canary.RESOLVER)]
    for bird, who in asked:
        try:
            with who.acting():
                proof = canary.prove(bird)
        except OSError as error:
            return f"the egress rules could not be proved: {error}"
        if not proof.holds:
            of_whom = "" if who is OURS else " of mode door"
            return f"the egress rules{of_whom} are not proved ({proof.verdict.value}): {proof.detail}"
    return ""
