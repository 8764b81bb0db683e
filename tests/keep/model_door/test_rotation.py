"""Which model is asked: the next one when one has failed, and none that cannot do what the conversation needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cell.doors import ModelFailure
from infra.keep.model_door.model import CallFailure
from infra.keep.model_door.rotation import (
    BEGIN_SECONDS,
    PAUSE_SECONDS,
    FailedTry,
    Try,
    next_try,
)
from infra.keep.settings.check import parse_settings
from infra.keep.settings.schema import Settings, runner_acts
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import Completion, Text
from tests.keep.model_door.dialects import Chat, Ollama
from tests.keep.model_door.doors import KEY, DoorProcess, a_request
from tests.keep.model_door.peer import Answer, Peer

SLOW_DOWN, AWAY, TOO_LONG = "rate_limited", "unavailable", "context_overflow"


def failure(type: str, retry_after_seconds: float | None = None) -> CallFailure:
    return CallFailure(type, "x", retry_after_seconds)


def walk(outcomes: list[tuple[str, float | None]], models: int, seconds_each: float = 0.0) -> list[Try]:
    """The tries of a call whose tries fail with these outcomes."""
    failed: list[FailedTry] = []
    made: list[Try] = []
    while (following := next_try(failed, models, seconds_each * len(failed))) and len(failed) < len(outcomes):
        made.append(following)
        failed.append(FailedTry(following.model, failure(*outcomes[len(failed)])))
    return made


@pytest.mark.parametrize(
    ("outcomes", "models", "order"),
    [
        ([(AWAY, None)] * 9, 2, [0, 0, 1, 1]),
        ([(AWAY, None)] * 9, 3, [0, 0, 1, 1, 2, 2]),
        ([(AWAY, None)] * 9, 1, [0]),
        ([("authentication", None)] + [(AWAY, None)] * 9, 2, [0, 1, 1]),
        ([("authentication", None)] * 9, 3, [0, 1, 2]),
        ([(AWAY, None), ("authentication", None), (AWAY, None)], 2, [0, 0, 1]),
        ([(TOO_LONG, None)] * 9, 2, [0]),
        ([(AWAY, None), (AWAY, None), (TOO_LONG, None), (AWAY, None)], 3, [0, 0, 1]),
        ([(SLOW_DOWN, 300.0)] * 9, 2, [0, 1]),
    ],
)
def test_the_order_is_twice_each(outcomes: list[tuple[str, float | None]], models: int, order: list[int]) -> None:
    """p1 p1 p2 p2; one model alone once; a refused key and a long wait go on at once; what does not pass ends it."""
    assert [one.model for one in walk(outcomes, models)] == order


@pytest.mark.fault("F69")
def test_the_wait_is_what_the_provider_asks_for() -> None:
    """Before the second try of a model alone, and bounded."""
    tries = walk([(SLOW_DOWN, 7.0), (SLOW_DOWN, 7.0), (AWAY, None), (AWAY, None)], 2)

    assert [one.wait_seconds for one in tries] == [0.0, 7.0, 0.0, PAUSE_SECONDS]


def test_no_try_begins_late() -> None:
    """The client does not wait for ever."""
    assert [one.model for one in walk([(AWAY, None)] * 9, 9, BEGIN_SECONDS / 2)] == [0, 0, 1]


# --- the door

FIRST, SECOND = Chat(), Ollama()
REFUSED = {status: Answer((FIRST.refusal("not now"),), status=status) for status in (401, 429, 503)}
HELLO = Answer(SECOND.reply(("hello",)))


class Providers:
    """Two servers, and a door that knows both."""

    def __init__(self, directory: Path) -> None:
        self.first_says: list[Answer] = []
        self.first = Peer(FIRST.content_type, lambda body: self.first_says.pop(0))
        self.second = Peer(SECOND.content_type, lambda body: HELLO)
        model = {
            "provider": "openai",
            "base_url": self.first.url,
            "then": [{"provider": "ollama", "base_url": self.second.url, "name": "small", "max_tokens": 77}],
        }
        self.door = DoorProcess(directory, {"model": model}, key=KEY, key_name="openai_api_key")

    def lines(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.door.ledger() if line["event"] == event]


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    made = Providers(tmp_path_factory.mktemp("door"))
    with made.first, made.second, made.door:
        yield made


def test_the_next_model_answers_when_the_first_is_away(providers: Providers) -> None:
    """Each try is reserved and settled by itself, under the price of its own model; the log says what failed, and
    neither it nor the ledger holds the key or the conversation."""
    wait = Answer((FIRST.refusal(f"slow down, {KEY}"),), status=429, headers=(("retry-after", "0"),))
    providers.first_says = [wait, REFUSED[503]]
    said = providers.door.complete(a_request("words of the conversation"))

    opened, settled = providers.lines("opened")[-3:], providers.lines("settled")[-3:]
    assert said.content == (Text("hello"),)
    assert [(line["provider"], line["model"]) for line in opened] == [("openai", "gpt-6.1-terra")] * 2 + [
        ("ollama", "small")
    ]
    assert [line["error"] for line in settled] == ["rate_limited", "unavailable", None]
    assert opened[0]["worst_usd"] > 0.0 == opened[2]["worst_usd"]
    assert providers.second.requests[-1].body["options"]["num_predict"] == 77
    assert '"error": "rate_limited", "event": "model.failed"' in providers.door.log()
    assert "words of the conversation" in str(providers.second.requests[-1].body)
    kept = providers.door.log() + str(providers.door.ledger())
    assert not any(hidden in kept for hidden in (KEY, "words of the conversation", "authorization"))


@pytest.mark.fault("F74")
def test_a_refused_key_goes_on_and_shows_in_health(providers: Providers) -> None:
    """Until the provider takes it again."""
    providers.first_says = [REFUSED[401]]
    assert providers.door.complete(a_request("go")).content == (Text("hello"),)
    assert str(providers.door.health().problem).startswith("openai: the provider refused with status 401")

    providers.first_says = [Answer(FIRST.reply(("back",)))]
    assert providers.door.complete(a_request("go")).content == (Text("back"),)
    assert providers.door.health().problem is None


@pytest.mark.fault("F70")
def test_when_all_fail_the_first_failure_is_told_with_the_others_words(tmp_path: Path) -> None:
    """Nobody listens at either address: type and wait are the first one's; a model without a price is not asked."""
    model = {
        "provider": "openai",
        "base_url": "http://127.0.0.1:1",
        "then": [
            {"provider": "openai", "name": "gpt-unheard-of", "base_url": "http://127.0.0.1:1"},
            {"provider": "ollama", "base_url": "http://127.0.0.1:1"},
        ],
    }
    with DoorProcess(tmp_path, {"model": model}, key=KEY, key_name="openai_api_key") as door:
        with pytest.raises(ModelFailure) as caught:
            door.complete()
        problem = str(door.health().problem)
        lines = [json.loads(line) for line in Path(door.places.ledger).read_text().splitlines()]

    assert caught.value.type == "unavailable"
    assert "of the other models: ollama qwen3: unavailable: the connection" in caught.value.message
    assert [line["model"] for line in lines if line["event"] == "opened"] == ["gpt-6.1-terra"] * 2 + ["qwen3"] * 2
    assert "no price is known for the model 'gpt-unheard-of'" in problem


def test_the_settings_alone_tell_the_watcher() -> None:
    """Before any server is asked."""
    assert runner_acts(Settings()) == TOOLS
    for text in ("model: {tools: false}", "model: {then: [{provider: ollama, tools: false}]}"):
        assert runner_acts(parse_settings(text)) == OPERATIONS


def test_a_model_without_tools_gets_none(tmp_path: Path) -> None:
    """The door leaves it out of a conversation that has tools, and says so when no other is left."""
    with DoorProcess(tmp_path, {"model": {"provider": "scripted", "tools": False}}) as door:
        with pytest.raises(ModelFailure, match="the conversation has tools, and scripted demo cannot") as caught:
            door.complete()
        assert caught.value.type == "invalid_request"
        assert isinstance(door.complete(a_request()._replace(tools=())), Completion)
