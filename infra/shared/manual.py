"""A person in the model's place (`provider: manual`): the conversation lies as a file in the keep's state until the
answer lies beside it. What both sides have to agree on, the model door and `minifram answer`; pure.

`<state>/manual/<id>.request.json` holds `{"schema", "id", "at", "request"}`, `<id>.answer` the text of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from infra.shared.conversation import Text, ToolSpec, ToolUse
from infra.shared.depth import MAX_LEVELS, is_too_deep

SCHEMA = "minifram.manual/1"
FOLDER = "manual"
REQUEST, ANSWER = ".request.json", ".answer"
MAX_REQUEST_BYTES = 64 * 1024 * 1024
MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_CALLS = 100
_ID = re.compile(r"[0-9a-f]{32}")


def is_id(word: str) -> bool:
    return _ID.fullmatch(word) is not None


class Answer(NamedTuple):
    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Name and arguments of each."""

    def content(self, id: str) -> tuple[Text | ToolUse, ...]:
        """As blocks of a completion; `id` tells this answer's calls from all others."""
        made: list[Text | ToolUse] = [Text(self.text)] if self.text else []
        return (*made, *(ToolUse(f"manual-{id[:12]}-{n}", name, given) for n, (name, given) in enumerate(self.calls)))


def parse_answer(text: str, tools: Iterable[ToolSpec]) -> Answer:
    """An answer as a person writes it: lines that begin with `{` are tool calls, each `{"name": …, "input": {…}}`, all
    others are words, white space in front of a `{` as well. Without tools the whole is text, in which the runner finds
    operations. Raises ValueError that names the line and what was expected."""
    known = {tool.name: tool for tool in tools}
    if not known and text.strip():
        return Answer(text.strip())
    words: list[str] = []
    calls: list[tuple[str, dict[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("{"):
            try:
                calls.append(_call(line, known))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from None
        else:
            words.append(line)
    said = "\n".join(words).strip()
    if len(calls) > MAX_CALLS:
        raise ValueError(f"the answer has {len(calls)} tool calls; at most {MAX_CALLS}")
    if not said and not calls:
        raise ValueError('the answer is empty; expected words, or a tool call such as {"name": "bash", "input": {…}}')
    return Answer(said, tuple(calls))


def _call(line: str, known: dict[str, ToolSpec]) -> tuple[str, dict[str, Any]]:
    try:
        raw = json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        raise ValueError(
            f"it begins with {{ and is not JSON ({error}); a tool call is one line, such as "
            '{"name": "bash", "input": {"command": "ls"}}'
        ) from None
    if not isinstance(raw, dict) or raw.keys() != {"name", "input"} or not isinstance(raw["input"], dict):
        raise ValueError('a tool call has exactly the keys "name" and "input", and its input is an object')
    name, given = raw["name"], raw["input"]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"no such tool: {name!r}; the tools are {', '.join(known) or 'none'}")
    if is_too_deep(given):
        raise ValueError(f"the input of {name} is nested over {MAX_LEVELS} levels deep")
    problem = _problem_with_input(known[name], given)
    if problem:
        raise ValueError(problem)
    return name, given


def _problem_with_input(tool: ToolSpec, given: dict[str, Any]) -> str | None:
    """Checks only the names; the tool itself checks the values."""
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


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
