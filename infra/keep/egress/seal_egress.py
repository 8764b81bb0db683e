"""The egress part of the seal in one call: rules, canary, proof. Called while this process still has CAP_NET_ADMIN, and
before anything of the cell runs; what it gives back can be asked for ever after, without any capability."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infra.keep.egress import canary
from infra.keep.egress.rules import Exits, RulesError, load_rules
from infra.shared.identity import Identity
from infra.shared.settings import EgressSettings


def put_on(
    egress: EgressSettings, upstream: str | Sequence[str], resolver: Identity, host: Sequence[str] = ()
) -> Callable[[], str]:
    """Load the rules and prove them. What is given back proves them again: why they do not hold, or nothing.

    `host`: the machine's own addresses. Raises ValueError and OSError; the text says what to do."""
    if resolver.uid is None:
        raise ValueError("the resolver has no user of its own; the image makes it")
    upstreams = (upstream,) if isinstance(upstream, str) else tuple(upstream)
    listed = len(egress.allow) if egress.mode == "allowlist" else None
    exits = Exits(resolver.uid, upstreams, listed, egress.ipv6, tuple(host))
    birds = canary.canaries()
    try:
        load_rules(exits)
        canary.place(birds)
    except (RulesError, canary.CanaryError) as error:
        raise OSError(str(error)) from error
    why = why_not(birds)
    if why:
        raise OSError(f"the egress rules were loaded and do not hold: {why}")
    return lambda: why_not(birds)


def why_not(birds: Sequence[canary.Canary]) -> str:
    """Why the rules do not hold; empty when every canary was rejected. Raises nothing: no proof is a failed one."""
    for bird in birds:
        try:
            proof = canary.prove(bird)
        except OSError as error:
            return f"the egress rules could not be proved: {error}"
        if not proof.holds:
            return f"the egress rules are not proved ({proof.verdict.value}): {proof.detail}"
    return ""
