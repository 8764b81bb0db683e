"""What an agent asks a person in its model's place (`provider: manual`), and the answer. The model door waits for it;
both lie in the keep's state (`infra/shared/manual.py`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from host.display import harmless
from host.errors import conflict, failure, not_running, try_again, usage
from host.paths import AgentPaths
from host.running.record import PODMAN, is_running, sandbox_in_use
from infra.shared.conversation import Block, Request, Text, ToolResult, ToolUse, request_from_dict
from infra.shared.files import write_whole
from infra.shared.manual import (
    ANSWER,
    FOLDER,
    MAX_ANSWER_BYTES,
    MAX_REQUEST_BYTES,
    REQUEST,
    SCHEMA,
    is_id,
    parse_answer,
    words_alone,
)
from infra.shared.safe_files import whole_file

LOOK_SECONDS = 0.25
SHOWN_CHARACTERS = 4000
"""Of one block; `--json` has it whole."""


class Question(NamedTuple):
    """One call of the model that waits for a person."""

    at: str
    id: str
    request: Request
    others: int = 0
    """So many more wait behind it."""


def oldest(home: AgentPaths, seconds: float = 0.0) -> Question:
    """The question that waits the longest; without one, it is waited for. Raises CommandError when there is none."""
    if sandbox_in_use(home) == PODMAN:
        raise usage(
            "this agent lives in the sealed container, where nobody is asked: the provider manual works in the process "
            "sandbox only"
        )
    deadline = time.monotonic() + seconds
    while not (found := sorted(_waiting(home), key=lambda each: each[:2])):
        if time.monotonic() >= deadline:
            if not is_running(home):
                raise not_running(f"agent {home.agent!r} is not running, so nobody asks; 'minifram up' starts it")
            raise try_again("nothing is asked at the moment; --wait waits for a question")
        time.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
    return found[0]._replace(others=len(found) - 1)


def answer(home: AgentPaths, question: Question, text: str, is_words: bool) -> None:
    """Hand the answer over; with `is_words`, nothing in it is an act. Raises CommandError for one that cannot be used,
    or that nothing waits for any more."""
    text = words_alone(text) if is_words else text
    try:
        parse_answer(text, question.request.tools)
        content = text.encode()
    except ValueError as error:
        raise usage(f"the answer cannot be used: {error}") from None
    if len(content) > MAX_ANSWER_BYTES:
        raise usage(f"the answer has {len(content):,} bytes; at most {MAX_ANSWER_BYTES:,}")
    place = f"{home.places.var}/{FOLDER}/{question.id}"
    nobody = conflict("nobody waits for this answer any more; 'minifram answer' shows what is asked now")
    if not os.path.lexists(place + REQUEST):
        raise nobody
    write_whole(place + ANSWER, content, mode=0o600)
    if not os.path.lexists(place + REQUEST):  # the door gave up meanwhile, or has taken the answer
        try:
            os.unlink(place + ANSWER)
        except FileNotFoundError:
            return
        raise nobody


def news(request: Request) -> Iterator[str]:
    """What has come since the model spoke last, a line or more for each block; then the tools."""
    turns = [place for place, message in enumerate(request.messages) if message.role == "assistant"]
    start = turns[-1] if turns else 0
    if start:
        yield f"… {start} messages before; --json shows all"
    for message in request.messages[start:]:
        yield from (harmless(_shown(message.role, block)) for block in message.content)
    names = [f"{tool.name}({', '.join(tool.input_schema.get('properties', ()))})" for tool in request.tools]
    operations = "none: answer with a list of operations ('minifram protocol guide'), or with words"
    yield harmless(f"tools: {', '.join(names) or operations}")


def _shown(role: str, block: Block) -> str:
    match block:
        case Text(text):
            head, text = role, text
        case ToolUse(_, name, given):
            head, text = f"{role} calls {name}", msgspec.json.encode(given).decode()
        case ToolResult(_, text, is_error):
            head = "failed" if is_error else "result"
    left = len(text) - SHOWN_CHARACTERS
    more = f"\n… {left:,} characters more; --json shows all" if left > 0 else ""
    return f"{head}: {text[:SHOWN_CHARACTERS]}{more}"


def _waiting(home: AgentPaths) -> Iterator[Question]:
    """Each question that has no answer yet."""
    folder = f"{home.places.var}/{FOLDER}"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in names:
        id = name.removesuffix(REQUEST)
        if id == name or not is_id(id) or os.path.lexists(f"{folder}/{id}{ANSWER}"):
            continue
        try:
            raw: Any = msgspec.json.decode(whole_file(f"{folder}/{name}", MAX_REQUEST_BYTES))
            if raw["schema"] != SCHEMA:
                raise ValueError(f"its schema is {raw['schema']!r}; expected {SCHEMA}")
            yield Question(str(raw["at"]), id, request_from_dict(raw["request"]))
        except FileNotFoundError:
            continue  # answered at this moment
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise failure(f"the question {folder}/{name} cannot be read: {error!r}") from None
