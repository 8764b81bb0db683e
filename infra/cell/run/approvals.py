"""Approvals from the runner's side: a call that the policy wants asked is put to the keep, which asks the PM and knows
the answer. Here is only known which calls of this run wait."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from infra.cell.actions import AWAITING, DENIED
from infra.cell.cell import Cell
from infra.cell.doors import Refused
from infra.cell.loop.record import Acted, Acting, Line, args_hash
from infra.cell.page import PageSeen
from infra.cell.policy.gate import INSTEAD
from infra.cell.tools.tool import Verdict
from infra.shared.approvals import Decision, answers_in, call_hash, open_answers
from infra.shared.comms import open_directives
from infra.shared.conversation import TOOL_USE, Completion, ToolUse
from infra.shared.door import DoorAway
from infra.shared.requests import Ask, QuestionState

ASKED, APPROVED = "asked", "approved"
"""Flags of a call in its transcript; behind each stands the id of the question."""


class Approvals:
    """Of one run: what it asked, what it waits for, what the model was told."""

    def __init__(self, cell: Cell, work: str, seen: PageSeen) -> None:
        """`work`: the id of what the run is for."""
        self._cell, self._work = cell, work
        self.makes_calls = True
        """The model has tools, so what the PM has answered can be made in its name."""
        self._waiting: dict[str, str] = {}
        """Calls by their hash, with the id of the question."""
        self._told: set[Decision] = set()
        self._calls = dict[str, tuple[str, dict[str, Any]]]()
        """Tool and arguments of what was asked about, by the hash."""
        self._due = list[str]()
        """Those that the PM has answered, and are to be made now."""
        self._document = seen.document

    def recall(self, lines: Iterable[Line]) -> None:
        """Learn from the record of this run which calls wait."""
        for line in lines:
            if isinstance(line, Acting):  # whether it was made is unknown while it has no result: the model looks
                begun = line.tool_name, line.args_hash
                self._calls = {key: (to, of) for key, (to, of) in self._calls.items() if (to, args_hash(of)) != begun}
            if not isinstance(line, Acted):
                continue
            key = call_hash(line.tool_name, {name: value for name, value in line.args.items() if value is not None})
            if (
                self.makes_calls and line.status == AWAITING and args_hash(line.args) == line.args_hash
            ):  # no key was left out of it
                self._calls[key] = line.tool_name, line.args
            if line.status == AWAITING:
                self._waiting[key] = next((flag.split(" ")[1] for flag in line.policy_flags if _is_asked(flag)), "")
            elif line.policy_flags:
                self._waiting.pop(key, None)

    @property
    def asks(self) -> tuple[str, ...]:
        """Ids of the questions that wait."""
        return tuple(self._waiting.values())

    def answers(self, of_others: Collection[str]) -> tuple[str, ...]:
        """Directives that are answers, to be ticked with the run, but for those to questions `of_others`."""
        found = ((each.id, answers_in(each.text)) for each in open_directives(self._document))
        return tuple(sorted(id for id, said in found if said and not {each.id for each in said} & {*of_others}))

    def awaits(self) -> bool:
        """Whether a call of this run was asked about and not answered."""
        return bool(self._waiting)

    def ask(self, tool: str, given: Mapping[str, Any], why: str) -> Verdict:
        """What the PM says of this call; the keep asks when nobody has. Raises OSError: then nothing waits."""
        cell, key = self._cell, call_hash(tool, given)
        if self.makes_calls:
            self._calls[key] = tool, dict(given)
        try:
            told = cell.keep.question(Ask(tool, dict(given), why, cell.boot.branch, cell.page.commit(), self._work))
        except (Refused, ValueError) as no:  # the latter for what no JSON can hold
            return Verdict(False, f"the PM cannot be asked about this call: {no}. {INSTEAD}", DENIED, (DENIED,))
        except DoorAway as error:
            raise OSError(f"the PM could not be asked about this call: {error}; try again later") from None
        match told:
            case QuestionState(id=id, state="approved"):
                self._waiting.pop(key, None)
                return Verdict(True, flags=(f"{APPROVED} {id}",))
            case QuestionState(id=id, state="denied", why=said):
                self._waiting.pop(key, None)
                words = f"the PM denies this call ({id}){': ' if said else ''}{said}. {INSTEAD}"
                return Verdict(False, words, DENIED, (f"{DENIED} {id}",))
            case QuestionState(id=id):
                if self._waiting.get(key) != id:
                    cell.log.info("approval.waits", id=id, tool=tool)
                self._waiting[key] = id
                words = (
                    f"the PM is asked about this call ({id}; {why}) and has not answered yet. Nothing was done. Do "
                    "something else meanwhile, or end your turn; you are started again when the PM has answered"
                )
                return Verdict(False, words, AWAITING, (f"{ASKED} {id}",))

    def makes(self) -> Completion | None:
        """What the PM has answered is made as it was asked, in the model's name: the result is the answer."""
        due = [self._calls[key] for key in dict.fromkeys(self._due)]
        self._due.clear()
        uses = (ToolUse(f"answered-{secrets.token_hex(4)}", tool, given) for tool, given in due)
        return Completion(tuple(uses), TOOL_USE, "runner") if due else None

    def news(self, seen: PageSeen) -> str:
        """Words for the model on the answers to this run's questions that are new on the page."""
        self._document = seen.document
        words = []
        for key, id in list(self._waiting.items()):
            answer = open_answers(seen.document).get(id)
            if answer is None or answer in self._told:
                continue
            self._told.add(answer)
            self._waiting.pop(key)
            is_known = key in self._calls
            if is_known:
                self._due.append(key)
            if answer.approved:
                then = "it is made now, as it was asked" if is_known else "make it again, with the same words"
                words.append(f"The PM approves call {id}: {then}.")
            else:
                words.append(f"The PM denies call {id}{': ' if answer.why else '.'}{answer.why}")
        return "\n\n".join(words)


def _is_asked(flag: str) -> bool:
    return flag.startswith(f"{ASKED} ")
