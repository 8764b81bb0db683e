"""The keep's record of the chain of events, as the cell tells it and asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.cell.mind.event import ChainTip
from infra.shared.requests import HeldHead, NoteHead

if TYPE_CHECKING:
    from infra.cell.doors import Keep


def note_head(keep: Keep, run: str, tip: ChainTip, since: int) -> str:
    """Tell the keep where the chain ends, and from which event on the writer wrote it; gives why that is not noted.
    Raises OSError when the keep does not say."""
    from infra.cell.doors import Refused

    try:
        keep.note_head(NoteHead(run, tip.seq, tip.hash, since))
    except Refused as no:
        return str(no)
    return ""


def ask_heads(keep: Keep, below: int) -> tuple[HeldHead, ...]:
    """Those that the keep holds (`requests.AskHeads`). Raises OSError when it does not say."""
    from infra.cell.doors import Refused

    try:
        return keep.heads(below).heads
    except Refused as no:
        raise OSError(f"the keep does not say which heads of the events it holds: {no}") from None
