"""What is one dialect's own in Anthropic's: marks, stop reasons, thoughts; and errors and addresses of all."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from infra.keep.model_door.errors import BrokenReply, refusal, retry_after_seconds, type_of_failure
from infra.keep.model_door.messages import MAX_MARKS, body, take, turn
from infra.keep.model_door.reply import StreamedReply
from infra.keep.model_door.thoughts import MAX_BYTES, Thoughts
from infra.keep.model_door.tool_calls import arguments_of
from infra.keep.settings.models import problem_with_base_url
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
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
from tests.keep.model_door.doors import a_request
from tests.keep.model_door.wire import Answer, Block, Counts, Event, Raw, Say, Use, events
from tests.shared.rows import each_row

# --- requests


def sent(request: Request, model: str, max_tokens: int, thoughts: Thoughts | None = None) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(body(request, model, max_tokens, thoughts or Thoughts()).content)
    return made


def test_the_cache_marks_stand_on_the_stable_prefixes() -> None:
    """The last tool, SYSTEM.md, the last system text, and the end of the last user message; four in all."""
    later = (Message("assistant", (Text("a"),)), Message("user", (Text("b"), Text("c"))))

    made = sent(a_request(messages=later), "m", 1)
    assert json.dumps(sent(a_request(messages=later * 9), "m", 1)).count('"ephemeral"') == MAX_MARKS

    assert [_is_marked(block) for block in made["tools"]] == [True]
    assert [_is_marked(block) for block in made["system"]] == [True, True]
    assert [[_is_marked(block) for block in message["content"]] for message in made["messages"]] == [
        [False], [False], [False, True],
    ]  # fmt: skip
    assert not {"tools", "system"} & set(sent(a_request()._replace(tools=(), system=()), "m", 1))


def _is_marked(block: dict[str, Any]) -> bool:
    return "cache_control" in block


# --- replies


def taken(reply: StreamedReply, name: str, data: dict[str, Any]) -> StreamedReply:
    take(reply, json.dumps({"type": name, **data}).encode())
    return reply


def heard(answer: Answer) -> StreamedReply:
    return functools.reduce(lambda reply, event: taken(reply, *event), events(answer), StreamedReply("m"))


def think(signature: str, *thoughts: str) -> Raw:
    """As they come by default: the text withheld, a signature alone."""
    deltas = tuple({"type": "thinking_delta", "thinking": thought} for thought in thoughts)
    end: dict[str, Any] = {"type": "signature_delta", "signature": signature}
    return Raw({"type": "thinking", "thinking": "", "signature": ""}, (*deltas, end))


def hear(answer: Answer) -> Completion:
    return heard(answer).completion(())


REASONS = {"end_turn": END_TURN, "stop_sequence": END_TURN, "max_tokens": MAX_TOKENS, "refusal": REFUSAL}


@each_row("wire_reason, reason", [*REASONS.items(), ("model_context_window_exceeded", MAX_TOKENS)])
def test_each_stop_reason_has_one_of_ours(wire_reason: str, reason: str) -> None:
    """A call that was cut is dropped unread, and a refusal needs no words."""
    cut = () if reason == END_TURN else (Use("bash", {}, raw='{"command": "rm -rf /tm'),)
    said = hear(Answer((Say("I will"), *cut), stop_reason=wire_reason))
    assert (said.content, said.stop_reason) == ((Text("I will"),), reason)
    assert reason != REFUSAL or hear(Answer((), stop_reason=wire_reason)).content == ()


def test_counts_are_believed_upwards_only_and_at_the_end() -> None:
    """One before the last is not the last."""
    start = {"message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}}
    reply = taken(StreamedReply("m"), "message_start", start)
    taken(reply, "message_delta", {"delta": {}, "usage": {"output_tokens": 4}})
    assert (reply.is_counted, reply.told) == (False, Usage(5, 4))
    taken(reply, "message_delta", {"delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 3}})
    assert (reply.is_counted, reply.told) == (True, Usage(5, 4))


def test_what_is_thought_or_of_no_known_kind_is_passed_over() -> None:
    """Thoughts alone are a turn, with nothing to say. The provider may send more than this door knows; what it knows is
    still understood."""
    assert hear(Answer((think("sig"),))) == hear(Answer((think("sig"), Say(" \n"))))
    blocks = (Raw({"type": "hologram", "beam": 3}, ({"type": "some_future_delta"},)), Say("x"), think("sig", "hm"))
    assert hear(Answer(blocks)).content == (Text("x"),)
    assert not taken(StreamedReply("m"), "some_future_event", {"x": 1}).began


def _events(*blocks: Block, reason: str | None = None) -> list[Event]:
    return events(Answer(blocks, reason))


WHOLE = _events(Say("I act."), Use("bash", {}))
LACKING = ("message_start", "content_block_start", "content_block_stop", "message_delta")


@pytest.mark.fault("F72")
@pytest.mark.parametrize(
    ("sent", "words"),
    [
        *(([event for event in WHOLE if event[0] != lost], None) for lost in LACKING),
        ([*_events(Say("x"), reason="max_tokens")[:-1], WHOLE[-2]], "because of 'tool_use'"),
        (_events(), "empty"),
        (_events(Say("x"), reason="tool_use"), "and has none"),
        # What was read once no longer tells a key that stood there twice.
        (_events(Raw({"type": "tool_use", "id": "a", "name": "bash", "input": {"a": 1}})), "begins with its argum"),
    ],
)
def test_a_reply_that_contradicts_itself_or_lacks_a_part_is_broken(sent: list[Event], words: str | None) -> None:
    """No call of it is let through."""
    with pytest.raises(BrokenReply, match=words):
        functools.reduce(lambda reply, event: taken(reply, *event), sent, StreamedReply("m")).completion(())


# --- errors


@each_row(
    "status, type, words, expected",
    [
        (400, "invalid_request_error", "prompt is too long: 1000001 tokens > 1000000 maximum", "context_overflow"),
        (400, "invalid_request_error", "Your credit balance is too low", "budget_exhausted"),
        (400, "invalid_request_error", "You have reached your specified API usage limits", "budget_exhausted"),
        (402, "billing_error", "pay", "budget_exhausted"),
        (403, "permission_error", "no", "authentication"),
        (404, "not_found_error", "model: claude-x", "invalid_request"),
        (413, "request_too_large", "too large", "context_overflow"),
        (429, "rate_limit_error", "limit enforced_spend_limit_reached", "budget_exhausted"),
        (502, None, "", "provider_error"),
        (529, "overloaded_error", "Overloaded", "unavailable"),
        (200, "overloaded_error", "Overloaded", "unavailable"),
        (200, "api_error", "oops", "provider_error"),
        (200, "some_future_error", "?", "provider_error"),
        (200, "invalid_prompt", "no", "invalid_request"),
    ],
)
def test_each_refusal_of_the_provider_has_a_type_of_ours(
    status: int, type: str | None, words: str, expected: str
) -> None:
    """By status, by its type inside a stream, and by its words where those two do not tell."""
    assert type_of_failure(status, (type,) if type else (), words) == expected


@each_row("body", [b"", b"[1]", b'{"error": 5}', b'{"error": {"message": {}, "type": 7}}', b"\xff", b"{"])
def test_a_refusal_in_any_shape_is_typed(body: bytes) -> None:
    """The status alone tells enough."""
    assert refusal(429, {}, body, 0.0).type == "rate_limited"


@each_row(
    "arguments",
    ['["ls"]', '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', "[" * 9_999 + "]" * 9_999],
)
def test_arguments_are_an_object_that_everybody_reads_alike(arguments: str) -> None:
    """No list, no key twice, no number that is none or too large, no half character, and not too deep."""
    with pytest.raises(BrokenReply):
        arguments_of(arguments, "bash")


def test_the_most_exact_name_of_an_error_counts() -> None:
    """A spend limit comes as a limit of the rate, and says so in its details alone."""
    told = {"type": "rate_limit_error", "message": "no", "details": {"error_code": "enforced_spend_limit_reached"}}
    assert refusal(429, {}, json.dumps({"error": told}).encode(), 0.0).type == "budget_exhausted"


@pytest.mark.fault("F69")
@each_row(
    "header, seconds",
    [
        *(("2", 2), ("0.5", 0.5), ("301", 300), ("1e9", 300), ("inf", 300), ("-5", 0), ("nan", None), ("", None)),
        *(("Thu, 01 Jan 1970 00:01:30 GMT", 90), ("Thu, 99 Jan 1970 02:00:00 GMT", None)),
    ],
)
def test_the_wait_that_is_asked_for_is_bounded(header: str, seconds: float | None) -> None:
    """Seconds or a date, never more than 300 s, never below zero, nothing for nonsense."""
    assert retry_after_seconds({"retry-after": header}, wall_now=0.0) == seconds


@pytest.mark.attack("S16")
def test_an_address_that_could_leak_the_key_is_refused() -> None:
    """It is encrypted, or on this machine; anything else is named in the setting's terms, without its password."""
    for good in (
        *("https://api.anthropic.com", "https://gateway.example/v1"),
        *("http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:1", "http://127.1:1"),
    ):
        assert problem_with_base_url(good) is None
    for bad in (
        *("api.anthropic.com", "http://api.anthropic.com", "ftp://127.0.0.1", "http://127.0.0.1:1/\x00"),
        *("https://api.anthropic.com\\@elsewhere.example", "https://", "https://me:pw@host", "https://h/?a=b"),
        *("https://h:x", "http://127.0.0.1.example", "http://93.1"),
    ):
        problem = problem_with_base_url(bad) or ""
        assert ("model.base_url" in problem, "pw@" in problem) == (True, False), bad


# --- thoughts

CALLED = Answer((think("sig"), Say("x"), Use("bash", {"n": 1.0}), think("g2", "hm")), usage=Counts(1, 2))


def test_thoughts_come_back_only_to_the_same_turn_at_the_same_place() -> None:
    """The provider refuses a thought after anything before it has changed, so then it stays away."""
    thoughts, reply = Thoughts(), heard(CALLED)
    said = reply.completion(())
    assert said.stop_reason == TOOL_USE
    first, result = a_request(), (ToolResult("toolu_0001_02", "x"),)
    thoughts.remember(body(first, "m", 1, thoughts).place, *turn(reply, said))

    def types(content: tuple[Any, ...], before: Request = first) -> list[str]:
        after = before._replace(messages=(*before.messages, Message("assistant", content), Message("user", result)))
        return [block["type"] for block in sent(after, "other", 9, thoughts)["messages"][1]["content"]]

    assert types(said.content) == ["thinking", "text", "tool_use", "thinking"]
    text, call = said.content
    assert isinstance(call, ToolUse)
    assert types((text, call._replace(input={"n": 2}))) == ["text", "tool_use"]
    assert types((call,)) == ["tool_use"]
    others = (first._replace(system=("other", first.system[1])), first._replace(tools=()), a_request("other"))
    assert [types(said.content, other) for other in others] == [["text", "tool_use"]] * 3


def test_old_thoughts_are_forgotten() -> None:
    """Memory is bounded; the oldest go first."""
    thoughts, whole = Thoughts(), b"x" * (MAX_BYTES // 2)
    for shown in (b"0", b"1", b"2"):
        thoughts.remember(b"here", shown, whole)
    assert [thoughts.recalled(b"here", shown) for shown in (b"0", b"1", b"2")] == [b"0", whole, whole]
