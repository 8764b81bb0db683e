"""Which settings may be taken from a file that the PM did not write, and which only with the PM's consent; pure.

Keys and values are flat, as `minifram config` shows them. Every key needs consent unless it is named here, so a setting
that is added later and forgotten here needs it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from infra.shared.settings import LEAST_CPU_SECONDS

FREE = frozenset(
    (
        *("intervals.work_seconds", "intervals.check_seconds", "intervals.poll_seconds"),
        *("limits.output_chars", "limits.rehearsal_seconds", "limits.install_seconds", "limits.boot_seconds"),
        *("limits.probation_seconds", "limits.hops", "limits.door_seconds", "limits.branch_dirs"),
        *("model.idle_seconds", "model.answer_seconds", "model.api", "model.vision"),
    )
)
"""Neither isolation nor keys, money or network depend on these, whatever their value.

`limits.sample_seconds` is not among them, nor below: looks that are too rare see nothing, and those that are to come
more often than they can be made never belong together, so either way no limit on what the agent takes would hold."""

_LESS = frozenset(
    (
        *("budget.daily_usd", "budget.daily_tokens", "budget.unit_usd", "budget.unit_tokens"),
        *("comms.keep_reports", "comms.page_bytes", "limits.make_way_seconds"),  # the page is paid for in every prompt
        *("limits.unit_steps", "limits.unit_seconds", "limits.context_tokens", "limits.blob_bytes"),
        *("limits.log_bytes", "limits.cpu_seconds", "limits.cpu_fraction", "limits.cpu_cores"),
        # `limits.cpu_seconds` has to be at least as long as the first two; and `down` waits for the third.
        *("limits.bash_seconds", "limits.validation_seconds", "limits.grace_seconds"),
        *("limits.tokens_per_hour", "limits.steps_per_hour", "model.max_tokens"),
        *("web.fetch_seconds", "web.page_bytes"),
        *("podman.pids", "podman.open_files", "podman.memory_bytes", "podman.cpus", "podman.tmp_bytes"),
    )
)
"""A smaller number gives the agent less. None means no limit, unless it stands here."""
_WITHOUT = {"limits.cpu_seconds": LEAST_CPU_SECONDS}
_MORE = frozenset(("limits.free_bytes",))
_LISTED = frozenset(("protected.files", "protected.branches"))
"""A longer list gives the agent less."""
_STEPS: Mapping[str, tuple[Any, ...]] = {
    "sandbox": ("process", "auto", "podman"),
    "rehearse": (False, True),
    "autonomy": ("merge", "propose", "frozen"),
    "budget.unpriced": (True, False),
    "egress.ipv6": (True, False),
    "policy.default": ("allow", "ask", "deny"),
    "policy.private_networks": ("allow", "deny"),
    "podman.network": ("auto", "none"),
    "web.robots": (False, True),
    "web.keep_raw_html": (True, False),
}
"""From what gives the agent most to what gives it least."""
_WIDEST: Mapping[str, Any] = {"egress.mode": "open"}
"""Every other value gives the agent less than this one, and none of them less than another: with `door` the web door
reaches what an allowlist does not name."""
_RULES = "policy.rules"

NAMED = FREE | _LESS | _MORE | _LISTED | frozenset(_STEPS) | frozenset(_WIDEST) | {_RULES}
"""Every key that this module names."""


class Difference(NamedTuple):
    """A setting that needs the PM's consent."""

    key: str
    value: Any
    """None when the key is not there any more."""
    instead_of: Any


def needing_consent(given: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Where `given` differs from `known`, what the PM has consented to, and may give the agent more.

    What only takes from the agent needs no consent: to leave it out would give the agent more than it had."""
    found = [
        Difference(key, value, known.get(key))
        for key, value in given.items()
        if key not in FREE and (key not in known or (value != known[key] and not _takes(key, given, known)))
    ]
    gone = (Difference(key, None, value) for key, value in known.items() if value and key not in given)
    return (*found, *gone)


def _takes(key: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether the value of `key` only takes from the agent what it has in `known`."""
    new, old = given[key], known[key]
    if key in _LESS:
        new, old = (_WITHOUT.get(key) if value is None else value for value in (new, old))
        return new is not None and (old is None or new < old)
    if key in _MORE:
        return bool(new > old)
    if key in _LISTED:
        return {*new} > {*old}
    if key in _WIDEST:
        return bool(old == _WIDEST[key])
    if key in _STEPS:
        return _STEPS[key].index(new) > _STEPS[key].index(old)
    return key == _RULES and _rules_take(new, old, known.get("policy.default") == "allow")


def _rules_take(new: list[dict[str, Any]], old: list[dict[str, Any]], allowed: bool) -> bool:
    """The first rule that matches counts, so an `ask` before a `deny` can allow more, and so can one that names the
    hosts of a private network."""
    added = [rule for rule in new if rule not in old]
    asks = allowed and not old
    return [rule for rule in new if rule in old] == old and all(
        rule["do"] == "deny" or (asks and rule["do"] == "ask" and not rule.get("domains")) for rule in added
    )
