"""The clones of branches in the agent's directory, by whose logs and transcripts the commands know what it did."""

from __future__ import annotations

import stat

from infra.shared.branches import MAX_PARTS, MIND
from infra.shared.paths import ASIDE
from infra.shared.safe_files import Below, Entry

_MOST_LOOKED_AT = 20_000


def with_clones(bot: Below) -> list[str]:
    """The branches that have a directory `<branch>/minifram`, as their names stand there."""

    def may_hold_clones(entry: Entry) -> bool:
        last = entry.path.rpartition("/")[2]
        return last != "minifram" and not last.startswith((".", ASIDE)) and entry.path != MIND

    found: list[str] = []
    for entry in bot.walk(depth=MAX_PARTS, most=_MOST_LOOKED_AT, enter=may_hold_clones):
        if isinstance(entry, Entry) and entry.path.endswith("/minifram") and stat.S_ISDIR(entry.status.st_mode):
            found.append(entry.path.removesuffix("/minifram"))
    return sorted(found)
