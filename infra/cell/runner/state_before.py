"""The files in which the version before kept what `state` keeps in one: read once, then removed."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple

from infra.cell.runner.log import Log
from infra.shared.paths import HANDOVER_NOTE
from infra.shared.report_requests import id_of_heading
from infra.shared.safe_files import opened_file

UNSENT, AWAITING = ".unsent", ".awaiting"
"""Beside the clones."""
MADE_WAY, FORKED = "logs/handover", "logs/taken-up"
"""In a checkout."""
ABOUT = "- directives: "
"""The note itself stays where it is; what it is about stood in one of its lines."""


class Before(NamedTuple):
    unsent: list[tuple[str, str, str, tuple[str, ...], str]]
    fields: dict[str, Any]
    files: list[str]
    """What was read; reports that could not be read stay where they are, as `*.bad`."""


def read(bot: str, checkout: str, log: Log) -> Before:
    found = Before([], {}, [])
    directory = os.path.join(bot, UNSENT)
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        path = os.path.join(directory, name)
        if name.endswith("Z.json") and name[0].isdigit():
            try:
                raw = json.loads(_text(path))
                at, title = str(raw["at"]), str(raw["title"])
                id = str(raw.get("id") or id_of_heading(at, title))
                found.unsent.append((at, title, str(raw["text"]), tuple(map(str, raw["ticks"])), id))
                found.files.append(path)
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.error("report.not_readable", path=path, error=repr(error), moved_to=f"{path}.bad")
                with contextlib.suppress(OSError):
                    os.rename(path, f"{path}.bad")
    for path in (os.path.join(bot, AWAITING), *(os.path.join(checkout, name) for name in (MADE_WAY, FORKED))):
        try:
            text = _text(path)
        except OSError:
            continue
        found.files.append(path)
        if path.endswith(AWAITING):
            found.fields["awaiting"], _, found.fields["awaiting_at"] = text.partition(" ")
        elif path.endswith(MADE_WAY):
            found.fields["made_way"] = text.strip()
        else:
            found.fields["forked"] = tuple(text.split())
    try:
        about = [
            line for line in _text(os.path.join(checkout, HANDOVER_NOTE)).splitlines()[:10] if line.startswith(ABOUT)
        ]
    except OSError:
        about = []
    if about:
        found.fields["handover"] = tuple(about[0].removeprefix(ABOUT).split())
    return found


def remove(before: Before, log: Log) -> None:
    for path in before.files:
        try:
            os.unlink(path)
        except OSError as error:
            log.warning("old_state.not_removed", path=path, error=str(error))


def _text(path: str) -> str:
    with opened_file(path) as file:
        return file.read(1 << 20).decode(errors="replace")
