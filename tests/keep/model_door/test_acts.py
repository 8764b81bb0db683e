"""How a run asks for acts: what all of the models can do, as the settings and Ollama's server say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from infra.cell.model_client import ActsNow, ModelFailure, acts_now
from infra.keep.model_door.acts import Acts
from infra.keep.model_door.background import load_all
from infra.keep.model_door.ollama import OllamaModel
from infra.keep.model_settings import ModelSettings, choices
from infra.keep.settings import Settings, runner_acts
from infra.keep.settings_file import parse_settings
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import ACTS_PATH, Completion
from tests.keep.model_door.doors import DoorProcess, a_request
from tests.keep.model_door.peer import Answer, Peer
from tests.shared.rows import each_row

SHOW = "/api/show"


def shown(*capabilities: str) -> Answer:
    return Answer((json.dumps({"capabilities": list(capabilities), "details": {}}).encode(),))


def chosen(url: str, times: int = 1, **settings: Any) -> list[str]:
    """For a model of Ollama's at `url`, asked so often."""
    return asked(url, times, **settings)[0]


def asked(url: str, times: int = 1, **settings: Any) -> tuple[list[str], list[str]]:
    """And which models are known to have no tools then."""
    raw = {"provider": "ollama", "base_url": url} | settings
    read = msgspec.convert(raw, ModelSettings)
    models = [OllamaModel(choice, 5.0) for choice in choices(read, ())]
    load_all([thing for model in models for thing in model.loads])
    found = Acts(read, models)

    async def ask() -> list[str]:
        return [await found.chosen() for _ in range(times)]

    return asyncio.run(ask()), found.lacking


@each_row(
    "answer, wanted",
    [
        (shown("completion", "tools"), TOOLS),
        (shown("completion"), OPERATIONS),
        (Answer((b'{"details": {}}',)), TOOLS),  # a server that is too old to say
        (Answer((b'{"error": "model not found"}',), status=404), OPERATIONS),
        (Answer((b"<html>",)), OPERATIONS),
        (Answer((b"[]",)), OPERATIONS),
        (Answer((b'{"capabilities": 7}',)), TOOLS),
    ],
)
def test_ollama_is_asked_what_its_model_can_do(answer: Answer, wanted: str) -> None:
    """A server that says nothing leaves what every model can do."""
    with Peer("application/json", lambda _: answer) as peer:
        assert chosen(peer.url) == [wanted]
        [asked] = peer.requests
        assert (asked.path, asked.body) == (SHOW, {"model": "qwen3"})


def test_a_server_that_is_away_or_silent_is_asked_again() -> None:
    """What it said is remembered; that it said nothing is not."""
    assert asked("http://127.0.0.1:9", times=2) == ([OPERATIONS] * 2, [])
    answers = [Answer(status=503), shown("tools"), shown()]
    with Peer("application/json", lambda _: answers.pop(0)) as peer:
        assert chosen(peer.url, times=4) == [OPERATIONS, TOOLS, TOOLS, TOOLS]


def test_one_model_without_tools_decides_for_all() -> None:
    """Also one that is asked only when the first cannot answer; and the settings have the last word."""
    can = {"big": shown("tools"), "small": shown()}
    with Peer("application/json", lambda body: can[body["model"]]) as peer:

        def of(*names: str, **settings: Any) -> str:
            then = [{"provider": "ollama", "name": name, "base_url": peer.url} for name in names[1:]]
            return chosen(peer.url, name=names[0], then=then, **settings)[0]

        assert of("big") == of("big", "big") == TOOLS
        assert asked(peer.url, name="small") == ([OPERATIONS], ["small"])
        assert of("big", "small") == of("small", "big") == OPERATIONS
        assert of("big", tools=False) == OPERATIONS
        assert of("small", tools=True) == TOOLS


def test_a_later_model_that_is_away_changes_nothing_and_gets_no_tools_when_it_is_back(tmp_path: Path) -> None:
    """It is asked when its turn comes: what is sent to it then is no conversation with tools."""
    away = {"provider": "ollama", "name": "small", "base_url": "http://127.0.0.1:9"}
    with Peer("application/json", lambda body: shown("tools")) as peer:
        assert chosen(peer.url, name="big", then=[away]) == [TOOLS]
    with Peer("application/json", lambda body: shown()) as peer:
        first = {"provider": "openai", "name": "big", "base_url": "http://127.0.0.1:9/v1"}
        settings = {
            "model": first | {"then": [away | {"base_url": peer.url}], "prices": {"big": {"input": 1, "output": 1}}}
        }
        with (
            DoorProcess(tmp_path, settings, key="sk-test", key_name="openai_api_key") as door,
            pytest.raises(ModelFailure, match="small has no tools, as its server says now"),
        ):
            door.complete()
        assert {request.path for request in peer.requests} == {SHOW}


def test_the_settings_alone_tell_the_watcher() -> None:
    """Before any server is asked."""
    assert runner_acts(Settings()) == TOOLS
    for text in ("model: {tools: false}", "model: {then: [{provider: ollama, tools: false}]}"):
        assert runner_acts(parse_settings(text)) == OPERATIONS


def test_a_model_without_tools_gets_none(tmp_path: Path) -> None:
    """The door leaves it out of a conversation that has tools, and says so when no other is left."""
    with DoorProcess(tmp_path, {"model": {"provider": "scripted", "tools": False}}) as door:
        assert acts_now(door.places.model_socket, 5.0) == ActsNow(OPERATIONS, True)
        assert door.get(ACTS_PATH) == {"acts": OPERATIONS, "lacking": ["demo"]}
        with pytest.raises(ModelFailure, match="the conversation has tools, and demo cannot call any") as caught:
            door.complete()
        assert caught.value.type == "invalid_request"
        assert isinstance(door.complete(a_request()._replace(tools=())), Completion)
    assert acts_now(door.places.model_socket, 5.0) is None
