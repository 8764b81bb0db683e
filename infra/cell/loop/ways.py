"""How a model says what is to be done, and how it is told what came of it: by calls of tools, or by lists of operations
in plain text. Both become the same calls; the loop knows of no difference.

A way keeps count of replies that it could not take. It sees every reply of a run from the first, so that a run that is
played again stands where it stood."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from infra.cell.actions import AssistantAction, Respond, ToolCall, ToolCalls, ToolResult
from infra.cell.loop.images import shown_by
from infra.cell.protocol.operations import (
    EVENTS,
    HOPS,
    MESSAGE,
    PROTOCOL,
    SIGNALS,
    TYPES,
    Event,
    OperationError,
    UserMessage,
)
from infra.cell.protocol.read import NotTaken, Requested, has_call, means_operations, read
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import REFUSED
from infra.shared import conversation
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import END_TURN, MAX_TOKENS, REFUSAL, TOOL_USE, Block, Completion, Message, Text, ToolUse

BROKEN_REPLIES = 4
"""In a row: so many replies that were not taken end the run."""
NOT_A_WORD = 20
"""An answer to the question whether that was the report is none itself when it has fewer characters."""
CUT = (
    "Your last reply was cut at the limit of tokens for one reply, so nothing of it was done. Continue in smaller "
    "pieces: write long files in parts, one act at a time."
)
SENSELESS = "Your last reply ended for a tool call, but held none, or several with one id; nothing was run. Try again."
NOT_A_REPORT = (
    "Your reply asks for acts in its text; nothing of it was done, and it was not taken for your report. Act by "
    "calling your tools. If it was your report, send it again in words, without the list."
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


class News(str):
    """Words for the model that are not the loop's own, and who says them: the PM, the runtime, or the one and then the
    other."""

    pm: str
    runtime: str

    def __new__(cls, pm: str | None = "", runtime: str | None = "") -> News:
        made = super().__new__(cls, "\n\n".join(filter(None, (pm, runtime))))
        made.pm, made.runtime = pm or "", runtime or ""
        return made


def news_of(*words: str | None) -> News:
    """All of them as one; a plain text is the runtime's."""
    each = [one if isinstance(one, News) else News(runtime=one) for one in words]
    return News(
        *("\n\n".join(filter(None, said)) for said in zip(*((one.pm, one.runtime) for one in each), strict=True))
    )


class Asked(NamedTuple):
    """What a reply of the model asks for."""

    action: AssistantAction
    said: Message
    """The reply as the conversation holds it."""


class Way(Protocol):
    def asked(self, completion: Completion) -> Asked: ...

    def answer(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], own: str, steered: str
    ) -> tuple[Block, ...]:
        """The next message to the model: what became of the calls, the runtime's own words, and other news (`News`, or
        a text of the runtime's)."""
        ...


class ByTools:
    """The provider's calls of tools."""

    def __init__(self) -> None:
        self._broken = 0

    def asked(self, completion: Completion) -> Asked:
        text = _text(completion)
        calls = tuple(
            ToolCall(block.id, block.name, block.input) for block in completion.content if isinstance(block, ToolUse)
        )
        if completion.stop_reason == TOOL_USE and 0 < len({call.id for call in calls}) == len(calls):
            self._broken = 0
            return Asked(ToolCalls(calls, text), Message("assistant", completion.content))
        return Asked(self._words(completion.stop_reason, text), _words_of(text))

    def _words(self, stop_reason: str, text: str) -> Respond:
        if stop_reason == REFUSAL:
            return Respond(text, StopReason.REFUSAL)
        is_list = stop_reason == END_TURN and asks_for_acts(text)
        if stop_reason == END_TURN and not is_list:
            return Respond(text)
        self._broken += 1
        advice = CUT if stop_reason == MAX_TOKENS else NOT_A_REPORT if is_list else SENSELESS
        return _not_taken(text, advice, self._broken, stop_reason == MAX_TOKENS)

    def answer(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], own: str, steered: str
    ) -> tuple[Block, ...]:
        told = (
            conversation.ToolResult(call.id, result.shown, not result.ok, shown_by(result.facts))
            for call, result in zip(calls, results, strict=True)
        )
        words = "\n\n".join(filter(None, (own, steered)))
        return (*told, *((Text(words),) if words else ()))


class ByOperations:
    """Lists of operations in plain text."""

    def __init__(self) -> None:
        self._broken = 0
        self._report = ""
        """What may be the report, once it was asked whether it is."""
        self._has_acted = False

    def asked(self, completion: Completion) -> Asked:
        text = _text(completion)
        return Asked(self._action(completion.stop_reason, text), _words_of(text))

    def _action(self, stop_reason: str, text: str) -> AssistantAction:
        if stop_reason == REFUSAL:
            return Respond(text, StopReason.REFUSAL)
        match read(text, cut=stop_reason == MAX_TOKENS):
            case Requested(items, prose):
                text = "\n\n".join(item.args["text"] for item in items if item.name == MESSAGE).strip() or prose
                if calls := tuple(item for item in items if item.name != MESSAGE):
                    self._report, self._broken = "", 0
                    return ToolCalls(calls, text)
            case NotTaken(found):
                self._report, self._broken = "", self._broken + 1
                advice = CUT if stop_reason == MAX_TOKENS else WRONG_FORM.format(found=found)
                return _not_taken(text, advice, self._broken, stop_reason == MAX_TOKENS)
        is_answer = len(text.strip()) < NOT_A_WORD
        if self._report and (is_answer or self._has_acted or text == self._report):
            report = self._report if is_answer else text
            # A report may claim what was never done: what was done is known here.
            return Respond(report if self._has_acted else f"{report}\n\n{NOTHING_WAS_DONE}")
        self._report, self._broken = text, self._broken + 1
        return _not_taken(text, IS_IT_THE_REPORT, self._broken, False)

    def answer(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], own: str, steered: str
    ) -> tuple[Block, ...]:
        self._has_acted = self._has_acted or any(result.ok for result in results)
        events = [event_of(call, result) for call, result in zip(calls, results, strict=True)]
        news = news_of(steered)
        said_ = ((own, "runtime"), (news.pm, "pm"), (news.runtime, "runtime"))
        events += [said(words, by) for words, by in said_ if words]
        return (Text(message_of(events)), *(image for result in results for image in shown_by(result.facts)))


WAYS: Mapping[str, Callable[[], Way]] = {TOOLS: ByTools, OPERATIONS: ByOperations}


def _not_taken(text: str, advice: str, count: int, was_cut: bool) -> Respond:
    """The model is told why, as long as it is not the same over and over."""
    if count < BROKEN_REPLIES:
        return Respond(text, advice=advice)
    return Respond(text, StopReason.MAX_TOKENS if was_cut else StopReason.INVALID_REPLIES)


def asks_for_acts(text: str) -> bool:
    """Whether words of a model that has tools hold acts in another form: a list of operations, or a call as text."""
    match read(text):
        case Requested(items):
            return has_call(text) or any(item.args.get("type") != "userMessage" for item in items)
        case NotTaken():
            return means_operations(text)
    return False


def event_of(call: ToolCall, result: ToolResult) -> Event:
    """What became of the operation that this call carries out."""
    kind = call.args["type"] if call.name == REFUSED else TYPES[call.name]
    known = EVENTS[kind].__struct_fields__
    fields: dict[str, Any] = {name: value for name, value in result.facts.items() if name in known}
    if call.name in HOPS:
        fields["path"] = f"{SIGNALS}/{call.name}"
        if result.ok:
            fields["bytes"] = len(call.args[HOPS[call.name]].encode())
    has_text = kind in _TEXT and (result.ok or "stderr" in fields)
    if has_text:
        fields[_TEXT[kind]] = result.payload
    if result.ok:
        return EVENTS[kind](**fields, operation=call.id, status="ok")
    if "path" in known and isinstance(call.args.get("path"), str):
        fields["path"] = call.args["path"]
    message = "; ".join(result.facts["notes"]) if has_text else result.payload.removeprefix(f"{call.name}: ")
    error: dict[str, Any] = {"type": result.error_code, "message": message, "hint": result.hint}
    fields |= {"status": result.status, "error": OperationError(**error, retriable=result.retriable)}
    return EVENTS[kind](**fields, operation=call.id)


def said(text: str, by: str = "runtime") -> Event:
    """Words for the agent, by `pm` or `runtime`."""
    return UserMessage(status="ok", text=text, by=by)


def message_of(events: Sequence[Event]) -> str:
    """The runtime's message as text; without spaces, as it is sent again with each step."""
    plain: dict[str, Any] = {"protocol": PROTOCOL, "events": [event.plain() for event in events]}
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # an id may hold half a character
        return json.dumps(plain)
    return text


def _text(completion: Completion) -> str:
    return "\n\n".join(block.text for block in completion.content if isinstance(block, Text)).strip()


def _words_of(text: str) -> Message:
    return Message("assistant", (Text(text or "…"),))
