"""Approvals from the runner's side: a call that the policy wants asked is put to the keep, which asks the PM and knows
the answer. Which calls of a run wait stands in its record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from infra.cell.actions import AWAITING, DENIED
from infra.cell.cell import Cell
from infra.cell.doors import Refused
from infra.cell.loop.record import Acted, Line
from infra.cell.policy.gate import INSTEAD
from infra.cell.tools.tool import Verdict
from infra.shared.door import DoorAway
from infra.shared.requests import Ask, QuestionState

ASKED, APPROVED = "asked", "approved"
"""Flags of a call in its transcript; behind each stands the id of the question."""


def ask(cell: Cell, work: str, tool: str, given: Mapping[str, Any], why: str) -> Verdict:
    """What the PM says of this call, for a run on `work`; the keep asks when nobody has. Raises OSError: then nothing
    waits."""
    try:
        told = cell.keep.question(Ask(tool, dict(given), why, cell.boot.branch, cell.page.commit(), work))
    except (Refused, ValueError) as no:  # the latter for what no JSON can hold
        return Verdict(False, f"the PM cannot be asked about this call: {no}. {INSTEAD}", DENIED, (DENIED,))
    except DoorAway as error:
        raise OSError(f"the PM could not be asked about this call: {error}; try again later") from None
    match told:
        case QuestionState(id=id, state="approved"):
            return Verdict(True, flags=(f"{APPROVED} {id}",))
        case QuestionState(id=id, state="denied", why=said):
            words = f"the PM denies this call ({id}){': ' if said else ''}{said}. {INSTEAD}"
            return Verdict(False, words, DENIED, (f"{DENIED} {id}",))
        case QuestionState(id=id):
            words = (
                f"the PM is asked about this call ({id}; {why}) and has not answered yet. Nothing was done. Do "
                "something else meanwhile, or end your turn; you are started again when the PM has answered"
            )
            return Verdict(False, words, AWAITING, (f"{ASKED} {id}",))


def waiting(lines: Iterable[Line]) -> dict[str, Acted]:
    """The calls of a run that wait for the PM, by the id of the question. One that was begun again waits no longer: a
    crash that cut it short is the model's to look at."""
    found = dict[str, Acted]()
    for line in lines:
        if isinstance(line, Acted):
            words = [flag.partition(" ") for flag in line.policy_flags]
            settled = {id for word, _, id in words if word in (APPROVED, DENIED)}
            call = line.tool_name, line.args_hash
            found = {
                id: each for id, each in found.items() if id not in settled and (each.tool_name, each.args_hash) != call
            }
            if line.status == AWAITING:
                found |= {id: line for word, _, id in words if word == ASKED}
    return found
