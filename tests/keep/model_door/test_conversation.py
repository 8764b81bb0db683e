"""The conversation's form on the wire between runner and door."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given

from infra.keep.model_door.app import REQUESTS, failure_of
from infra.shared.conversation import (
    Complete,
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


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda raw: raw.pop("messages"), "messages"),
        (lambda raw: raw.update(system="one string"), "$.request.system"),
        (lambda raw: raw.update(surprise=1), "surprise"),
        (lambda raw: raw["messages"][0].update(role="system"), "$.request.messages[0].role"),
        (lambda raw: raw["messages"][0]["content"].append({"type": "image"}), "$.request.messages[0].content[1]"),
        (lambda raw: raw["messages"][0]["content"][0].update(text=5), "$.request.messages[0].content[0].text"),
        (lambda raw: raw["tools"][0].update(input_schema=[]), "$.request.tools[0].input_schema"),
        (lambda raw: raw.update(run=7), "$.request.run"),
    ],
)
def test_a_damaged_request_is_refused_by_name(damage: Callable[[dict[str, Any]], None], named: str) -> None:
    """What is wrong with a request, and where, stands in the refusal; what else is wrong the provider names."""
    whole = msgspec.json.encode(Complete(a_request()))
    assert msgspec.json.decode(whole, type=REQUESTS) == Complete(a_request())
    raw = json.loads(whole)
    damage(raw["request"])
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(json.dumps(raw), type=REQUESTS)
    failure = failure_of(caught.value)
    assert failure.type == "invalid_request"
    assert named in failure.message
