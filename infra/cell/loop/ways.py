"""How a model says what is to be done, and how it is told what came of it: by calls of tools, or by lists of operations
in plain text. Both become the same calls; the loop knows of no difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from infra.cell.actions import AssistantAction, Respond, ToolCall, ToolCalls, ToolResult
from infra.cell.loop.images import shown_by
from infra.cell.protocol.operations import EVENTS, HOPS, MESSAGE, PROTOCOL, SIGNALS, TYPES, Event
from infra.cell.protocol.read import has_call, means_operations, read
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import REFUSED
from infra.shared import conversation
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import END_TURN, MAX_TOKENS, REFUSAL, TOOL_USE, Block, Completion, Message, Text, ToolUse

NOT_A_WORD = 20
"""An answer to the question whether that was the report is none itself when it has fewer characters."""
CUT = (
    "Your last reply was cut at the limit of tokens for one reply, so nothing of it was done. Continue in smaller "
    "pieces: write long files in parts, one act at a time."
)
NOT_TAKEN = (
    "Nothing of your reply was done: it asks for acts in its text, or ended for a call of a tool that it does not hold "
    "once. Act by calling your tools. If it was your report, send it again in words, without the list."
)
WRONG_FORM = (
    "Nothing of your reply was carried out: {found}. Answer with one JSON list of operations, such as "
    '[{{"type": "shell", "command": "…"}}], with longer text in blocks after it; or with your report in words.'
)
IS_IT_THE_REPORT = (
    "Your reply asks for no act, so nothing was done. If work is left, answer with one JSON list, such as "
    '[{"type": "shell", "command": "…"}]. If that was your report to the PM, answer [].'
)
NOTHING_WAS_DONE = "(No operation was carried out in this run.)"
_TEXT: Final = {"readFile": "content", "shell": "stdout"}
"""The field of an event that is the payload of the result."""


class News(NamedTuple):
    """Words for the model that are not the loop's own, by who says them."""

    pm: str = ""
    runtime: str = ""


class ByTools:
    """The provider's calls of tools."""

    def asked(self, completion: Completion) -> tuple[AssistantAction, Message]:
        """What a reply of the model asks for, and the reply as the conversation holds it."""
        text, stop_reason = completion.text, completion.stop_reason
        calls = tuple(
            ToolCall(block.id, block.name, block.input) for block in completion.content if isinstance(block, ToolUse)
        )
        if stop_reason == TOOL_USE and 0 < len({call.id for call in calls}) == len(calls):
            return ToolCalls(calls, text), Message("assistant", completion.content)
        action = Respond(text)
        if stop_reason == REFUSAL:
            action = Respond(text, StopReason.REFUSAL)
        elif stop_reason != END_TURN or asks_for_acts(text):
            action = _not_taken(completion, NOT_TAKEN)
        return action, _words_of(text)

    def answer(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], own: str, news: News
    ) -> tuple[Block, ...]:
        """The next message to the model: what became of the calls, the loop's own words, and the news."""
        told = (
            conversation.ToolResult(call.id, result.shown, not result.ok, shown_by(result.facts))
            for call, result in zip(calls, results, strict=True)
        )
        words = "\n\n".join(filter(None, (own, *news)))
        return (*told, *((Text(words),) if words else ()))


class ByOperations:
    """Lists of operations in plain text. It sees every reply of a run, so one that is played again stands where it
    stood."""

    def __init__(self) -> None:
        self._report = ""
        """What may be the report, once it was asked whether it is."""
        self._has_acted = False

    def asked(self, completion: Completion) -> tuple[AssistantAction, Message]:
        """The same as ByTools."""
        return self._action(completion), _words_of(completion.text)

    def _action(self, completion: Completion) -> AssistantAction:
        text, before, self._report = completion.text, self._report, ""
        if completion.stop_reason == REFUSAL:
            return Respond(text, StopReason.REFUSAL)
        try:
            items, prose = read(text, cut=completion.stop_reason == MAX_TOKENS)
        except ValueError as error:
            return _not_taken(completion, WRONG_FORM.format(found=error))
        text = "\n\n".join(item.args["text"] for item in items if item.name == MESSAGE).strip() or prose
        if calls := tuple(item for item in items if item.name != MESSAGE):
            return ToolCalls(calls, text)
        is_answer = len(text.strip()) < NOT_A_WORD
        if before and (is_answer or self._has_acted or text == before):
            report = before if is_answer else text
            # A report may claim what was never done: what was done is known here.
            return Respond(report if self._has_acted else f"{report}\n\n{NOTHING_WAS_DONE}")
        self._report = text
        return Respond(text, StopReason.INVALID_REPLIES, IS_IT_THE_REPORT)

    def answer(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], own: str, news: News
    ) -> tuple[Block, ...]:
        """The same as ByTools."""
        self._has_acted = self._has_acted or any(result.ok for result in results)
        events = [event_of(call, result) for call, result in zip(calls, results, strict=True)]
        told = ((own, "runtime"), (news.pm, "pm"), (news.runtime, "runtime"))
        events += [said(words, by) for words, by in told if words]
        return (Text(message_of(events)), *(image for result in results for image in shown_by(result.facts)))


WAYS: Final[Mapping[str, Callable[[], ByTools | ByOperations]]] = {TOOLS: ByTools, OPERATIONS: ByOperations}


def _not_taken(completion: Completion, advice: str) -> Respond:
    """The run ends for this reason when there are too many of them."""
    if completion.stop_reason == MAX_TOKENS:
        return Respond(completion.text, StopReason.MAX_TOKENS, CUT)
    return Respond(completion.text, StopReason.INVALID_REPLIES, advice)


def asks_for_acts(text: str) -> bool:
    """Whether words of a model that has tools hold acts in another form: a list of operations, or a call as text."""
    try:
        items = read(text).items
    except ValueError:
        return means_operations(text)
    return has_call(text) or any(item.args.get("type") != "userMessage" for item in items)


def event_of(call: ToolCall, result: ToolResult) -> Event:
    """What became of the operation that this call carries out."""
    kind = call.args["type"] if call.name == REFUSED else TYPES[call.name]
    known = EVENTS[kind]
    fields = {name: value for name, value in result.facts.items() if name in known}
    if call.name in HOPS:
        fields["path"] = f"{SIGNALS}/{call.name}"
        if result.ok:
            fields["bytes"] = len(call.args[HOPS[call.name]].encode())
    has_text = kind in _TEXT and (result.ok or "stderr" in fields)
    if has_text:
        fields[_TEXT[kind]] = result.payload
    event = {"type": kind, "operation": call.id, "status": result.status}
    if result.ok:
        return event | fields
    if "path" in known and isinstance(call.args.get("path"), str):
        fields["path"] = call.args["path"]
    message = "; ".join(result.facts["notes"]) if has_text else result.payload.removeprefix(f"{call.name}: ")
    error = {"type": result.error_code, "message": message, "retriable": result.retriable, "hint": result.hint}
    return event | {"error": error} | fields


def said(text: str, by: str = "runtime") -> Event:
    """Words for the agent, by `pm` or `runtime`."""
    return {"type": "userMessage", "status": "ok", "text": text, "from": by}


def message_of(events: Sequence[Event]) -> str:
    """The runtime's message as text; without spaces, as it is sent again with each step."""
    plain = {"protocol": PROTOCOL, "events": events}
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace").decode()  # an id may hold half a character


def _words_of(text: str) -> Message:
    return Message("assistant", (Text(text or "…"),))
