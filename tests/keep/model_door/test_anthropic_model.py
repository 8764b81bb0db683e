"""Anthropic's adapter with the real SDK, inside the test's own process: what needs short limits or no server."""

from __future__ import annotations

import asyncio
import socket

import pytest

from infra.keep.model_door.keys import Key
from infra.keep.model_door.messages import MESSAGES, ClaudeModel
from infra.keep.model_door.model import NOTHING, CallFailure
from infra.keep.model_settings import Choice
from infra.shared.conversation import END_TURN, Completion
from tests.keep.model_door.doors import KEY, a_request
from tests.keep.model_door.wire import Answer, Reaction, Say, Wire


def a_model(url: str, key: Key) -> ClaudeModel:
    return ClaudeModel(Choice("anthropic", "claude-opus-5-5", url, 1000), MESSAGES, 10.0, key)


def ask(url: str) -> Completion:
    model = a_model(url, Key(KEY, None))

    async def call() -> Completion:
        try:
            return (await model.prepare(a_request()).make()).completion
        finally:
            await (await model.load()).close()

    return asyncio.run(call())


def test_a_provider_that_cannot_be_reached_costs_nothing() -> None:
    """Nothing was sent, so nothing is charged; the same call to a listening server is completed."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

    with pytest.raises(CallFailure) as caught:
        ask(f"http://127.0.0.1:{port}")

    assert (caught.value.type, caught.value.usage) == ("unavailable", NOTHING)
    assert "ConnectError" in caught.value.message
    with Wire(lambda request: Answer((Say("x"),))) as wire:
        assert ask(wire.url).stop_reason == END_TURN


def test_a_server_that_does_not_speak_tls_is_unavailable() -> None:
    """The key is not sent to a server that cannot prove who it is."""
    with Wire(lambda request: Answer((Say("x"),))) as wire:
        with pytest.raises(CallFailure) as caught:
            ask(wire.url.replace("http://", "https://"))
        assert wire.requests == []

    assert (caught.value.type, caught.value.usage) == ("unavailable", NOTHING)


@pytest.mark.parametrize(
    ("key", "url", "type"),
    [
        (Key(None, "no key there"), "http://127.0.0.1:1", "authentication"),
        (Key(KEY, None), "http://provider.example", "invalid_request"),
    ],
)
def test_a_call_that_cannot_work_is_not_prepared(key: Key, url: str, type: str) -> None:
    """Neither the SDK nor the budget has anything to do with it."""
    model = a_model(url, key)

    with pytest.raises(CallFailure) as caught:
        model.prepare(a_request())

    assert (caught.value.type, caught.value.message) == (type, model.problem)


def test_a_mistake_in_a_test_s_reply_is_raised_in_the_test() -> None:
    """The server of these tests hides no failure of the callable that drives it."""

    def reply(request: object) -> Reaction:
        raise LookupError("no such reply")

    with pytest.raises(LookupError), Wire(reply) as wire, pytest.raises(CallFailure, match="no such reply"):
        ask(wire.url)
