"""Which directives have had a run taken up again: each does so once. What its new run came to must not be forgotten
when the next unit begins with the same directive still open."""

from __future__ import annotations

import os
from collections.abc import Collection

from infra.shared.files import write_whole

NOTE = "logs/taken-up"
MOST_BYTES = 64 * 1024


def note(checkout: str, id: str) -> str | None:
    """Note that this directive has done so now; gives why it may not. Raises OSError, ValueError."""
    known = _known(checkout)
    if id in known:
        return "it was taken up before, and the new run has ended"
    _write(checkout, [*known, id])
    return None


def forget(checkout: str, ids: Collection[str]) -> None:
    """They are done; the same words later are another directive. Raises OSError, ValueError."""
    known = _known(checkout)
    if not set(known).isdisjoint(ids):
        _write(checkout, [id for id in known if id not in ids])


def _known(checkout: str) -> list[str]:
    try:
        descriptor = os.open(os.path.join(checkout, NOTE), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    with open(descriptor, "rb") as file:
        return file.read(MOST_BYTES).decode("ascii").split()


def _write(checkout: str, ids: list[str]) -> None:
    write_whole(os.path.join(checkout, NOTE), "".join(f"{id}\n" for id in ids).encode("ascii"))
