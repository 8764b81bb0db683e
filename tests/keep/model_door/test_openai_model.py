"""What is OpenAI's own, and Ollama's: the parts of their formats that the others have not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.model_door import chat_stream, ollama, ollama_stream, responses_stream
from infra.keep.model_door.chat import body
from infra.keep.model_door.errors import BrokenReply, ProviderError, type_of_failure
from infra.keep.model_door.streaming import StreamedReply, most_usage, refusal
from infra.keep.model_door.tool_calls import ID_LENGTH
from infra.shared.conversation import (
    END_TURN,
    REFUSAL,
    TOOL_USE,
    Completion,
    Message,
    Request,
    Text,
    ToolResult,
    ToolUse,
    Usage,
)
from tests.keep.model_door.conversations import requests
from tests.keep.model_door.dialects import Called, Chat, Counted, Dialect, Ollama, Responses
from tests.keep.model_door.doors import KEY, ROOT, DoorProcess, a_request
from tests.keep.model_door.peer import Answer, Peer

MOST = Usage(1000, 100)


def hear(*lines: dict[str, Any] | bytes) -> chat_stream.ChatReply:
    reply = chat_stream.ChatReply("m", MOST)
    for line in lines:
        reply.take(line if isinstance(line, bytes) else b"data: " + json.dumps(line).encode())
    return reply


def choice(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def part(id: str | None = None, name: str | None = None, arguments: str = "", index: int = 0) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def said(*lines: dict[str, Any] | bytes) -> Completion:
    return hear(*lines, b"data: [DONE]").completion(frozenset())


def test_a_server_that_ends_calls_with_stop_is_understood() -> None:
    """Some do; and some say id and name again with each piece."""
    end = said(
        choice(tool_calls=[part("a", "bash", '{"command":')]),
        choice(tool_calls=[part("a", "bash", ' "ls"}')]),
        choice("stop"),
    )

    assert (end.content, end.stop_reason) == ((ToolUse("a", "bash", {"command": "ls"}),), TOOL_USE)
    with pytest.raises(BrokenReply, match="is 'a' and then 'b'"):
        hear(choice(tool_calls=[part("a", "bash")]), choice(tool_calls=[part("b")]))


def test_a_refusal_is_told_as_one() -> None:
    """In a field of its own, or by the filter; its words are kept."""
    assert said(choice(refusal="I will not."), choice("stop")).stop_reason == REFUSAL
    assert said(choice(content="So"), choice("content_filter")) == Completion((Text("So"),), REFUSAL, "m", MOST)


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, 2)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(6, 2, 0, 4),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 11}}, None),
        (None, None),
    ],
)
def test_cached_tokens_are_counted_apart(told: dict[str, Any] | None, usage: Usage | None) -> None:
    """They stand within the prompt's; figures that contradict each other are none."""
    assert hear(choice("stop"), {"choices": [], "usage": told}).usage == usage


def test_usage_is_believed_behind_the_reason_alone() -> None:
    """Some servers count with each chunk: broken off, the first count is too little; at the end the last one holds."""
    first, last = ({"prompt_tokens": 10, "completion_tokens": count} for count in (1, 50))

    broken = hear({**choice(content="So"), "usage": first})
    assert (broken.usage, broken.measured, broken.told) == (None, False, Usage(10, 1))
    assert (broken.shown_bytes, broken.hides) == (2, False)
    whole = hear({**choice(content="So"), "usage": first}, {**choice("stop"), "usage": last})
    assert (whole.usage, whole.measured) == (Usage(10, 50), True)


@pytest.mark.parametrize("told", [-1, 2**53 + 1, 10**30])
def test_a_count_that_none_can_be_is_damage(told: int) -> None:
    """Nobody after the door has to reckon with it."""
    with pytest.raises(BrokenReply):
        hear(choice("stop"), {"choices": [], "usage": {"prompt_tokens": told, "completion_tokens": 1}})


@pytest.mark.parametrize(
    "then", [choice("tool_calls"), choice(content="more"), choice(tool_calls=[part("b", "bash", "{}", index=1)])]
)
def test_nothing_comes_behind_the_reason(then: dict[str, Any]) -> None:
    """A call that was cut is not let through because another reason comes after it; the same one may come twice."""
    cut = (choice(tool_calls=[part("a", "bash", '{"command": "rm -rf build"}')]), choice("length"))

    assert said(*cut, choice("length", content="")).content == ()
    with pytest.raises(BrokenReply, match=r"finish_reason 'length'|finish_reason is 'length' and then"):
        said(*cut, then)


@pytest.mark.parametrize(
    ("status", "code", "type", "words", "found"),
    [
        (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota", "budget_exhausted"),
        (429, "rate_limit_exceeded", "tokens", "Rate limit reached", "rate_limited"),
        (400, "context_length_exceeded", "invalid_request_error", "too much", "context_overflow"),
        (404, "model_not_found", "invalid_request_error", "no", "invalid_request"),
        (200, None, "server_error", "oops", "provider_error"),
        (200, "rate_limit_exceeded", None, "slow", "rate_limited"),
        (418, None, None, "", "invalid_request"),
    ],
)
def test_errors_by_their_code(status: int, code: str | None, type: str | None, words: str, found: str) -> None:
    """The code tells more than the type."""
    assert type_of_failure(status, tuple(filter(None, (code, type))), words) == found


@pytest.mark.parametrize("around", ['{"error": %s}', "%s"])
def test_an_error_is_read_with_and_without_a_frame(around: str) -> None:
    """Some servers say the error itself, without `error` around it."""
    told = '{"object": "error", "message": "over the maximum context length", "type": "BadRequestError", "code": 400}'
    found = refusal(400, {}, (around % told).encode())

    assert found.message == "over the maximum context length"
    assert type_of_failure(found.status, found.names, found.message) == "context_overflow"


@pytest.mark.parametrize(
    ("model", "effort"),
    [("gpt-6.1-terra", "none"), ("gpt-5.6-luna", "none"), ("gpt-5.4", "none"), ("gpt-5-mini", None), ("qwen3", None)],
)
def test_models_that_take_no_tools_while_they_reason_are_told_not_to(model: str, effort: str | None) -> None:
    """With tools alone; other servers may not know the word."""
    assert body(a_request(), model, 9).get("reasoning_effort") == effort
    assert "reasoning_effort" not in body(a_request()._replace(tools=()), model, 9)


def test_calls_of_another_provider_get_ids_that_openai_takes() -> None:
    """The same for the call and its result."""
    use = ToolUse("functions.bash:0/" + "x" * 100, "bash", {})
    made = body(a_request(messages=(Message("assistant", (use,)), Message("user", (ToolResult(use.id, "y"),)))), "m", 9)

    id = made["messages"][2]["tool_calls"][0]["id"]
    assert made["messages"][3]["tool_call_id"] == id
    assert len(id) <= ID_LENGTH


@given(requests)
def test_any_conversation_can_be_sent_and_is_bounded(request: Request) -> None:
    """As JSON, with more bytes reserved than there are in its texts."""
    text = "".join(block.text for message in request.messages for block in message.content if isinstance(block, Text))
    for made in (body(request, "m", 1), ollama.body(request, "m", 1, None)):
        json.dumps(made)
        assert most_usage(made, 1).input_tokens > len(text.strip().encode())


def test_ollama_is_told_the_tool_of_each_result_and_to_cut_nothing() -> None:
    """Its models know results by the tool's name; a conversation that is too long is an error, not a shorter one."""
    messages = (Message("assistant", (ToolUse("a", "bash", {}),)), Message("user", (ToolResult("a", "y"),)))
    made = ollama.body(a_request(messages=messages), "m", 9, 4096)

    assert made["messages"][3]["tool_name"] == "bash"
    assert made["options"] == {"num_predict": 9, "num_ctx": 4096}
    assert (made["truncate"], made["shift"]) == (False, False)
    assert "num_ctx" not in ollama.body(a_request(), "m", 9, None)["options"]


READERS: dict[Dialect, Callable[[], StreamedReply]] = {
    Responses(): lambda: responses_stream.ResponsesReply("m", MOST),
    Chat(): lambda: chat_stream.ChatReply("m", MOST),
    Ollama(): lambda: ollama_stream.OllamaReply("m", MOST),
}
GOOD = {
    dialect: b"".join(dialect.reply(("Hello.",), (Called("a"), Called("b")), counted=Counted())) for dialect in READERS
}


@given(
    st.sampled_from(list(READERS)),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 6), st.binary(max_size=6)), max_size=4),
)
def test_a_reply_with_any_damage_is_a_completion_or_broken(
    dialect: Dialect, damage: list[tuple[int, int, bytes]]
) -> None:
    """Bytes taken out or put in anywhere: never another exception, and never a call with other arguments than were
    sent unless they are whole."""
    raw = GOOD[dialect]
    for place, length, bytes_put in damage:
        raw = raw[: place % len(raw)] + bytes_put + raw[place % len(raw) + length :]
    reply = READERS[dialect]()
    try:
        for line in raw.split(b"\n"):
            reply.take(line)
        completion = reply.completion(frozenset())
    except (BrokenReply, ProviderError):
        return
    uses = [block for block in completion.content if isinstance(block, ToolUse)]
    assert (completion.stop_reason == TOOL_USE) == bool(uses)
    assert len({use.id for use in uses}) == len(uses)
    if not damage:
        assert len(uses) == 2


def test_nothing_of_the_environment_reaches_the_client(tmp_path: Path) -> None:
    """It would send elsewhere, through a proxy; the control shows that the library alone falls for it."""
    dialect = Chat()
    with (
        Peer(dialect.content_type, lambda body: Answer(dialect.reply(("hello",)))) as peer,
        Peer(dialect.content_type, lambda body: Answer(dialect.reply(("trap",)))) as trap,
    ):
        env = {
            "OPENAI_BASE_URL": trap.url,
            "OPENAI_API_KEY": "sk-from-the-environment",
            "OPENAI_ADMIN_KEY": "sk-admin-from-the-environment",
            "OPENAI_ORG_ID": "org-from-the-environment",
            "OPENAI_PROJECT_ID": "project-from-the-environment",
            "OPENAI_CUSTOM_HEADERS": "x-smuggled: yes",
            "OPENAI_LOG": "debug",
            "http_proxy": trap.url,
            "ALL_PROXY": trap.url,
        }
        model = {"provider": "openai", "base_url": peer.url}
        with DoorProcess(tmp_path, {"model": model}, KEY, "openai_api_key", **env) as door:
            end = door.complete(a_request("words-of-the-conversation"))
            line = door.ledger()[-1]
            log = door.log()
        assert trap.requests == []
        control = subprocess.run(
            [sys.executable, "-c", CONTROL], env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)} | env, check=False,
            capture_output=True, timeout=60,
        )  # fmt: skip
        assert trap.requests, control.stderr

    sent = peer.requests[0]
    assert (end.content, end.stop_reason) == ((Text("hello"),), END_TURN)
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert "from-the-environment" not in json.dumps(sent.headers) + log
    assert "x-smuggled" not in sent.headers
    assert "words-of-the-conversation" not in log
    assert KEY not in log
    assert (line["input_tokens"], line["output_tokens"], line["measured"]) == (100, 20, True)
    assert line["usd"] == pytest.approx((100 * 1 + 20 * 5) / 1e6)


CONTROL = """
import httpx2
httpx2.post("http://provider.invalid/", json={})
"""
