"""The door as a process, with the scripted model: how it starts, answers, refuses, ends, and keeps its budget."""

from __future__ import annotations

import os
import random
import signal
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from infra.cell.doors import ModelFailure
from infra.keep.model_door.keys import read_key
from infra.keep.model_door.model import CallFailure
from infra.keep.model_door.rotation import BEGIN_SECONDS, PAUSE_SECONDS, FailedTry, Try, next_try
from infra.keep.settings.check import parse_settings
from infra.keep.settings.schema import Settings, runner_acts
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import END_TURN, TOOL_USE, Completion, Message, ModelHealth, Text, ToolUse, Usage
from infra.shared.exit_codes import Exit
from infra.shared.secret_shapes import redacted
from tests.cell.loop.waiting import wait_for
from tests.keep.model_door.dialects import Chat, Ollama
from tests.keep.model_door.doors import KEY, SECONDS, DoorProcess, a_request
from tests.keep.model_door.peer import Answer, Peer
from tests.shared.rows import each_row

SCRIPT = """
scenes:
  - name: short
    when: {directive: "^be short"}
    replies:
      - {text: "Yes."}
  - name: act
    replies:
      - text: "I act."
        tools: [{name: bash, input: {command: "true"}}]
"""


def scripted(directory: Path, budget: dict[str, Any] | None = None) -> DoorProcess:
    """A door, not started, whose script stands beside its settings."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "script.yaml").write_text(SCRIPT)
    prices = {"script.yaml": {"input": 1, "output": 1, "cache_write": 1}}
    model = {"provider": "scripted", "name": "script.yaml", "max_tokens": 100, "prices": prices}
    return DoorProcess(directory, {"model": model, "budget": budget or {}})


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorProcess]:
    """One door for the tests that leave it as it was."""
    with scripted(tmp_path_factory.mktemp("door")) as started:
        yield started


def test_the_door_is_well_and_completes_a_conversation(door: DoorProcess) -> None:
    """A tool call comes back whole, and the next turn follows from the conversation. Health needs no call."""
    assert stat.S_IMODE(os.stat(door.places.model_socket).st_mode) == 0o666  # its directory says who comes in
    assert door.health() == ModelHealth("scripted", "script.yaml")
    said = door.complete()
    assert said.stop_reason == TOOL_USE
    assert said.content == (Text("I act."), ToolUse("scripted-0-0", "bash", {"command": "true"}))
    end = door.complete(a_request(messages=(Message("assistant", said.content),)))
    assert end.stop_reason == END_TURN


@pytest.mark.attack("S16")
def test_a_request_that_is_none_is_refused(door: DoorProcess) -> None:
    """With what is wrong; the door lives on; nothing is written to the ledger."""
    before = door.ledger()
    failure = door.say(b'{"do":"../secrets/anthropic_api_key"}')["failure"]
    assert (failure["type"], "retry_after_seconds" in failure) == ("invalid_request", False)
    assert "$.do" in failure["message"]
    assert door.ledger() == before


def test_a_request_over_the_limit_is_refused(door: DoorProcess) -> None:
    """A conversation that no provider takes is an overflow, whatever is in it; one below the limit is read."""
    with pytest.raises(ModelFailure) as caught:
        door.complete(a_request("x" * (40 << 20)))
    assert caught.value.type == "context_overflow"
    assert door.complete(a_request("x" * 5_000_000)).content


@pytest.mark.parametrize(
    ("settings", "status", "named"),
    [
        ({"model": {"provider": "oracle"}}, Exit.CONFIG, "oracle"),
        ({"modle": {}}, Exit.CONFIG, "modle"),
        ({"model": {"provider": "scripted", "name": "missing.yaml"}}, Exit.CONFIG, "missing.yaml"),
        ({"model": {"provider": "scripted", "name": "bad.yaml"}}, Exit.CONFIG, "scene 'x'"),
        ({}, Exit.FAILURE, "ledger.jsonl"),
    ],
)
def test_a_door_that_cannot_start_says_why(tmp_path: Path, settings: dict[str, Any], status: int, named: str) -> None:
    """Settings and scripts are read before anything else, and there is no door without accounts; the exit status tells
    which kind it is."""
    (tmp_path / "bad.yaml").write_text('scenes: [{name: x, when: {comms: "("}, replies: []}]')
    door = DoorProcess(tmp_path, settings)
    os.makedirs(door.places.ledger)

    assert door.launch().wait(SECONDS) == status
    assert named in door.reason
    assert not os.path.lexists(door.places.model_socket)
    door.stop()


# --- waiting and leaving


def test_the_door_leaves_when_asked(tmp_path: Path) -> None:
    """SIGTERM ends it with 0, also in the middle of a call; the caller is told; the call that was under way
    keeps its worst case over the restart."""
    with (
        ThreadPoolExecutor() as callers,
        Peer("", lambda body: Answer((), "silence")) as peer,
        DoorProcess(tmp_path, {"model": {"provider": "ollama", "base_url": peer.url}}) as door,
    ):
        called = callers.submit(door.complete)
        wait_for(lambda: door.ledger("opened"), "a call")
        assert door.signal(signal.SIGTERM) == Exit.OK
        with pytest.raises(ModelFailure) as caught:
            called.result(SECONDS)
        assert caught.value.type == "unavailable"
        assert '"level": "error"' not in door.log
        door.start()
        assert door.signal(signal.SIGTERM) == Exit.OK
        assert [line["event"] for line in door.ledger()] == ["opened"]


# --- budget


@pytest.mark.attack("S17")
@pytest.mark.heavy
def test_the_budget_survives_kill_9_under_load(tmp_path: Path) -> None:
    """Eight callers at once and a door that is killed at random moments: what was used and what may have been used
    stay within the limit over all of its lives, and every call that was answered is in the ledger."""
    chance, answered = random.Random(4711), list[int]()
    enough, refused = threading.Event(), threading.Event()
    limit = 30_000  # enough for all lives: each kill costs the worst case of the calls that it cut
    door = scripted(tmp_path, {"daily_usd": limit / 10**6})

    def call() -> None:
        while not enough.is_set():
            try:
                usage = door.complete(a_request("be short")).usage
            except ModelFailure as failure:
                if failure.type == "budget_exhausted":
                    refused.set()
                enough.wait(0.01)
            else:
                answered.append(sum(usage))

    callers = [threading.Thread(target=call) for _ in range(8)]
    try:
        door.start()
        for caller in callers:
            caller.start()
        for _ in range(4):
            count = len(answered)
            wait_for(lambda count=count: len(answered) > count + 2, "three answers more")  # type: ignore[misc]
            time.sleep(chance.random() * 0.05)
            door.signal(signal.SIGKILL)
            with open(door.places.ledger, "ab") as ledger:
                ledger.write(b'{"event":"opened","id":"torn","wor')
            door.start()
        wait_for(refused.is_set, "a refusal")
    finally:
        enough.set()
        for caller in callers:
            caller.join(SECONDS)
        door.stop()

    opened = {line["id"]: line["worst_tokens"] for line in door.ledger("opened")}
    settled = {line["id"]: sum(line[name] for name in Usage.__struct_fields__) for line in door.ledger("settled")}
    assert set(settled) <= set(opened)
    assert sum(settled.get(id, worst) for id, worst in opened.items()) <= limit
    assert sum(answered) <= sum(settled.values())
    assert len(opened) > len(settled) >= len(answered) > 8


# The key's file.


def a_file(path: Path, content: bytes, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        *((content, 0o600, "") for content in (KEY, f"{KEY}\n", f"  {KEY}\r\n")),
        *((content, 0o600, "does not hold a key") for content in ("", "two words", "schlüssel", "x" * 5000)),
        (KEY, 0o640, "mode 0640"),
        (KEY, 0o604, "mode 0604"),
    ],
)
def test_a_key_is_read_or_the_reason_is_told(tmp_path: Path, content: str, mode: int, problem: str) -> None:
    """Without the white space that people's editors add, and never shown; none that others can read."""
    key = read_key(a_file(tmp_path / "key", content.encode(), mode))
    assert (key.value, bool(key.problem)) == (None if problem else KEY, bool(problem))
    assert problem in (key.problem or "")
    assert KEY not in f"{key!r}{key.problem}"
    assert problem or redacted(f"bad key {KEY}!", key.known) == "bad key [secret]!"


def test_what_is_no_file_gives_no_key(tmp_path: Path) -> None:
    """A missing file, a directory, a pipe or a link is named, and a pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "link").symlink_to(a_file(tmp_path / "real", KEY.encode()))

    assert read_key(str(tmp_path / "real")).value == KEY
    for name in ("anthropic_api_key", "openai_api_key"):
        assert f"; set {name.upper()} and" in (read_key(str(tmp_path / name)).problem or "")
    for path in (tmp_path / "link", tmp_path / "pipe"):
        assert "not a regular file" in (read_key(str(path)).problem or "")


# Which model is asked: the next one when one has failed, and none that cannot do what the conversation needs.


SLOW_DOWN, AWAY, TOO_LONG, NO_KEY = "rate_limited", "unavailable", "context_overflow", "authentication"


def walk(outcomes: list[tuple[str, float | None]], models: int, seconds_each: float = 0.0) -> list[Try]:
    """The tries of a call whose tries fail with these outcomes."""
    failed: list[FailedTry] = []
    made: list[Try] = []
    while (following := next_try(failed, models, seconds_each * len(failed))) and len(failed) < len(outcomes):
        made.append(following)
        type, wait = outcomes[len(failed)]
        failed.append(FailedTry(following.model, CallFailure(type, "x", wait)))
    return made


@each_row(
    "types, models, order",
    [
        ([AWAY] * 9, 2, [0, 0, 1, 1]),
        ([AWAY] * 9, 3, [0, 0, 1, 1, 2, 2]),
        ([AWAY] * 9, 1, [0]),
        ([NO_KEY] + [AWAY] * 9, 2, [0, 1, 1]),
        ([NO_KEY] * 9, 3, [0, 1, 2]),
        ([AWAY, NO_KEY, AWAY], 2, [0, 0, 1]),
        ([TOO_LONG] * 9, 2, [0]),
        ([AWAY, AWAY, TOO_LONG, AWAY], 3, [0, 0, 1]),
        ([SLOW_DOWN] * 9, 2, [0, 1]),
    ],
)
def test_the_order_is_twice_each(types: list[str], models: int, order: list[int]) -> None:
    """p1 p1 p2 p2; one model alone once; a refused key and a long wait go on at once; what does not pass ends it."""
    outcomes = [(type, 300.0 if type == SLOW_DOWN else None) for type in types]
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
        then = [{"provider": "ollama", "base_url": self.second.url, "name": "small", "max_tokens": 77}]
        model = {"provider": "openai", "base_url": self.first.url, "then": then}
        self.door = DoorProcess(directory, {"model": model}, KEY)


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

    opened, settled = (providers.door.ledger(event)[-3:] for event in ("opened", "settled"))
    assert said.content == (Text("hello"),)
    assert [line["model"] for line in opened] == ["gpt-6.1-terra", "gpt-6.1-terra", "small"]
    assert [line["error"] for line in settled] == ["rate_limited", "unavailable", None]
    assert opened[0]["worst_usd"] > 0.0 == opened[2]["worst_usd"]
    assert providers.second.requests[-1].body["options"]["num_predict"] == 77
    assert '"error": "rate_limited", "event": "model.failed"' in providers.door.log
    assert "words of the conversation" in str(providers.second.requests[-1].body)
    kept = providers.door.log + str(providers.door.ledger())
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
    model, nobody = {"provider": "openai", "base_url": "http://127.0.0.1:1"}, {"base_url": "http://127.0.0.1:1"}
    then = [model | {"name": "gpt-unheard-of"}, nobody | {"provider": "ollama"}]
    with DoorProcess(tmp_path, {"model": model | {"then": then}}, KEY) as door:
        with pytest.raises(ModelFailure) as caught:
            door.complete()
        problem = str(door.health().problem)
        asked = [line["model"] for line in door.ledger("opened")]

    assert caught.value.type == "unavailable"
    assert "of the other models: ollama qwen3: unavailable: the connection" in caught.value.message
    assert asked == ["gpt-6.1-terra"] * 2 + ["qwen3"] * 2
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
