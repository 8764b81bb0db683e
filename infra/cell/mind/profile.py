"""A profile of the context: what of the mind runs were shown, what of that they named, how they ended. A week is a file
`logs/health/context-profile-YYYY-Www.json`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from infra.cell.loop.record import Answered, Line
from infra.cell.mind.history import Run
from infra.cell.mind.memory import write
from infra.cell.mind.recall import Hit
from infra.shared.mind.layout import HEALTH


class Citations:
    """What one run was shown of the mind, and what of that the model named in its words and acts, by an id like
    B-000123 or by the file."""

    def __init__(self) -> None:
        self.shown = dict[str, str]()
        """By `path#id`, also of what was recalled."""
        self._cited = set[str]()

    def found(self, hits: Sequence[Hit]) -> None:
        self.shown |= {hit.where: f"{hit.heading}\n{hit.text}" for hit in hits}

    def seen(self, event: Line) -> None:
        if isinstance(event, Answered):
            said = str(event.completion.content)
            for where in self.shown.keys() - self._cited:
                path, _, id = where.partition("#")
                if path in said or (re.fullmatch(r"[A-Z]+-\d+", id) and id in said):
                    self._cited.add(where)

    def told(self) -> dict[str, Any]:
        """For the last event of the run (`history`)."""
        loaded = {where: -(-len(text.encode(errors="replace")) // 3) for where, text in self.shown.items()}
        return {"loaded": loaded, "cited": sorted(self._cited)}


def compile_week(root: str, runs: Sequence[Run], week: str) -> str:
    """Write the profile of the runs that ended in the week (`2026-W05`). Raises OSError."""
    loaded, cited, completed, tokens = (Counter[str]() for _ in range(4))
    for run in runs:
        loaded.update(run.loaded.keys())
        tokens.update(run.loaded)
        cited.update(run.loaded.keys() & set(run.cited))
        completed.update(run.loaded.keys() if run.succeeded else ())
    counts = {"loaded": loaded, "cited": cited, "completed": completed, "tokens": tokens}
    profile = {
        "week": week,
        "runs": len(runs),
        "outcomes": Counter(run.end for run in runs),
        "sections": [
            {"section": each} | {name: count[each] for name, count in counts.items()}
            for each, _ in loaded.most_common()
        ],
    }
    write(root, f"{HEALTH}/context-profile-{week}.json", json.dumps(profile, indent=1, ensure_ascii=False) + "\n")
    return f"{len(runs)} runs were shown {len(loaded)} sections, and named {len(cited)}"
