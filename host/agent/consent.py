"""The PM's consent to settings that somebody else may have written, or that changed since the PM last saw them run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import click
import yaml

from host.agent.settings_text import flat
from host.display import Screen
from host.errors import denied
from host.paths import AgentPaths
from host.running import record
from host.running.record import PROCESS
from infra.shared.plain_yaml import parse_yaml
from infra.shared.settings import Settings
from infra.shared.settings_file import parse_settings
from infra.shared.settings_trust import Difference, needing_consent

Consent = Callable[[str, Sequence[Difference]], bool]
"""Shows what is asked for, and gives whether the PM agrees."""

CONCERNS = "isolation, keys, money or network"
SHOWN_CHARS = 200
SANDBOX, LIVED, COMMAND = "sandbox", "lived in sandbox", "notify.command"


class Adopted(NamedTuple):
    """What an archive brings along, after the PM was asked."""

    settings: bytes
    taken: tuple[Difference, ...]
    not_taken: tuple[Difference, ...]
    sealed: bool
    """Whether the agent counts as one that was sealed before."""


def asking(accept: bool, screen: Screen) -> Consent:
    """`accept` is the answer when it is true; else the PM is asked at a terminal, and without one has not agreed."""

    def consent(what: str, differences: Sequence[Difference]) -> bool:
        screen.progress("\n".join([what, *(f"  {shown(each)}" for each in differences)]))
        if accept:
            return True
        return sys.stdin.isatty() and sys.stderr.isatty() and click.confirm("Take them?", default=False, err=True)

    return consent


def shown(difference: Difference) -> str:
    """On one line, of ASCII alone."""
    value = "not set" if difference.value is None else _cut(json.dumps(difference.value))
    return f"{_cut(json.dumps(difference.key)[1:-1])}: {value} (instead of {_cut(json.dumps(difference.instead_of))})"


def adopt(archived: bytes, source: str, lived: str, consent: Consent) -> Adopted:
    """What an agent restored from these settings gets. `sandbox: process` never counts: only the start can say so; nor
    does `notify.command`, which would run as the PM."""
    settings, defaults = parse_settings(archived.decode(), source), flat(Settings())
    found = needing_consent(flat(settings), defaults)
    never = tuple(each for each in found if (each.key, each.value) == (SANDBOX, PROCESS) or each.key == COMMAND)
    asked = tuple(each for each in found if each not in never)
    if lived == PROCESS:
        asked += (Difference(LIVED, PROCESS, "podman"),)
    agrees = bool(asked) and consent(f"{source} differs from the defaults in what concerns {CONCERNS}:", asked)
    taken, not_taken = (asked, never) if agrees else ((), (*asked, *never))
    # Section and name: one price goes with all prices, `model.prices.NAME.input`.
    paths = (tuple(each.key.split(".", 2)[:2]) for each in not_taken if each.key != LIVED)
    left_out = tuple(dict.fromkeys(paths))
    text = _without(archived, left_out) if left_out else archived
    left = needing_consent(flat(parse_settings(text.decode(), source)), defaults)
    assert {each.key for each in left} <= {each.key for each in taken}, left  # noqa: S101 - what `_without` is for
    return Adopted(text, taken, not_taken, sealed=lived != PROCESS or not agrees)


def changed_settings(home: AgentPaths, settings: Settings, sandbox: str) -> tuple[Difference, ...]:
    """What minifram.yaml sets to another value than at the last start, and may give the agent more. A default is of
    minifram itself, also one that another version changed."""
    defaults = flat(Settings())
    before = defaults | record.read(home).get("settings", {})
    found = needing_consent(flat(settings) | {"sandbox": sandbox}, before)
    return tuple(each for each in found if each.value != defaults.get(each.key))


def require(home: AgentPaths, settings: Settings, sandbox: str, command: str, consent: Consent) -> None:
    """Raises CommandError unless the PM agrees to what minifram.yaml changed since the agent was started."""
    found = changed_settings(home, settings, sandbox)
    what = f"{home.settings} changed since the agent was started, in what concerns {CONCERNS}:"
    if found and not consent(what, found):
        raise denied(
            f"{command} would put {', '.join(each.key for each in found)} into effect; nothing was changed: give "
            f"--accept, or put the settings back, or 'minifram restart' to run with them first"
        )


def _without(archived: bytes, left_out: Sequence[tuple[str, ...]]) -> bytes:
    raw = parse_yaml(archived.decode())
    for path in left_out:
        section = raw if len(path) == 1 else raw[path[0]]
        section.pop(path[-1], None)
    kept = {key: value for key, value in raw.items() if value != {}}
    head = f"# Restored from an archive, without {', '.join(map('.'.join, left_out))}.\n"
    return (head + (yaml.safe_dump(kept, sort_keys=False) if kept else "")).encode()


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(text):,} characters)"
