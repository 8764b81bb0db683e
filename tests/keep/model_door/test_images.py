"""Images in a conversation: how each provider gets them, what is reserved for them, and questions about one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from infra.cell.doors import ModelFailure
from infra.keep.ledger.prices import most_image_tokens
from infra.shared.conversation import Image, Message, Text, ToolResult, ToolUse, Usage
from tests.keep.model_door.dialects import Anthropic, Chat, Dialect, Ollama, Responses
from tests.keep.model_door.doors import KEY, DoorProcess, a_request
from tests.keep.model_door.peer import Answer as Sent
from tests.keep.model_door.peer import Peer
from tests.keep.model_door.test_conformance import ask, every_dialect, requested
from tests.keep.model_door.wire import Counts

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
DOT = Image("image/png", base64.b64encode(PNG).decode())
LARGE = Image("image/png", base64.b64encode(PNG + b"\0" * 3_000_000).decode())


def images_in(value: Any) -> list[Any]:
    """Everything in a request that holds the image's data, innermost."""
    if isinstance(value, str):
        return [value] if DOT.data in value else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for each in inner for found in images_in(each)]


SHOWN = (
    Message("assistant", (ToolUse("call_1", "read_file", {"path": "dot.png"}),)),
    Message("user", (ToolResult("call_1", "dot.png", images=(DOT,)), Text("See?"), DOT)),
)


@every_dialect
def test_images_reach_the_provider_in_its_form(dialect: Dialect) -> None:
    """One of a user's message and one of a result, which follows it where results can hold none."""
    body = requested(dialect, a_request(messages=SHOWN)).body
    assert len(images_in(body)) == 2
    last: dict[str, Any] = (body["input"] if "input" in body else body["messages"])[-1]
    url = f"data:image/png;base64,{DOT.data}"
    source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT.data}}
    match dialect:
        case Anthropic():
            result, text, image = last["content"]
            assert result["content"] == [{"type": "text", "text": "dot.png"}, source]
            assert (text["text"], {**image, "cache_control": 0}) == ("See?", {**source, "cache_control": 0})
        case Responses():
            seen: dict[str, Any] = {"type": "input_image", "detail": "auto", "image_url": url}
            assert body["input"][-2]["output"] == "dot.png"
            words = [{"type": "input_text", "text": said} for said in ("Shown by the call call_1:", "See?")]
            assert last["content"] == [words[0], seen, seen, words[1]]
        case Chat():
            seen = {"type": "image_url", "image_url": {"url": url}}
            assert body["messages"][-2]["content"] == "dot.png"
            words = [{"type": "text", "text": said} for said in ("Shown by the call call_1:", "See?")]
            assert last["content"] == [words[0], seen, seen, words[1]]
        case Ollama():
            assert body["messages"][-2]["content"] == "dot.png"
            assert last["images"] == [DOT.data] * 2
            assert last["content"] == "Shown by the call call_1:\n\nSee?"


@every_dialect
def test_a_model_that_sees_nothing_is_told_what_there_was(dialect: Dialect) -> None:
    """Kind and size, no data."""
    body = requested(dialect, a_request(messages=SHOWN), sees=False).body
    said, words = json.dumps(body), f"[image: image/png, {len(PNG)} bytes]"
    assert f"dot.png\\n{words}" in said
    assert said.count(words) == 2
    assert images_in(body) == []


@every_dialect
def test_an_image_is_reserved_by_what_it_can_cost_and_not_by_its_bytes(dialect: Dialect) -> None:
    """Four megabytes are no four million tokens; and a small count behind them is a count."""
    model, large = dialect.model(), a_request(messages=(Message("user", (LARGE,)),))
    more = model.prepare(large).most.input_tokens - model.prepare(a_request()).most.input_tokens
    most = most_image_tokens("any other model")
    assert most <= more <= most + 1000
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("ok",), counted=Counts(1600, 2)))) as peer:
        answer = ask(dialect, peer.url, large)
    assert (answer.measured, answer.completion.usage) == (True, Usage(1600, 2))


def test_a_model_that_counts_images_as_more_has_more_reserved() -> None:
    """gpt-4o-mini: eight tiles at most, 2,833 + 8 * 5,667 tokens."""
    model = Chat().model()
    model.name = "gpt-4o-mini-2024-07-18"
    reserved = model.prepare(a_request(messages=(Message("user", (DOT,)),))).most
    assert reserved.input_tokens > 2_833 + 8 * 5_667


def test_a_question_about_an_image_is_a_call_like_any_other(tmp_path: Path) -> None:
    """Reserved and settled under the run's name; answered by words, their cost, and how they ended."""
    dialect = Responses()
    replies = iter(("completed", "max_output_tokens", "content_filter"))
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("A dot.",), reason=next(replies)))) as peer:
        model = {"provider": "openai", "base_url": peer.url, "api": "responses"}
        with DoorProcess(tmp_path, {"model": model}, KEY) as door:
            said = door.model.vision(PNG, "What is it?", 10.0, "run-7")
            opened, settled = door.ledger()
            assert (said.text, said.usd) == ("A dot.", settled["usd"])
            assert [door.model.vision(PNG, "?").stop_reason for _ in range(2)] == ["max_tokens", "refusal"]
    (item,) = peer.requests[0].body["input"]
    assert [part["type"] for part in item["content"]] == ["input_image", "input_text"]
    assert (opened["run"], settled["id"]) == ("run-7", opened["id"])


def test_the_next_model_is_asked_when_the_first_sees_nothing(tmp_path: Path) -> None:
    """Without a try of the first, which never will; and when none does, that is what is told, at no cost."""
    dialect = Chat()
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("A dot.",)))) as peer:
        seeing = {"provider": "openai", "base_url": peer.url, "api": "chat"}
        settings = {"model": {"provider": "scripted", "then": [seeing]}}
        with DoorProcess(tmp_path / "two", settings, KEY) as door:
            assert door.model.vision(PNG, "What is it?").text == "A dot."
            assert [line["provider"] for line in door.ledger()] == ["openai"] * 2
        ghost = {"web": {"ghost": {"vision_provider": "anthropic"}}}
        with (
            DoorProcess(tmp_path / "other", settings | ghost, KEY) as door,
            pytest.raises(ModelFailure, match=r"or is of anthropic \(web\.ghost\.vision_provider\)"),
        ):
            door.model.vision(PNG, "What is it?")
        with DoorProcess(tmp_path / "none", {"model": {"provider": "ollama", "base_url": peer.url}}) as door:
            with pytest.raises(ModelFailure, match="ollama qwen3 takes no images") as caught:
                door.model.vision(PNG, "What is it?")
            assert (caught.value.type, door.ledger()) == ("tool_unavailable", [])
            with pytest.raises(ModelFailure, match="no image that models take"):
                door.model.vision(b"<svg>", "What is it?")
    assert len(peer.requests) == 1
