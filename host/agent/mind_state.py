"""What the keep holds against the agent's mind, for `minifram status`."""

from __future__ import annotations

from infra.shared.mind.kept import changes_in_words, read_kept

CHANGES_SHOWN = 2


def mind_lines(var: str) -> tuple[str, ...]:
    """Drift first, then the last of the PM's changes that change much. Raises OSError, ValueError."""
    kept = read_kept(var)
    if kept is None:
        return ()
    return (*(f"drifted: {line}" for line in kept.drift), *changes_in_words(kept)[-CHANGES_SHOWN:])
