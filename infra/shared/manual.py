"""A person in the model's place (`provider: manual`): the conversation lies as a file in the keep's state until the
answer lies beside it. What both sides have to agree on, the model door and `minifram answer`; pure.

`<state>/manual/<id>.request.json` holds `{"schema", "id", "at", "request"}`, `<id>.answer` the text of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from infra.shared.conversation import Text, ToolSpec, ToolUse
from infra.shared.protocol.calls import NamedCall, call_of
from infra.shared.protocol.framing import Framed, NotTaken, Words, frame
from infra.shared.protocol.json_text import Doubled
from infra.shared.protocol.read import Requested, form, read
from infra.shared.protocol.shapes import MOST_OPERATIONS, Operation, RefusedOperation

SCHEMA = "minifram.manual/1"
FOLDER = "manual"
REQUEST, ANSWER = ".request.json", ".answer"
MAX_REQUEST_BYTES = 64 * 1024 * 1024
MAX_ANSWER_BYTES = 8 * 1024 * 1024
_ID = re.compile(r"[0-9a-f]{32}")


def is_id(word: str) -> bool:
    return _ID.fullmatch(word) is not None


class Answer(NamedTuple):
    text: str
    calls: tuple[NamedCall, ...] = ()

    def content(self, id: str) -> tuple[Text | ToolUse, ...]:
        """As blocks of a completion; `id` tells this answer's calls from all others."""
        made: list[Text | ToolUse] = [Text(self.text)] if self.text else []
        return (*made, *(ToolUse(f"manual-{id[:12]}-{n}", name, given) for n, (name, given) in enumerate(self.calls)))


def words_alone(text: str) -> str:
    """An answer that says this, whatever it looks like."""
    return json.dumps([{"type": "message", "text": text}])


def parse_answer(text: str, tools: Iterable[ToolSpec]) -> Answer:
    """An answer as a person writes it: operations of the protocol, or calls of tools, `{"name": …, "input": {…}}`; one
    or a list, with words beside it. Where the model has no tools the runner reads the operations, and the text stays
    whole. Raises ValueError that says what was expected."""
    known = {tool.name: tool for tool in tools}
    framed = frame(text, cut=False)
    if known and isinstance(framed, Framed) and (calls := _calls(framed.value)):
        return _checked(Answer(framed.prose, calls), known)
    match read(text):
        case NotTaken(_, found):
            raise ValueError(f"{found}; --words sends it as words")
        case Words(words):
            line = next((line for line in words.split("\n") if line.startswith(("{", "[{"))), "")
            if line:
                raise ValueError(f"{line[:100]!r} is no operation, such as {form('shell')}; --words sends it as words")
            return Answer(words.strip())
        case Requested(items, prose):
            refused = next((item for item in items if isinstance(item, RefusedOperation)), None)
            if refused:
                raise ValueError(f"operation {refused.id}: {refused.error.message}; {refused.error.hint}")
            if not known:
                return Answer(text.strip())
            asked = [item for item in items if isinstance(item, Operation)]
            said = "\n\n".join(item.fields["text"] for item in asked if item.type == "message").strip()
            acts = tuple(call_of(item) for item in asked if item.type != "message")
            return _checked(Answer(said or prose, acts), known)


def _calls(value: Any) -> tuple[NamedCall, ...]:
    """Empty for what is no list of calls of tools."""
    each = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) and "name" in one and "type" not in one for one in each):
        return ()
    if len(each) > MOST_OPERATIONS:
        raise ValueError(f"the answer has {len(each)} calls; expected at most {MOST_OPERATIONS}")
    for one in each:
        if one.keys() != {"name", "input"} or isinstance(one, Doubled) or not isinstance(one["input"], dict):
            raise ValueError('a call has exactly the keys "name" and "input", and its input is an object')
    return tuple(NamedCall(str(one["name"]), one["input"]) for one in each)


def _checked(answer: Answer, known: Mapping[str, ToolSpec]) -> Answer:
    """Looks at the names alone; the tool itself checks the values."""
    if not answer.text and not answer.calls:
        raise ValueError(f"the answer is empty; expected words, or an operation such as {form('shell')}")
    for name, given in answer.calls:
        if name not in known:
            raise ValueError(f"no such tool: {name!r}; the tools are {', '.join(known)}")
        problem = _problem_with_input(known[name], given)
        if problem:
            raise ValueError(problem)
    return answer


def _problem_with_input(tool: ToolSpec, given: Mapping[str, Any]) -> str | None:
    properties, required = tool.input_schema.get("properties"), tool.input_schema.get("required")
    if not isinstance(properties, dict):
        return None
    missing = [name for name in required if name not in given] if isinstance(required, list) else []
    unknown = [name for name in given if name not in properties]
    takes = f"{tool.name} takes {', '.join(properties) or 'nothing'}"
    if missing:
        return f"argument {missing[0]} is missing; {takes}"
    if unknown and tool.input_schema.get("additionalProperties") is False:
        return f"unknown argument {unknown[0]!r}; {takes}"
    return None
