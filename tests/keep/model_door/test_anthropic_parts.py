"""The pure parts of Anthropic's adapter: requests, replies, errors, thoughts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.model_door import anthropic_stream
from infra.keep.model_door.anthropic import MAX_MARKS, body
from infra.keep.model_door.anthropic_stream import AnthropicReply as Reply
from infra.keep.model_door.connection import problem_with_base_url
from infra.keep.model_door.errors import BrokenReply, ProviderError, retry_after_seconds, type_of_failure
from infra.keep.model_door.streaming import most_usage
from infra.keep.model_door.thinking import MAX_TURNS, Thoughts
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
from tests.keep.model_door.conversations import requests
from tests.keep.model_door.doors import a_request
from tests.keep.model_door.wire import Answer, Block, Counts, Other, Say, Think, Use, events

# --- requests


def take(reply: Reply, data: str) -> bool:
    return reply.take(b"data: " + data.encode(errors="surrogatepass"))


def test_a_conversation_becomes_a_messages_request() -> None:
    """Blocks map one to one; results go before text, as the provider demands; blank text is left out."""
    later = (
        Message("assistant", (Text("I look."), Text("  \n"), ToolUse("toolu_1", "bash", {"command": "ls"}))),
        Message("user", (Text("Hurry."), ToolResult("toolu_1", "a b", is_error=True))),
    )

    made, _ = body(a_request(messages=later), "claude-opus-5-5", 100, Thoughts())

    assert (made["model"], made["max_tokens"]) == ("claude-opus-5-5", 100)
    assert [block["text"][:6] for block in made["system"]] == ["You ar", "# COMM"]
    assert _unmarked(made["messages"]) == [
        {"role": "user", "content": [{"type": "text", "text": "Continue."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a b", "is_error": True},
                {"type": "text", "text": "Hurry."},
            ],
        },
    ]
    assert "tools" not in body(a_request()._replace(tools=(), system=()), "m", 1, Thoughts())[0]


def test_the_cache_marks_stand_on_the_stable_prefixes() -> None:
    """The last tool, SYSTEM.md, the last system text, and the end of the last user message; four in all."""
    later = (Message("assistant", (Text("a"),)), Message("user", (Text("b"), Text("c"))))

    made, _ = body(a_request(messages=later), "m", 1, Thoughts())

    assert [_is_marked(block) for block in made["tools"]] == [True]
    assert [_is_marked(block) for block in made["system"]] == [True, True]
    assert [[_is_marked(block) for block in message["content"]] for message in made["messages"]] == [
        [False], [False], [False, True],
    ]  # fmt: skip


@given(requests)
def test_there_are_never_too_many_marks_and_the_bound_holds(request: Request) -> None:
    """Any conversation has at most four marks, each of our messages at most once, and more bytes than its texts."""
    made, _ = body(request, "m", 1, Thoughts())

    marked = json.dumps(made).count('"cache_control": {"type": "ephemeral"}')
    assert marked <= MAX_MARKS
    text = "".join(block.text for message in request.messages for block in message.content if isinstance(block, Text))
    assert most_usage(made, 1).input_tokens > len(text.strip().encode())


def _is_marked(block: dict[str, Any]) -> bool:
    return "cache_control" in block


def _unmarked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **message,
            "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]],
        }
        for message in messages
    ]


# --- replies


def hear(answer: Answer, drop: tuple[int, ...] = (), known: frozenset[str] = frozenset()) -> Completion:
    reply = Reply()
    for place, (name, data) in enumerate(events(answer, {"model": "m"}, 1)):
        if place not in drop:
            take(reply, json.dumps({"type": name, **data}))
    return reply.completion(known)


def test_a_reply_is_put_together_from_its_pieces() -> None:
    """Text, several calls with their arguments in small pieces, and all four classes of tokens."""
    blocks = (Say("Grüße, 世界!", pieces=7), Use("bash", {"command": "echo 'ü'"}, piece_length=1), Use("read_file", {}))

    heard = hear(Answer(blocks, usage=Counts(11, 22, 33, 44)))

    first = ToolUse("toolu_0001_01", "bash", {"command": "echo 'ü'"})
    second = ToolUse("toolu_0001_02", "read_file", {})
    assert heard == Completion((Text("Grüße, 世界!"), first, second), TOOL_USE, "m", Usage(11, 22, 33, 44))


def test_a_second_reason_is_damage_and_a_count_before_it_is_not_the_last() -> None:
    """A cut call is not let through because another reason comes after it."""
    reply = Reply()
    start = {"message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}}
    for name, data in (("message_start", start), ("message_delta", {"delta": {}, "usage": {"output_tokens": 2}})):
        take(reply, json.dumps({"type": name, **data}))
    assert (reply.measured, reply.told) == (False, Usage(5, 2))

    ends = [
        json.dumps({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}})
        for reason in ("max_tokens", "tool_use")
    ]
    take(reply, ends[0])
    assert (reply.measured, reply.told) == (True, Usage(5, 3))
    with pytest.raises(BrokenReply, match="'max_tokens' and then 'tool_use'"):
        take(reply, ends[1])


def test_arguments_that_come_with_a_block_s_start_are_checked_as_well() -> None:
    """Nobody sends them there whole; whoever does is not exempt from the limit of levels."""
    deep: dict[str, Any] = {}
    for _ in range(64):
        deep = {"a": deep}

    with pytest.raises(BrokenReply, match="over 64 levels"):
        hear(
            Answer(
                (Other({"type": "tool_use", "id": "toolu_1", "name": "bash", "input": deep}),), stop_reason="tool_use"
            )
        )


@pytest.mark.parametrize(
    ("wire_reason", "reason"),
    [
        ("end_turn", END_TURN),
        ("stop_sequence", END_TURN),
        ("max_tokens", MAX_TOKENS),
        ("model_context_window_exceeded", MAX_TOKENS),
        ("refusal", REFUSAL),
    ],
)
def test_only_stop_reason_tool_use_lets_calls_through(wire_reason: str, reason: str) -> None:
    """With any other reason the calls are dropped, whole as they may look, and the text is kept."""
    heard = hear(Answer((Say("I will"), Use("bash", {"command": "rm x"})), stop_reason=wire_reason))

    assert (heard.content, heard.stop_reason) == ((Text("I will"),), reason)


def test_a_call_that_was_cut_by_max_tokens_is_dropped_unread() -> None:
    """Half of its arguments are no JSON, and that is no failure: the text is kept."""
    heard = hear(Answer((Say("I will"), Use("bash", {}, raw='{"command": "rm -rf /tm')), stop_reason="max_tokens"))

    assert (heard.content, heard.stop_reason) == ((Text("I will"),), MAX_TOKENS)


@pytest.mark.parametrize(
    "raw",
    [
        '{"command": "ls"',
        '{"command": "ls"} {"command": "rm"}',
        '{"command": "ls" "path": "x"}',
        '{"command": "ls", "command": "rm"}',
        '{"command": NaN}',
        '["ls"]',
        '"ls"',
        '{"command": "\\ud800"}',
        '{"a":' * 100_000,
    ],
)
def test_arguments_are_read_strictly_and_whole(raw: str) -> None:
    """Arguments that are cut, doubled, ambiguous or no object fail the reply; no part of them is let through."""
    with pytest.raises(BrokenReply, match="arguments of a call of 'bash'"):
        hear(Answer((Use("bash", {}, raw=raw, piece_length=4096),)))


@pytest.mark.parametrize("reason", ["pause_turn", "some_future_reason"])
def test_an_unknown_stop_reason_fails_the_reply(reason: str) -> None:
    """Nobody knows whether such a turn is over."""
    with pytest.raises(BrokenReply, match="stop_reason is"):
        hear(Answer((Say("x"),), stop_reason=reason))


def test_a_repeated_call_id_fails_the_reply() -> None:
    """Twice in one reply or once before in the conversation: it may be one call sent twice, so none is run."""
    twice = Answer((Use("bash", {}, id="toolu_a"), Use("bash", {}, id="toolu_a")))

    for answer, known in (
        (twice, frozenset[str]()),
        (Answer((Use("bash", {}, id="toolu_b"),)), frozenset({"toolu_b"})),
    ):
        with pytest.raises(BrokenReply, match="was used before"):
            hear(answer, known=known)
    assert hear(Answer((Use("bash", {}, id="toolu_b"),)), known=frozenset({"toolu_c"})).stop_reason == TOOL_USE


def test_an_empty_reply_fails_and_a_thoughtful_one_does_not() -> None:
    """No block at all is not a turn; thoughts alone are one, with nothing to say. A refusal needs no words."""
    with pytest.raises(BrokenReply, match="empty"):
        hear(Answer(()))
    assert hear(Answer((Think("sig"),))) == hear(Answer((Think("sig"), Say(" \n"))))
    assert hear(Answer((), stop_reason="refusal")).content == ()


def test_a_tool_use_turn_without_a_call_fails() -> None:
    """The reason promises a call; without one something was lost."""
    with pytest.raises(BrokenReply, match="has no tool call"):
        hear(Answer((Say("x"),), stop_reason="tool_use"))


def test_unknown_kinds_of_events_blocks_and_deltas_are_passed_over() -> None:
    """The provider may send more than this door knows; what it knows is still understood."""
    heard = hear(Answer((Other({"type": "hologram", "beam": 3}), Say("x"), Think("sig", "hm"))))

    assert heard.content == (Text("x"),)
    assert take(Reply(), '{"type": "some_future_event", "x": 1}') is False


@given(st.data())
def test_no_damaged_stream_lets_a_call_through(data: st.DataObject) -> None:
    """Leave out, double or swap events of a reply with calls: what comes out is the whole reply or a BrokenReply."""
    blocks: tuple[Block, ...] = (Say("x", 2), Use("bash", {"command": "a"}), Think("s"), Use("bash", {"command": "b"}))
    whole = events(Answer(blocks), {"model": "m"}, 1)
    order = list(range(len(whole)))
    places = st.integers(0, len(order) - 1)
    match data.draw(st.sampled_from(["none", "drop", "double", "swap", "end"])):
        case "drop":
            del order[data.draw(places)]
        case "double":
            order.insert(data.draw(places), data.draw(places))
        case "swap":
            first, second = data.draw(places), data.draw(places)
            order[first], order[second] = order[second], order[first]
        case "end":
            del order[data.draw(places) :]
    reply = Reply()
    calls = []
    try:
        for place in order:
            name, event = whole[place]
            take(reply, json.dumps({"type": name, **event}))
            if reply.done:
                break
        calls = [block.input for block in reply.completion(frozenset()).content if isinstance(block, ToolUse)]
    except BrokenReply:
        pass

    assert calls in ([], [{"command": "a"}, {"command": "b"}])
    if order == list(range(len(whole))):
        assert calls == [{"command": "a"}, {"command": "b"}]


@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[]",
        "null",
        '{"type": 5}',
        '{"type": "message_start"}',
        "<html>",
        '{"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": -1}}}',
    ],
)
def test_an_event_that_cannot_be_read_fails_the_reply(data: str) -> None:
    """Damage in a known event is never passed over."""
    with pytest.raises(BrokenReply, match="cannot be read"):
        take(Reply(), data)


def test_an_error_event_fails_the_reply_with_the_provider_s_words() -> None:
    """Also as the first event."""
    with pytest.raises(ProviderError) as caught:
        take(Reply(), '{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}')

    assert (caught.value.type, caught.value.message) == ("overloaded_error", "Overloaded")


def test_a_reply_over_the_limit_is_given_up() -> None:
    """Memory is bounded, whatever the other side sends."""
    reply = Reply()
    piece = json.dumps({"type": "ping", "padding": "x" * 1_000_000})

    for _ in range(anthropic_stream.MAX_BYTES // len(piece)):
        take(reply, piece)
    with pytest.raises(BrokenReply, match="over"):
        take(reply, piece)


def test_a_block_does_not_begin_with_many_values() -> None:
    """Whatever they are, they would be kept in memory."""
    reply = Reply()
    start = {"type": "message_start", "message": {"model": "m", "usage": {}}}
    take(reply, json.dumps(start))
    many = "{}," * (anthropic_stream.MAX_START_BYTES // 3)
    block = f'{{"type": "x", "values": [{many}{{}}]}}'
    with pytest.raises(BrokenReply, match="begins with over"):
        take(reply, f'{{"type": "content_block_start", "index": 0, "content_block": {block}}}')


def test_only_content_is_progress() -> None:
    """Pings and empty pieces do not bring a reply forward; every other event does."""
    reply = Reply()
    progress = [
        take(reply, json.dumps({"type": name, **data})) for name, data in events(Answer((Say("x"),)), {"model": "m"}, 1)
    ]

    assert all(progress)
    other = Reply()
    for name, data in events(Answer((Say("x"),)), {"model": "m"}, 1)[:2]:
        take(other, json.dumps({"type": name, **data}))
    assert not take(other, '{"type": "ping"}')
    assert not take(other, '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}')


def test_a_reply_tells_its_highest_counts_what_it_showed_and_when_it_may_hide_something() -> None:
    """Counts of before the end are not the last, and one that becomes smaller stays. Thoughts may be withheld."""
    every = events(Answer((Think("sig"), Say("xyz")), usage=Counts(11, 22, 33, 44)), {"model": "m"}, 1)
    reply, hid = Reply(), []
    for name, data in every[:-2]:
        take(reply, json.dumps({"type": name, **data}))
        hid.append((name, reply.hides))
    assert not reply.measured
    assert reply.told._replace(output_tokens=0) == Usage(11, 0, 33, 44)
    assert reply.shown_bytes == 3
    assert [name for name, hides in hid if hides] == ["message_start", "content_block_start", "content_block_delta"]
    less = {"delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 0, "output_tokens": 22}}
    take(reply, json.dumps({"type": "message_delta", **less}))
    assert (reply.measured, reply.told) == (True, Usage(11, 22, 33, 44))


# --- errors


@pytest.mark.parametrize(
    ("status", "type", "words", "expected"),
    [
        (400, "invalid_request_error", "messages: at least one", "invalid_request"),
        (400, "invalid_request_error", "prompt is too long: 1000001 tokens > 1000000 maximum", "context_overflow"),
        (400, "invalid_request_error", "input length and max_tokens exceed context limit", "context_overflow"),
        (400, "invalid_request_error", "Your credit balance is too low", "budget_exhausted"),
        (400, "invalid_request_error", "You have reached your specified API usage limits", "budget_exhausted"),
        (401, "authentication_error", "invalid x-api-key", "authentication"),
        (402, "billing_error", "pay", "budget_exhausted"),
        (403, "permission_error", "no", "authentication"),
        (404, "not_found_error", "model: claude-x", "invalid_request"),
        (413, "request_too_large", "too large", "context_overflow"),
        (422, None, "", "invalid_request"),
        (429, "rate_limit_error", "slow down", "rate_limited"),
        (429, "rate_limit_error", "limit enforced_spend_limit_reached", "budget_exhausted"),
        (500, "api_error", "oops", "provider_error"),
        (502, None, "", "provider_error"),
        (503, None, "", "unavailable"),
        (529, "overloaded_error", "Overloaded", "unavailable"),
        (200, "overloaded_error", "Overloaded", "unavailable"),
        (200, "api_error", "oops", "provider_error"),
        (200, "rate_limit_error", "slow", "rate_limited"),
        (200, "some_future_error", "?", "provider_error"),
    ],
)
def test_each_refusal_of_the_provider_has_a_type_of_ours(
    status: int, type: str | None, words: str, expected: str
) -> None:
    """By status, by its type inside a stream, and by its words where those two do not tell."""
    assert type_of_failure(status, (type,) if type else (), words) == expected


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2),
        ("61", 61),
        ("0.5", 0.5),
        ("300", 300),
        ("301", 300),
        ("1e9", 300),
        ("inf", 300),
        ("-5", 0),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:01:30 GMT", 90),
        ("Thu, 01 Jan 1970 02:00:00 GMT", 300),
        ("Thu, 99 Jan 1970 02:00:00 GMT", None),
    ],
)
def test_the_wait_that_is_asked_for_is_bounded(header: str, seconds: float | None) -> None:
    """Seconds or a date, never more than 300 s, never below zero, nothing for nonsense."""
    assert retry_after_seconds({"retry-after": header}, wall_now=0.0) == seconds


@pytest.mark.parametrize(
    "url",
    [
        "https://api.anthropic.com",
        "https://gateway.example/v1",
        "http://127.0.0.1:8080",
        "http://localhost:1",
        "http://[::1]:1",
        "http://127.1:1",
    ],
)
def test_a_good_address_is_taken(url: str) -> None:
    """Encrypted, or on this machine."""
    assert problem_with_base_url(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "api.anthropic.com",
        "http://api.anthropic.com",
        "ftp://127.0.0.1",
        "http://127.0.0.1:1/\x00",
        "https://api.anthropic.com\\@elsewhere.example",
        "https://",
        "https://me:pw@host",
        "https://h/?a=b",
        "https://h:x",
        "http://127.0.0.1.example",
        "http://93.1",
        "http://0177.0.0.1",
    ],
)
def test_an_address_that_could_leak_the_key_is_refused(url: str) -> None:
    """Anything else is named in the setting's terms, without its password."""
    problem = problem_with_base_url(url)

    assert problem is not None
    assert "model.base_url" in problem
    assert "pw@" not in problem


# --- thoughts

THOUGHT = {"type": "thinking", "thinking": "", "signature": "sig"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}


def test_thoughts_come_back_only_to_the_same_turn_at_the_same_place() -> None:
    """The provider refuses a thought after anything before it has changed, so then it stays away."""
    thoughts = Thoughts()
    thoughts.remember([THOUGHT, CALL], "here")

    assert thoughts.recalled([CALL], "here") == [THOUGHT, CALL]
    assert thoughts.recalled([CALL], "elsewhere") == [CALL]
    assert thoughts.recalled([{**CALL, "input": {"x": 1}}], "here") == [{**CALL, "input": {"x": 1}}]
    assert thoughts.recalled([{"type": "text", "text": "x"}], "here") == [{"type": "text", "text": "x"}]


def test_old_thoughts_are_forgotten() -> None:
    """Memory is bounded; the oldest go first."""
    thoughts = Thoughts()
    for number in range(MAX_TURNS + 1):
        thoughts.remember([THOUGHT, {**CALL, "id": f"toolu_{number}"}], "here")

    assert len(thoughts.recalled([{**CALL, "id": "toolu_0"}], "here")) == 1
    assert len(thoughts.recalled([{**CALL, "id": "toolu_1"}], "here")) == 2
    assert len(thoughts.recalled([{**CALL, "id": f"toolu_{MAX_TURNS}"}], "here")) == 2


def test_the_fingerprint_changes_with_everything_before() -> None:
    """System, tools, earlier messages; not with the cache marks."""
    plain = a_request()
    changed = [
        plain._replace(system=("other", plain.system[1])),
        plain._replace(tools=()),
        a_request(messages=(Message("assistant", (Text("x"),)), Message("user", (Text("y"),)))),
    ]

    prints = [body(request, "m", 1, Thoughts())[1] for request in [plain, *changed]]

    assert len(set(prints)) == 4
    assert body(plain, "other-model", 9, Thoughts())[1] == prints[0]
