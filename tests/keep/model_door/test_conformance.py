"""What holds for every provider that is reached by network: a good reply comes through whole, and whatever a
server does otherwise is a typed failure or a well-formed completion.

Each adapter runs with its real library, in the test's own process, against a loopback server."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.keep.model_door.call import LINES, MOST_TOKENS_PER_SECOND
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.keys import Key
from infra.keep.model_door.model import NOTHING, Answer, CallFailure
from infra.keep.model_door.reply import MOST_BYTES, StreamedReply, heed
from infra.keep.model_door.tool_calls import arguments_of
from infra.shared.conversation import (
    END_TURN,
    TOOL_USE,
    Completion,
    Message,
    Request,
    Text,
    ToolResult,
    ToolUse,
    Usage,
)
from infra.shared.conversation import MAX_TOKENS as CUT
from tests.keep.model_door import dialects
from tests.keep.model_door.dialects import DIALECTS, Anthropic, Called, Chat, Dialect, Ollama, Responses
from tests.keep.model_door.doors import KEY, a_request
from tests.keep.model_door.peer import Answer as Sent
from tests.keep.model_door.peer import Peer, Recorded
from tests.keep.model_door.wire import Counts, Use
from tests.keep.web_door.sites import certificate

SHORT_SECONDS = 0.5
CALLS = (Called("call_1", input={"command": "rm -rf build"}), Called("call_2", input={"command": "ls"}))
EARLIER = (
    Message("assistant", (ToolUse("call_0", "bash", {"command": "true"}),)),
    Message("user", (ToolResult("call_0", ""),)),
)

every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)


def ask(dialect: Dialect, url: str, request: Request | None = None, **limits: Any) -> Answer:
    """`limits`: as of `Dialect.model`."""
    model = dialect.model(url, **limits)

    async def made() -> Answer:
        try:
            return await model.prepare(request or a_request(messages=EARLIER)).make()
        finally:
            client = model.client()
            await (client.aclose() if hasattr(client, "aclose") else client.close())

    return asyncio.run(made())


def requested(dialect: Dialect, request: Request, **limits: Any) -> Recorded:
    """What is sent for it, which is answered by a word."""
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("ok",)))) as peer:
        ask(dialect, peer.url, request, **limits)
    return peer.requests[-1]


def hear(dialect: Dialect, sent: Sent, **limits: Any) -> Answer:
    with Peer(dialect.content_type, lambda body: sent) as peer:
        return ask(dialect, peer.url, **limits)


def heard(dialect: Dialect, *calls: Use, texts: tuple[str, ...] = (), reason: str = "") -> Completion:
    return hear(dialect, Sent(dialect.reply(texts, calls, reason))).completion


def fail(dialect: Dialect, sent: Sent, **limits: Any) -> CallFailure:
    with pytest.raises(CallFailure) as caught:
        hear(dialect, sent, **limits)
    assert len(caught.value.message) < 1500
    return caught.value


# --- what works


@every_dialect
def test_text_beside_two_calls_comes_through_with_ids_and_usage(dialect: Dialect) -> None:
    """Characters that some take for line ends as well, and each token in its class; also under another status of
    success than 200, which a proxy may give it."""
    text = "Grüße\u2028and\x85of\x0b\r\n\n\ndata: x\n\n世界😀"
    calls = (CALLS[0], Called("call_2", "write_file", {"content": text, "n": 1.5, "deep": {"a": [None, True]}}))
    counted = Counts(10, 20) if dialect.provider == "ollama" else Counts(10, 20, cache_read=30, cache_write=40)

    answer = hear(dialect, Sent(dialect.reply((text,), calls, counted=counted), status=203))

    uses = tuple(ToolUse(call.id or "", call.name, call.input) for call in calls)
    assert answer.completion.content == (Text(text), *uses)
    assert answer.completion.stop_reason == TOOL_USE
    assert answer.completion.usage == Usage(10, 20, counted.cache_write, counted.cache_read)
    assert answer.measured


PARTS = {
    "BASH": '"name":"bash","description":"Run a command."',
    "SCHEMA": '{"type":"object","properties":{"command":{"type":"string"}}}',
    "MARK": '"cache_control":{"type":"ephemeral"}',
}
CONVERSATION: dict[type[Dialect], str] = {
    Anthropic: """{"model":"claude-opus-5-5","max_tokens":1000,"stream":true,
        "tools":[{BASH,"input_schema":SCHEMA,MARK}],
        "system":[{"type":"text","text":"You are an agent.",MARK}],
        "messages":[{"role":"user","content":[{"type":"text","text":"Continue.",MARK}]},
            {"role":"assistant","content":[{"type":"text","text":"I act."},
                {"type":"tool_use","id":"call_1","name":"bash","input":{"command":"ä"}},
                {"type":"tool_use","id":"call_2","name":"bash","input":{}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":""},
                {"type":"tool_result","tool_use_id":"call_2","content":"no such file","is_error":true},
                {"type":"text","text":"Hurry.",MARK}]}]}""",
    Responses: """{"model":"gpt-6.1-terra","max_output_tokens":1000,"stream":true,"store":false,
        "include":["reasoning.encrypted_content"],"instructions":"You are an agent.",
        "tools":[{"type":"function",BASH,"parameters":SCHEMA,"strict":false}],
        "input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Continue."}]},
            {"type":"message","role":"assistant","content":"I act."},
            {"type":"function_call","call_id":"call_1","name":"bash","arguments":"{\\"command\\":\\"ä\\"}"},
            {"type":"function_call","call_id":"call_2","name":"bash","arguments":"{}"},
            {"type":"function_call_output","call_id":"call_1","output":""},
            {"type":"function_call_output","call_id":"call_2","output":"ERROR: no such file"},
            {"type":"message","role":"user","content":[{"type":"input_text","text":"Hurry."}]}]}""",
    Chat: """{"model":"gpt-6.1-terra","max_completion_tokens":1000,"stream":true,"reasoning_effort":"none",
        "stream_options":{"include_usage":true},"tools":[{"type":"function","function":{BASH,"parameters":SCHEMA}}],
        "messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"Continue."},
            {"role":"assistant","content":"I act.","tool_calls":[
                {"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\\"command\\":\\"ä\\"}"}},
                {"id":"call_2","type":"function","function":{"name":"bash","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"call_1","content":""},
            {"role":"tool","tool_call_id":"call_2","content":"ERROR: no such file"},
            {"role":"user","content":"Hurry."}]}""",
    Ollama: """{"model":"qwen3","options":{"num_predict":1000},"stream":true,"truncate":false,"shift":false,
        "tools":[{"type":"function","function":{BASH,"parameters":SCHEMA}}],
        "messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"Continue."},
            {"role":"assistant","content":"I act.","tool_calls":[
                {"id":"call_1","function":{"index":0,"name":"bash","arguments":{"command":"ä"}}},
                {"id":"call_2","function":{"index":1,"name":"bash","arguments":{}}}]},
            {"role":"tool","tool_name":"bash","tool_call_id":"call_1","content":""},
            {"role":"tool","tool_name":"bash","tool_call_id":"call_2","content":"ERROR: no such file"},
            {"role":"user","content":"Hurry."}]}""",
}
"""As it goes over the wire, with `PARTS` in place of their names."""


@every_dialect
def test_a_conversation_goes_out_in_order_and_whole(dialect: Dialect) -> None:
    """System texts, parallel calls with text beside them, results of which one is an error and one empty; what is
    nothing but white space is left out."""
    uses = (ToolUse("call_1", "bash", {"command": "ä"}), ToolUse("call_2", "bash", {}))
    results = (Text("Hurry."), ToolResult("call_1", ""), ToolResult("call_2", "no such file", is_error=True))
    messages = (Message("assistant", (Text("I act."), *uses)), Message("user", results), Message("user", (Text(" "),)))
    sent = requested(dialect, a_request(messages=messages)._replace(system=("You are an agent.", "")))
    wanted = CONVERSATION[type(dialect)]
    for name, text in PARTS.items():
        wanted = wanted.replace(name, text)
    assert (sent.path, sent.body) == (dialect.path, json.loads(wanted))


@pytest.mark.fault("F71")
@every_dialect
def test_a_cut_call_is_no_call(dialect: Dialect) -> None:
    """At the limit of tokens the calls are dropped, whole ones as well; the words stay."""
    said = heard(dialect, *CALLS, texts=("I act.",), reason=dialect.cut)

    assert (said.content, said.stop_reason) == ((Text("I act."),), CUT)
    assert heard(dialect, texts=("Done.",)).stop_reason == END_TURN


@pytest.mark.fault("F78")
@every_dialect
def test_a_megabyte_of_arguments_and_two_hundred_calls_come_through(dialect: Dialect) -> None:
    """Size alone is no fault, nor as many levels as the limit."""
    large = {"content": "x" * 1_000_000}
    many = [Called(f"call_{n}", input={"command": str(n)}) for n in range(1, 201)]

    assert heard(dialect, Called("call_1", input=large)).content == (ToolUse("call_1", "bash", large),)
    assert len(heard(dialect, *many).content) == 200
    assert heard(dialect, Called("call_3", raw=_nested(64))).stop_reason == TOOL_USE


@every_dialect
def test_what_keeps_a_connection_alive_is_passed_over(dialect: Dialect) -> None:
    """Between any two pieces of a reply, and pieces cut anywhere. One that takes longer than a silence may is none."""
    pieces = dialect.reply(("Hello.",), CALLS)
    whole = b"".join(pieces)
    cut = tuple(whole[at : at + 11] for at in range(0, len(whole), 11))
    for each in (tuple(part for piece in pieces for part in (dialect.alive, piece)), cut):
        assert len(hear(dialect, Sent(each)).completion.content) == 3
    slow = Sent(dialect.reply(("Hello, hello, hello, hello.",)), pause=0.2)
    assert hear(dialect, slow, idle_seconds=1.0).completion.stop_reason == END_TURN


@every_dialect
def test_without_a_count_that_can_be_true_the_worst_case_is_assumed(dialect: Dialect) -> None:
    """The completion stands, but what it cost is not measured. Who says that nothing was used would make every budget
    endless; and what was shown was made."""
    answer = hear(dialect, Sent(dialect.reply(("Hello.",), counted=None)))
    assert (answer.completion.content, answer.measured) == ((Text("Hello."),), False)
    if dialect.provider != "anthropic":  # which tells the input's tokens first
        assert answer.completion.usage.output_tokens == dialects.MAX_TOKENS
    assert not hear(dialect, Sent(dialect.reply(("Hello.",), counted=Counts(0, 0)))).measured
    shown = hear(dialect, Sent(dialect.reply(("Hello." * 1000,), counted=Counts(100, 1)))).completion
    assert shown.usage == Usage(100, 6000 // 64)


# --- faults


def heard_by_hand(dialect: Dialect, pieces: Sequence[bytes]) -> StreamedReply:
    """As far as these pieces go. Raises BrokenReply and ProviderError."""
    reply, take = StreamedReply("m"), dialect.dialect.take
    for line in b"".join(pieces).split(b"\n"):
        data = line if dialect.content_type == LINES else line[5:].strip() if line.startswith(b"data:") else b""
        if data:
            heed(take, reply, data)
    return reply


def _broken(dialect: Dialect, *calls: Use, reason: str = "") -> Sent:
    return Sent(dialect.reply(("I act.",), calls, reason))


def _nested(levels: int) -> str:
    return '{"a": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


Fault = Callable[[Dialect], Sent]
BROKEN: dict[str, Fault] = {
    "arguments cut": lambda d: _broken(d, CALLS[0], Called("call_3", raw='{"command": "rm -rf build"')),
    "arguments with a comma missing": lambda d: _broken(d, Called("call_3", raw='{"a": 1 "b": 2}')),
    "deeper than anybody after the door goes": lambda d: _broken(d, Called("call_3", raw=_nested(65))),
    "an id twice": lambda d: _broken(d, Called("call_3"), Called("call_3")),
    "an id of before": lambda d: _broken(d, Called("call_0")),
    "no name": lambda d: _broken(d, Called("call_3", name="")),
    "an unknown reason": lambda d: _broken(d, *CALLS, reason="flagged"),
    "nothing at all": lambda d: Sent(d.reply(())),
    "an error in the stream": lambda d: Sent((*d.reply(("I",), CALLS)[:2], d.error("oops"))),
    "no json": lambda d: Sent((*d.reply(("I",))[:1], b"data: {oops\n\n")),
    "bytes that are no text": lambda d: Sent((*d.reply(("I",))[:1], b'data: {"a": "\xff\xfe"}\n\n{"a": "\xff"}\n')),
    "another shape": lambda d: Sent((b'data: {"type": "message_start", "choices": 7}\n\n{"message": 5}\n',)),
    "a list": lambda d: Sent((b"data: [1]\n\n[1]\n",)),
    "more after the end": lambda d: Sent((d.reply(("I",))[0],) * 2),
}  # fmt: skip


@pytest.mark.fault("F71", "F72", "F78")
@every_dialect
@pytest.mark.parametrize("name", BROKEN)
def test_a_reply_that_is_wrong_is_a_failure(dialect: Dialect, name: str) -> None:
    """No call comes of it, and no traceback."""
    failure = fail(dialect, BROKEN[name](dialect))

    assert failure.type == "provider_error", failure.message


@every_dialect
def test_a_missing_id_fails_or_is_made_up(dialect: Dialect) -> None:
    """Older Ollama servers give none; from the others it is damage."""
    if dialect.provider == "ollama":
        said = heard(dialect, Called(None), Called(None))
        assert len({block.id for block in said.content if isinstance(block, ToolUse)}) == 2
    else:
        assert fail(dialect, _broken(dialect, Called(None))).type == "provider_error"


@pytest.mark.fault("F71")
@every_dialect
@pytest.mark.parametrize("then", ["end", "reset"])
def test_a_reply_that_breaks_off_anywhere_is_a_failure(dialect: Dialect, then: str) -> None:
    """After each of its pieces but the last; what may be charged is not taken for measured unless it was told."""
    pieces = dialect.reply(("I act.",), CALLS)
    for count in range(len(pieces) - 1):
        failure = fail(dialect, Sent(pieces[:count], then))
        assert failure.type in ("provider_error", "unavailable")
        assert failure.usage is not None
        if not failure.measured:
            assert failure.usage.input_tokens > 0
            assert 0 < failure.usage.output_tokens <= dialects.MAX_TOKENS


@every_dialect
def test_what_calls_a_tool_was_made_as_well(dialect: Dialect) -> None:
    """A long call behind a word: when the reply breaks off after it, its bytes count as those of the word do."""
    called = Called("call_1", "write_file", {"content": "x" * 50_000})
    reply = heard_by_hand(dialect, dialect.reply(("So.",), (called,))[:-1])
    assert reply.bytes > 50_000


@pytest.mark.fault("F72")
@every_dialect
def test_an_answer_of_another_kind_is_a_failure(dialect: Dialect) -> None:
    """A page comes from something in between and costs nothing; JSON may be a reply that is charged for."""
    for content_type, costs in (("text/html", False), ("application/json", True)):
        failure = fail(dialect, Sent((b'{"choices": []}',), content_type=content_type))
        assert (failure.type, failure.usage != NOTHING, failure.measured) == ("provider_error", costs, not costs)
        assert content_type in failure.message


@every_dialect
def test_what_is_compressed_or_without_end_is_given_up(dialect: Dialect) -> None:
    """A few bytes could stand for gigabytes; and no line, no text and no number of lines is read for ever."""
    reply = gzip.compress(b"".join(dialect.reply(("Hello.",))))
    assert "compressed" in fail(dialect, Sent((reply,), headers=(("content-encoding", "gzip"),))).message

    for endless in (b" " * (1 << 18), dialect.reply(("words " * 100,))[-3], dialect.alive * 1000):
        failure = fail(dialect, Sent((dialect.reply(("words",))[0], endless), "endless"), most_bytes=1 << 20)
        assert failure.type == "provider_error", failure.message


@pytest.mark.parametrize("dialect", [each for each in DIALECTS if each.provider != "anthropic"])
def test_more_arguments_than_any_model_makes_are_given_up(dialect: Dialect) -> None:
    """In memory such take many times the bytes that came. Claude's come in so small pieces that 32 MiB are less."""
    many = '{"a": [' + "{}," * (MOST_BYTES // 3) + "{}]}"
    failure = fail(dialect, Sent(dialect.reply((), (Called("call_1", raw=many),))))
    assert (failure.type, "bytes of text and arguments" in failure.message) == ("provider_error", True)


@pytest.mark.fault("F73")
@every_dialect
def test_silence_is_given_up(dialect: Dialect) -> None:
    """At once, behind a first word, and in the end also when the connection is kept alive."""
    first = dialect.reply(("Hello.",))[0]
    for sent, limit, words in (
        (Sent((), "silence"), "idle_seconds", "no new content"),
        (Sent((first,), "silence"), "idle_seconds", "no new content"),
        (Sent((first, dialect.alive), "endless", pause=0.05), "call_seconds", "too long"),
    ):
        failure = fail(dialect, sent, max_tokens=100_000, **{limit: SHORT_SECONDS})
        assert (failure.type, failure.measured) == ("unavailable", False)
        assert words in failure.message
        assert failure.usage
        assert 0.9 * SHORT_SECONDS * MOST_TOKENS_PER_SECOND <= failure.usage.output_tokens < 100_000


STATUSES = {
    "too long": (400, "the input exceeds the context length", "context_overflow"),
    "out of money": (429, "you have reached your usage limit: billing", "budget_exhausted"),
    "rate limit": (429, "slow down", "rate_limited"),
    "server error": (500, "no", "provider_error"),
    "redirect": (302, "", "provider_error"),
}


@pytest.mark.fault("F69", "F74")
@pytest.mark.attack("S16")
@every_dialect
@pytest.mark.parametrize("name", STATUSES)
def test_a_refusal_is_typed_and_costs_nothing(dialect: Dialect, name: str) -> None:
    """One request is made, whatever the library would like; the wait that is asked for comes through."""
    status, message, type = STATUSES[name]
    body = dialect.refusal(message) if message else b"<html>no</html>"
    headers = (("retry-after", "7"), ("location", "/elsewhere"))
    sent = Sent((body,), status=status, content_type="application/json" if message else "text/html", headers=headers)
    with Peer(dialect.content_type, lambda _: sent) as peer, pytest.raises(CallFailure) as caught:
        ask(dialect, peer.url)

    assert (caught.value.type, caught.value.usage) == (type, NOTHING), caught.value.message
    assert caught.value.retry_after_seconds == (None if status < 400 else 7.0)
    assert message in caught.value.message
    assert len(peer.requests) == 1


@pytest.mark.attack("S16")
@every_dialect
def test_nothing_of_the_environment_and_no_key_but_its_own_is_sent(
    dialect: Dialect, capfd: pytest.CaptureFixture[str]
) -> None:
    """The key as its provider wants it, and never in a failure; to Ollama none at all."""
    failing = Sent((dialect.refusal(f"bad key {KEY}"),), status=401, content_type="application/json")
    with Peer(dialect.content_type, lambda _: failing) as peer, pytest.raises(CallFailure) as caught:
        ask(dialect, peer.url)

    sent = peer.requests[0].headers
    assert sent.get("authorization") == (None if dialect.provider == "ollama" else f"Bearer {KEY}")
    assert sent["accept-encoding"] == "identity"
    if dialect.provider != "ollama":
        assert KEY not in caught.value.message
    assert KEY not in "".join(capfd.readouterr())


# --- who cannot be reached, or cannot prove who it is


@pytest.mark.fault("F77")
def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    """Fault: the server's certificate is its own; expected: the model is unavailable, and the server reads nothing."""
    peer = Peer("", lambda body: Sent())
    peer._server.socket = certificate(tmp_path, "localhost").wrap_socket(peer._server.socket, server_side=True)
    with peer, pytest.raises(CallFailure, match="certificate") as caught:
        ask(Anthropic(), peer.url.replace("http://127.0.0.1", "https://localhost"))
    assert (caught.value.type, peer.requests) == ("unavailable", [])


@pytest.mark.fault("F77")
@every_dialect
def test_a_provider_that_nobody_is_or_that_does_not_speak_tls_costs_nothing(dialect: Dialect) -> None:
    """Nothing was sent, so nothing is charged, and nobody who cannot prove who it is has the key."""
    with socket.socket() as closed, Peer(dialect.content_type, lambda body: Sent()) as peer:
        closed.bind(("127.0.0.1", 0))
        for url in (f"http://127.0.0.1:{closed.getsockname()[1]}", peer.url.replace("http://", "https://")):
            with pytest.raises(CallFailure, match="ConnectError") as caught:
                ask(dialect, url)
            assert (caught.value.type, caught.value.usage) == ("unavailable", NOTHING)
    assert peer.requests == []


def test_a_call_that_cannot_work_is_not_prepared() -> None:
    """Neither a library nor the budget has anything to do with it."""
    keyless, leaking = Anthropic().model(), Anthropic().model("http://provider.example")
    keyless.key = Key(None, "no key there")
    for model, type in ((keyless, "authentication"), (leaking, "invalid_request")):
        with pytest.raises(CallFailure) as caught:
            model.prepare(a_request())
        assert (caught.value.type, caught.value.message) == (type, model.problem)


# Streams damaged by chance: what comes of one is a failure that is named, or a reply that breaks no law.


KNOWN = frozenset(["call_0"])
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1.5, "", "call_0", "stop", "tool_use", "length", "text", "x", [], [1], [{}], [None]),
    *({}, {"a": 1}, {"type": "text"}, {"reason": "max_output_tokens"}, {"index": 0}, {"type": []}),
)


def a_stream(dialect: Dialect, chance: random.Random) -> list[bytes]:
    """A good reply."""
    texts = [chance.choice(("", " ", "I act.", "Grüße, 世界")) for _ in range(chance.randrange(3))]
    inputs: tuple[dict[str, Any], ...] = ({}, {"n": 12345}, {"a": {"b": [1, None, "ü"]}, "c": "ls"})
    calls = [Called(f"call_{n + 1}", "bash", chance.choice(inputs)) for n in range(chance.randrange(4))]
    reason = chance.choice(("", "", "", dialect.cut, dialect.whole, dialect.called))
    return list(dialect.reply(texts, calls, reason))


def damaged(pieces: list[bytes], chance: random.Random) -> list[bytes]:
    """One thing made wrong that still is JSON, or some bytes of it."""
    made, at, other = list(pieces), chance.randrange(len(pieces)), chance.randrange(len(pieces))
    place = chance.randrange(len(made[at]))
    match chance.choice(("drop", "double", "swap", "slice", "value", "value", "value")):
        case "drop":
            del made[at]
        case "double":
            made.insert(other, made[at])
        case "swap":
            made[at], made[other] = made[other], made[at]
        case "slice":
            made[at] = made[at][:place] + bytes(chance.randrange(3)) + made[at][place + chance.randrange(20) :]
        case "value":
            made[at] = with_odd_value(made[at], chance)
    return made or pieces


def with_odd_value(piece: bytes, chance: random.Random) -> bytes:
    """One value, somewhere in the event's JSON, becomes another, or goes."""
    start, brace, rest = piece.partition(b"{")
    try:
        event = json.loads(brace + rest)
    except ValueError:
        return piece
    places: list[tuple[Any, Any]] = []
    left = [event]
    for value in left:  # which grows
        keys = [*value] if isinstance(value, dict) else range(len(value))
        places += [(value, key) for key in keys]
        left += [value[key] for key in keys if isinstance(value[key], dict | list)]
    if places:
        value, key = chance.choice(places)
        value[key] = chance.choice(ODD)
        if chance.random() < 0.2:
            del value[key]
    return start + json.dumps(event).encode() + b"\n\n"


def laws_broken(said: Completion, thought: bool) -> list[str]:
    calls = [block for block in said.content if isinstance(block, ToolUse)]
    ids = [call.id for call in calls]
    laws = {
        "calls when the turn ended by itself, and only then": bool(calls) == (said.stop_reason == TOOL_USE),
        "ids are new": len(set(ids)) == len(ids) and not KNOWN & set(ids),
        "ids and names are there": all(call.id and isinstance(call.name, str) and call.name for call in calls),
        "arguments are strict": all(arguments_of(json.dumps(call.input), "") == call.input for call in calls),
        "something was said": bool(said.content or thought or said.stop_reason != END_TURN),
        "text is text": all(isinstance(block, ToolUse) or block.text.strip() for block in said.content),
        "counts are counts": isinstance(said.usage, Usage) and min(said.usage) >= 0,
        "the model is named": isinstance(said.model, str),
    }
    return [law for law, holds in laws.items() if not holds]


@every_dialect
@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 5000), marks=pytest.mark.long)], ids=str)
def test_no_damaged_stream_is_accepted_that_breaks_a_law(dialect: Dialect, seeds: range) -> None:
    """Some of them are good, or good enough."""
    accepted = 0
    for seed in seeds:
        chance = random.Random(seed)
        pieces = a_stream(dialect, chance)
        for _ in range(chance.randrange(4)):
            pieces = damaged(pieces, chance)
        try:
            reply = heard_by_hand(dialect, pieces)
            said = reply.completion(KNOWN)
        except (BrokenReply, ProviderError):
            continue
        thought = any(part.kind == "thought" for part in reply.parts.values())
        assert laws_broken(said, thought) == [], f"seed {seed}: {pieces}"
        accepted += 1
    assert 0.1 < accepted / len(seeds) < 0.9
