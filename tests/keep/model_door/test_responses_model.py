"""What is the Responses API's own: reasoning that goes back with the call it led to, and ends that others have not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.keep.model_door.errors import BrokenReply, ProviderError, type_of_failure
from infra.keep.model_door.reply import StreamedReply
from infra.keep.model_door.responses import body, take, turn
from infra.keep.model_door.thoughts import Thoughts
from infra.shared.conversation import REFUSAL, TOOL_USE, Completion, Message, Request, Text, ToolResult, ToolUse, Usage
from tests.keep.model_door.dialects import Called, Responses
from tests.keep.model_door.doors import KEY, DoorProcess, a_request
from tests.keep.model_door.peer import Answer, Peer
from tests.keep.model_door.test_conformance import heard_by_hand

MODEL = "gpt-6.1-terra"
SECRET = "gAAAAA-encrypted"
DIALECT = Responses()


def hear(pieces: tuple[bytes, ...]) -> StreamedReply:
    return heard_by_hand(DIALECT, pieces)


def sent(request: Request, model: str, thoughts: Thoughts) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(body(request, model, 9, thoughts).content)
    return made


def sent_back(pieces: tuple[bytes, ...]) -> list[dict[str, Any]]:
    reply = hear(pieces)
    made: list[dict[str, Any]] = json.loads(turn(reply, reply.completion(()))[1])
    return made


def changed(pieces: tuple[bytes, ...], kind: str, **values: Any) -> tuple[bytes, ...]:
    """The pieces with these values in the last event of this kind, or in the item or response that it tells of."""
    place = max(n for n, piece in enumerate(pieces) if f'"{kind}"'.encode() in piece)
    data = json.loads(pieces[place].partition(b"data: ")[2])
    for name, value in values.items():
        (data if name in data else data.get("item") or data["response"])[name] = value
    made = b"event: x\ndata: " + json.dumps(data).encode() + b"\n\n"
    return (*pieces[:place], made, *pieces[place + 1 :])


DONE, COMPLETED = "response.output_item.done", "response.completed"


def after(completion: Completion, text: str = "done") -> tuple[Message, ...]:
    """The conversation behind this answer, as the runner continues it."""
    results = tuple(ToolResult(block.id, text) for block in completion.content if isinstance(block, ToolUse))
    return Message("assistant", completion.content), Message("user", results)


# --- reasoning


def _remembered(pieces: tuple[bytes, ...]) -> tuple[Thoughts, Completion]:
    """A model's memory after it was answered so, and the answer."""
    thoughts = Thoughts()
    place = body(a_request(), MODEL, 9, thoughts).place
    reply = hear(pieces)
    said = reply.completion(())
    thoughts.remember(place, *turn(reply, said))
    return thoughts, said


REASONED = DIALECT.reply(("I look.",), (Called("call_1"), Called("call_2")), reasoning=(SECRET,))


def test_reasoning_goes_back_with_the_calls_that_it_led_to() -> None:
    """Encrypted, as it was when it was done, before the words and calls behind it; nothing is stored there."""
    thoughts, answer = _remembered(REASONED)
    made = sent(a_request(messages=after(answer)), MODEL, thoughts)

    assert (made["store"], made["include"]) == (False, ["reasoning.encrypted_content"])
    assert "include" not in sent(a_request(), "gpt-4.1", Thoughts()), "which would refuse the whole call"
    assert [item["type"] for item in made["input"]] == [
        *("message", "reasoning", "message", "function_call", "function_call"),
        *("function_call_output", "function_call_output"),
    ]
    assert made["input"][1] == {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": SECRET}
    assert SECRET not in repr(answer), "the runner has no part of it"


def test_reasoning_goes_back_to_its_own_place_alone() -> None:
    """Not behind another beginning, nor to words or calls that the model did not send: the runner cannot move it."""
    thoughts, answer = _remembered(REASONED)
    text, first, second = answer.content
    assert isinstance(first, ToolUse)
    others = (
        a_request("another directive", messages=after(answer)),
        a_request(messages=after(answer._replace(content=(Text("I look away."), first, second)))),
        a_request(messages=after(answer._replace(content=(text, first._replace(input={}), second)))),
        a_request(messages=after(answer._replace(content=(text, second, first)))),
    )
    for request in others:
        assert SECRET not in json.dumps(sent(request, MODEL, thoughts))
    assert SECRET in json.dumps(sent(a_request(messages=after(answer)), MODEL, thoughts))


def test_what_the_provider_would_refuse_does_not_go_back() -> None:
    """Reasoning without its encrypted content, which it knows nothing of, and reasoning that nothing follows."""
    bare = (*changed(REASONED[:3], DONE, encrypted_content=None), *REASONED[3:])
    assert [item["type"] for item in sent_back(bare)] == ["message", "function_call", "function_call"]
    last = DIALECT.reply((), (Called("call_1"),), reasoning=(SECRET,))
    behind = (*last[:1], *(p.replace(b'"output_index": 0', b'"output_index": 9') for p in last[3:-1]), *last[1:3])
    end = changed(last[-1:], COMPLETED, output=[])
    assert [item["type"] for item in sent_back((*behind, *end))] == ["function_call"]


def test_the_phase_of_a_text_goes_back() -> None:
    """The provider asks for it: without it, later replies get worse."""
    first = changed(DIALECT.reply(("I look.",), (Called("call_1"),))[:-4], DONE, phase="commentary")
    thoughts, answer = _remembered((*first, *DIALECT.reply(("I look.",), (Called("call_1"),))[-4:]))
    made = sent(a_request(messages=after(answer)), MODEL, thoughts)
    assert made["input"][1] == {"type": "message", "role": "assistant", "content": "I look.", "phase": "commentary"}


def test_the_door_keeps_reasoning_between_calls(tmp_path: Path) -> None:
    """Through a real door: the second request of the same conversation has it, the answers to the runner never."""
    replies = iter((REASONED, DIALECT.reply(("Done.",))))
    with Peer(DIALECT.content_type, lambda body: Answer(next(replies))) as peer:
        model = {"provider": "openai", "base_url": peer.url, "api": "responses"}
        with DoorProcess(tmp_path, {"model": model}, KEY) as door:
            first = door.complete(a_request())
            last = door.complete(a_request(messages=after(first)))
            ledger = door.ledger("settled")

    assert [sent.path for sent in peer.requests] == ["/responses"] * 2
    assert (first.stop_reason, last.content) == (TOOL_USE, (Text("Done."),))
    assert "reasoning" in [item["type"] for item in peer.requests[1].body["input"]]
    assert [line["measured"] for line in ledger] == [True, True]


# --- ends


def test_what_is_refused_is_told_as_that() -> None:
    """The words stay, also of an item that never came to its end."""
    filtered = DIALECT.reply(("So",), reason="content_filter")
    assert hear(filtered).completion(()).stop_reason == REFUSAL
    torn = tuple(piece for piece in filtered if b"output_item.done" not in piece)
    assert hear(torn).completion(()).content == (Text("So"),)
    refused = tuple(
        piece.replace(b"output_text", b"refusal").replace(b'"text": ', b'"refusal": ')
        for piece in DIALECT.reply(("I will not.",))
    )
    assert hear(refused).completion(()) == Completion((Text("I will not."),), REFUSAL, MODEL, Usage(100, 20))


CALLED = DIALECT.reply((), (Called("a"), Called("b")))
OPEN = tuple(piece for piece in CALLED if DONE.encode() not in piece)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (changed(CALLED, DONE, status="in_progress"), "inside a part"),
        (changed(CALLED, DONE, output_index=7), "not open"),
        (changed(CALLED, DONE, arguments='{"command": "rm"}'), "not those that came"),
        (changed(OPEN, COMPLETED, output=[]), "inside a part"),
        (changed(CALLED, COMPLETED, status="in_progress"), "its status is 'in_progress'"),
        (changed(CALLED, COMPLETED, incomplete_details={"reason": "max_output_tokens"}), "says why it is not"),
        (changed(CALLED, COMPLETED, error={"code": "server_error"}), "says why it is not"),
        (CALLED[:-1] + CALLED[-2:-1] + CALLED[-1:], "not open"),
        (CALLED + CALLED[-1:], "behind the end"),
        (CALLED[:1] + CALLED[:1] + CALLED[1:], "began twice"),
        (CALLED[:2] + CALLED[1:], "began twice"),
    ],
)  # fmt: skip
def test_a_reply_whose_parts_contradict_each_other_is_broken(pieces: tuple[bytes, ...], words: str) -> None:
    """No call of it is let through."""
    with pytest.raises(BrokenReply, match=words):
        hear(pieces).completion(())


def test_a_failed_response_is_typed_and_booked_at_what_it_says() -> None:
    """Its error is the provider's; its usage is the last word, unless more was cached than there was."""
    fault = {"code": "rate_limit_exceeded", "message": "slow down"}
    usage = {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 40}}
    told = {"type": "response.failed", "response": {"status": "failed", "error": fault, "usage": usage}}
    reply = hear(CALLED[:3])
    with pytest.raises(ProviderError) as caught:
        take(reply, json.dumps(told).encode())

    assert type_of_failure(200, (caught.value.type,), caught.value.message) == "rate_limited"
    assert (reply.told, reply.is_counted) == (Usage(60, 7, 0, 40), True)
    usage = {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 6}}
    assert not hear(changed(CALLED, COMPLETED, usage=usage)).is_counted
