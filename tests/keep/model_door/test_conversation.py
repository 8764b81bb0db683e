"""The conversation's form on the wire between runner and door."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from infra.keep.model_door.incoming import read_request
from infra.keep.model_door.model import CallFailure
from infra.shared.conversation import (
    Completion,
    Request,
    completion_from_dict,
    request_from_dict,
    to_plain,
)
from tests.keep.model_door.conversations import completions, requests
from tests.keep.model_door.doors import a_request


@given(requests)
def test_a_request_comes_back_from_json_as_it_was(request: Request) -> None:
    """Writing a request as JSON and reading it gives the same request."""
    assert request_from_dict(json.loads(json.dumps(to_plain(request)))) == request


@given(completions)
def test_a_completion_comes_back_from_json_as_it_was(completion: Completion) -> None:
    """Writing a completion as JSON and reading it gives the same completion."""
    assert completion_from_dict(json.loads(json.dumps(to_plain(completion)))) == completion


@given(requests)
def test_the_door_reads_a_request_as_written_or_says_what_is_wrong(request: Request) -> None:
    """The door's strict reading either gives what the runner wrote or refuses with an invalid_request."""
    body = json.dumps(to_plain(request)).encode()
    try:
        outcome: object = read_request(body)
    except CallFailure as failure:
        outcome = failure.type

    assert outcome in (request, "invalid_request")


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("usage", "input_tokens", -1),
        ("usage", "output_tokens", 2**53 + 1),
        ("usage", "cache_read_tokens", 10**30),
    ],
)
def test_a_count_that_none_can_be_is_no_completion(part: str, key: str, value: float) -> None:
    """Else whoever reckons with it ends by an OverflowError."""
    raw = to_plain(Completion((), "end_turn", "m"))
    assert completion_from_dict(raw).stop_reason == "end_turn"
    raw[part][key] = value
    with pytest.raises(ValueError, match=key):
        completion_from_dict(raw)


def test_a_plain_request_is_read() -> None:
    """The control of the refusals below: the request that they damage is a good one."""
    assert read_request(json.dumps(to_plain(a_request())).encode()) == a_request()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda raw: raw.pop("messages"), "messages"),
        (lambda raw: raw.update(system="one string"), "$.system"),
        (lambda raw: raw.update(surprise=1), "surprise"),
        (lambda raw: raw["messages"][0].update(role="system"), "$.messages[0].role"),
        (lambda raw: raw["messages"][0]["content"].append({"type": "image"}), "$.messages[0].content[1]"),
        (lambda raw: raw["messages"][0]["content"].append({"type": "text"}), "$.messages[0].content[1]"),
        (lambda raw: raw["messages"][0]["content"][0].update(text=5), "$.messages[0].content[0].text"),
        (lambda raw: raw["tools"][0].update(input_schema=[]), "$.tools[0].input_schema"),
        (lambda raw: raw.update(run=7), "$.run"),
        (lambda raw: raw.update(messages=[]), "messages: the first one"),
        (lambda raw: raw["messages"][0].update(role="assistant"), "messages: the first one"),
        (lambda raw: raw["messages"].append(_result("user", "call-1")), "no tool_use before it"),
        (lambda raw: raw["messages"].append(_use("user", "call-1")), "user message"),
        (lambda raw: raw["messages"].extend([_use("assistant", "a"), _use("assistant", "a")]), "used twice"),
        (lambda raw: raw["messages"].extend([_use("assistant", "a"), _result("assistant", "a")]), "assistant message"),
    ],
)
def test_a_damaged_request_is_refused_by_name(damage: object, named: str) -> None:
    """What is wrong with a request, and where, stands in the refusal."""
    raw = json.loads(json.dumps(to_plain(a_request())))
    damage(raw)  # type: ignore[operator]

    with pytest.raises(CallFailure) as caught:
        read_request(json.dumps(raw).encode())

    assert caught.value.type == "invalid_request"
    assert named in caught.value.message


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"system": "\\ud800"}']
)
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    """Anything at all can arrive; none of it is more than an invalid_request."""
    with pytest.raises(CallFailure) as caught:
        read_request(body)

    assert caught.value.type == "invalid_request"


def _use(role: str, id: str) -> dict[str, object]:
    return {"role": role, "content": [{"type": "tool_use", "id": id, "name": "bash", "input": {}}]}


def _result(role: str, id: str) -> dict[str, object]:
    return {"role": role, "content": [{"type": "tool_result", "tool_use_id": id, "content": "", "is_error": False}]}
