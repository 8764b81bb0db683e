"""The keep's record of the chain of events, as the cell tells it and asks for it."""

from __future__ import annotations

from infra.cell.mind.event import ChainTip
from infra.shared.requests import AskHeads, HeldHead

HEAD_SECONDS = 20.0


def note_head(request_socket: str, run: str, tip: ChainTip, since: int) -> str:
    """Tell the keep where the chain ends, and from which event on the writer wrote it; gives why that is not noted.
    Raises OSError when the keep does not say."""
    from infra.cell import door
    from infra.shared.requests import Done, Later, NoteHead, Refused, RequestError

    try:
        reply = door.ask(request_socket, NoteHead(run, tip.seq, tip.hash, since), HEAD_SECONDS)
    except RequestError as error:
        return str(error)
    match reply:
        case Done():
            return ""
        case Refused(why):
            return why
        case Later(why):
            raise OSError(why)
    return "the git door's reply is no answer to that"


def ask_heads(request_socket: str, below: int) -> tuple[HeldHead, ...]:
    """Those that the keep holds (`requests.AskHeads`). Raises OSError when it does not say."""
    from infra.cell import door
    from infra.shared.requests import Heads, RequestError

    try:
        reply = door.ask(request_socket, AskHeads(below), HEAD_SECONDS)
    except RequestError as error:
        raise OSError(f"the keep's heads of the events: {error}") from error
    if isinstance(reply, Heads):
        return reply.heads
    raise OSError(f"the keep does not say which heads of the events it holds: {getattr(reply, 'why', reply)}")
