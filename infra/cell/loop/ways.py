"""How a model says what is to be done, and how it is told what came of it: by calls of tools, or by lists of operations
in plain text. Both become the same calls; the loop knows of no difference.

A way keeps count of replies that it could not take. It sees every reply of a run from the first, so that a run that is
played again stands where it stood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from infra.cell.actions import AssistantAction, Respond, ToolCall, ToolCalls, ToolResult
from infra.cell.loop.images import shown_by
from infra.cell.loop.operations import calls_of, event_of, message_of, said
from infra.cell.protocol.operations import MESSAGE
from infra.cell.protocol.read import NotTaken, Requested, Words, has_call, means_operations, read
from infra.cell.run_states import StopReason
from infra.shared import conversation
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import END_TURN, MAX_TOKENS, REFUSAL, TOOL_USE, Block, Completion, Message, Text, ToolUse

BROKEN_REPLIES = 3
"""In a row: so many cut or senseless replies end the run."""
SAME_REPLIES, OTHER_REPLIES = 4, 6
"""In a row, not taken: so many for the same reason, or for any, end the run."""
MOST_OTHER_WORDS = 2
"""Where nothing was carried out: so many replies in other words than those that were asked about end the run."""
NOT_A_WORD = 20
"""An answer to the question whether that was the report is none itself when it has fewer characters."""

CUT = (
    "Your last reply was cut at the limit of tokens for one reply, so none of its tool calls was run. Continue in "
    "smaller pieces: write long files in parts, one call at a time."
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
AGAIN = (
    "The same mistake for the {count}rd time: {found}. Nothing was carried out, and the next such reply ends this run. "
    'Send exactly one line, and see that it works: [{{"type": "shell", "command": "pwd"}}]'
)
IS_IT_THE_REPORT = (
    "Your reply asks for no act. Was that your report to the PM? Then answer []. If work is left, go on with a list of "
    "operations. A better report may be sent instead of []."
)
WORDS_ALONE = (
    "Your reply holds no list of operations, so nothing was done. If work is left, answer with one JSON list, such as "
    '[{"type": "shell", "command": "…"}]. If that was your report to the PM, answer [].'
)


NOTHING_WAS_DONE = "(No operation was carried out in this run.)"


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
        if self._broken == BROKEN_REPLIES:
            return Respond(text, StopReason.INVALID_REPLIES if is_list else StopReason.MAX_TOKENS)
        return Respond(text, advice=CUT if stop_reason == MAX_TOKENS else NOT_A_REPORT if is_list else SENSELESS)

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
        self._report: str | None = None
        """What may be the report, once it was asked whether it is."""
        self._problems: list[str] = []
        """Of the replies since the last act, but for words: none of them was taken."""
        self._is_undone = False
        """The last thing that was asked for was not done, or failed."""
        self._has_acted = False
        self._other_words = 0

    def asked(self, completion: Completion) -> Asked:
        text = _text(completion)
        return Asked(self._action(completion.stop_reason, text), _words_of(text))

    def _action(self, stop_reason: str, text: str) -> AssistantAction:
        if stop_reason == REFUSAL:
            return Respond(text, StopReason.REFUSAL)
        match read(text, cut=stop_reason == MAX_TOKENS):
            case Requested(items, prose) if calls := calls_of(items):
                self._report, self._problems = None, []
                return ToolCalls(calls, _messages(items) or prose)
            case Requested(items, prose):
                return self._may_end(_messages(items) or prose, IS_IT_THE_REPORT)
            case Words(words):
                return self._may_end(words, WORDS_ALONE, self._is_undone)
            case NotTaken(found):
                return self._not_taken(text, found, stop_reason == MAX_TOKENS)

    def _may_end(self, text: str, question: str, may_not: bool = False) -> Respond:
        """Words without an act are asked about once, and are the report after that."""
        if self._report is None:
            if not text:
                return self._not_taken(text, "the list is empty, and nothing was reported", False)
            self._report = text
            return Respond(text, advice=question)
        better = self._report if len(text.strip()) < NOT_A_WORD else text
        if may_not:
            return Respond(better, StopReason.INVALID_REPLIES)
        if not self._has_acted and better != self._report:  # words of progress, where there is none
            self._report, self._other_words = text, self._other_words + 1
            is_over = self._other_words == MOST_OTHER_WORDS
            return Respond(text, StopReason.INVALID_REPLIES) if is_over else Respond(text, advice=question)
        # A report may claim what was never done: what was done is known here.
        return Respond(better if self._has_acted else f"{better}\n\n{NOTHING_WAS_DONE}")

    def _not_taken(self, text: str, found: str, was_cut: bool) -> Respond:
        self._report, self._is_undone = None, True
        self._problems.append(found)
        same = next((n for n, each in enumerate(reversed(self._problems)) if each != found), len(self._problems))
        if was_cut and same == BROKEN_REPLIES:
            return Respond(text, StopReason.MAX_TOKENS)
        if same == SAME_REPLIES:
            return Respond(text, StopReason.NO_OP_LOOP)
        if len(self._problems) == OTHER_REPLIES:
            return Respond(text, StopReason.INVALID_REPLIES)
        words = AGAIN if same == SAME_REPLIES - 1 else WRONG_FORM
        return Respond(text, advice=words.format(found=found, count=same))

    def answer(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], own: str, steered: str
    ) -> tuple[Block, ...]:
        events = [event_of(call, result) for call, result in zip(calls, results, strict=True)]
        self._is_undone = not all(result.ok for result in results) if calls else self._is_undone
        self._has_acted = self._has_acted or any(result.ok for result in results)
        events += [said(own)] if own else []
        news = news_of(steered)
        events += [said(words, by) for words, by in ((news.pm, "pm"), (news.runtime, "runtime")) if words]
        return (Text(message_of(events)), *(image for result in results for image in shown_by(result.facts)))


WAYS: Mapping[str, Callable[[], Way]] = {TOOLS: ByTools, OPERATIONS: ByOperations}


def asks_for_acts(text: str) -> bool:
    """Whether words of a model that has tools hold acts in another form: a list of operations, or a call as text."""
    match read(text):
        case Requested(items):
            return has_call(text) or any(item.args.get("type") != "userMessage" for item in items)
        case NotTaken():
            return means_operations(text)
    return False


def _text(completion: Completion) -> str:
    return "\n\n".join(block.text for block in completion.content if isinstance(block, Text)).strip()


def _words_of(text: str) -> Message:
    return Message("assistant", (Text(text or "…"),))


def _messages(items: Sequence[ToolCall]) -> str:
    return "\n\n".join(item.args["text"] for item in items if item.name == MESSAGE).strip()
