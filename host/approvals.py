"""The PM's answers to what the agent asks: a line under Directives for each, as a commit of the PM's."""

from __future__ import annotations

from host import talk
from host.display import one_line
from host.review import main_commit, page_at
from host.trouble import Trouble
from infra.contract import approvals, comms
from infra.contract.exit_codes import Exit
from infra.repository.git import Git


def answer(git: Git, id: str, approved: bool, why: str = "") -> talk.Told:
    """Write `approve ID` or `deny ID: why`. Raises Trouble for an id that waits for no answer."""
    id = id.strip("[]`").lower()
    page = page_at(git, main_commit(git))
    try:
        waiting, answered = approvals.unanswered(page), approvals.open_answers(page)
    except comms.CommsError as error:
        raise Trouble(Exit.NOT_FOUND, f"{error}; nothing was answered") from None
    if id in answered:
        said = "approved" if answered[id].approved else "denied"
        raise Trouble(Exit.CONFLICT, f"call {id} is {said} already; to change that, edit the line in COMMS.md")
    if id not in {ask.id for ask in waiting}:
        known = ", ".join(f"{ask.id} ({one_line(ask.tool, 40)})" for ask in waiting) or "nothing"
        raise Trouble(Exit.NOT_FOUND, f"no call with id {one_line(id, 40)} waits for an answer; waiting: {known}")
    words = " ".join(why.split())
    text = f"approve {id}" if approved else f"deny {id}" + (f": {words}" if words else "")
    return talk.tell(git, text)
