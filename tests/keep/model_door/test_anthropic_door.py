"""The door with Anthropic's real SDK, against a loopback server that speaks the provider's streaming format.

One door and one server serve almost all tests, because the SDK takes its time to load; each test says what the
server does next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cell.doors import ModelFailure
from infra.shared.conversation import (
    Completion,
    Message,
    Text,
    ToolResult,
    ToolUse,
)
from tests.keep.model_door.doors import KEY, DoorProcess, a_request
from tests.keep.model_door.wire import (
    Answer,
    Broken,
    Counts,
    Reaction,
    Say,
    Status,
    Think,
    Use,
    Wire,
    error_event,
)

IDLE_SECONDS = 3.0
HELLO = Answer((Say("hello"),))
CALLS = Answer((Say("I act."), Use("bash", {"command": "rm -rf build"}), Use("bash", {"command": "ls"})))
SECRET = "words-of-the-conversation-4711"


def settings(wire: Wire, **more: Any) -> dict[str, Any]:
    model = {"provider": "anthropic", "base_url": wire.url, "max_tokens": 1000}
    return {"model": model, "budget": {"daily_usd": 1000}} | more


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire(lambda request: HELLO) as server:
        yield server


@pytest.fixture(scope="module")
def door(wire: Wire, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorProcess]:
    process = DoorProcess(tmp_path_factory.mktemp("door"), settings(wire), key=f"{KEY}\n", idle_seconds=IDLE_SECONDS)
    with process:
        yield process


def ask(door: DoorProcess, wire: Wire, reaction: Reaction, *messages: Message) -> Completion:
    wire.reply = lambda request: reaction
    return door.complete(a_request(SECRET, messages=messages))


def last_settled(door: DoorProcess) -> dict[str, Any]:
    return [line for line in door.ledger() if line["event"] == "settled"][-1]


# --- what works


def test_thoughts_go_back_to_the_provider_and_not_to_the_runner(door: DoorProcess, wire: Wire) -> None:
    """A turn's thoughts come back with its results as long as nothing before them has changed."""
    said = ask(door, wire, Answer((Think("signed-thought"), Use("bash", {"command": "ls"}))))
    assert [type(block) for block in said.content] == [ToolUse]
    call = said.content[0]
    assert isinstance(call, ToolUse)
    rest = (Message("assistant", said.content), Message("user", (ToolResult(call.id, "x"),)))

    ask(door, wire, HELLO, *rest)
    turn = wire.requests[-1].body["messages"][1]["content"]
    assert [block["type"] for block in turn] == ["thinking", "tool_use"]
    assert turn[0] == {"type": "thinking", "thinking": "", "signature": "signed-thought"}

    door.complete(a_request("another directive", messages=rest))
    assert [block["type"] for block in wire.requests[-1].body["messages"][1]["content"]] == ["tool_use"]


# --- faults

CUT_ARGUMENTS = Use("bash", {}, raw='{"command": "rm -rf build"')

FAULTS: dict[str, tuple[Reaction, str, bool]] = {
    # name: what the server does, the failure's type, whether the provider has said what it charges
    "out of credit": (Status(400, "invalid_request_error", "Your credit balance is too low"), "budget_exhausted", True),
    "spend limit": (
        Status(429, "rate_limit_error", "no", details={"error_code": "enforced_spend_limit_reached"}),
        "budget_exhausted",
        True,
    ),
    "overloaded after 200": (
        Broken(CALLS, 9, extra=error_event("overloaded_error", "busy")), "unavailable", False,
    ),
    "ends before message_stop": (Broken(CALLS, -1), "provider_error", True),
    "no message_delta": (Broken(CALLS, drop=("message_delta",)), "provider_error", False),
    "no block starts": (Broken(CALLS, drop=("content_block_start",)), "provider_error", False),
    "no block stops": (Broken(CALLS, drop=("content_block_stop",)), "provider_error", True),
    "one good and one cut call": (Answer((Use("bash", {"a": 1}), CUT_ARGUMENTS)), "provider_error", True),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_a_typed_failure_and_no_call_comes_of_it(door: DoorProcess, wire: Wire, name: str) -> None:
    """Each fault differs in one thing from a reply that works; the ledger has its type, and a price where the
    provider never said what it charges; and the door completes the next conversation."""
    reaction, type, measured = FAULTS[name]
    with pytest.raises(ModelFailure) as caught:
        ask(door, wire, reaction)

    line = last_settled(door)
    assert (caught.value.type, line["error"], line["measured"]) == (type, type, measured), caught.value
    assert len(caught.value.message) < 1000
    if not measured:
        assert line["usd"] > 0
        assert line["input_tokens"] > 0
    assert ask(door, wire, HELLO).content == (Text("hello"),)


# --- money and secrets, after all that


def test_the_ledger_is_the_provider_s_bill(door: DoorProcess, wire: Wire) -> None:
    """Token by token and class by class, over every reply that came to its end; and the day's sum is the ledger's."""
    lines = [line for line in door.ledger() if line["event"] == "settled"]
    good = [line for line in lines if line["stop_reason"] is not None]
    before = len(good)
    wire.billed.clear()
    for counts in (Counts(10, 20, 30, 40), Counts(100, 2, 0, 0), Counts(0, 1, 5, 100_000)):
        ask(door, wire, Answer((Say("x"),), usage=counts))

    good = [line for line in door.ledger() if line["event"] == "settled" and line["stop_reason"] is not None][before:]
    bill = wire.total()
    assert sum(line["input_tokens"] for line in good) == bill.input
    assert sum(line["output_tokens"] for line in good) == bill.output
    assert sum(line["cache_write_tokens"] for line in good) == bill.cache_write
    assert sum(line["cache_read_tokens"] for line in good) == bill.cache_read
    assert [line["usd"] for line in good] == [
        pytest.approx((10 * 4 + 20 * 20 + 30 * 5 + 40 * 0.2) / 1e6),
        pytest.approx((100 * 4 + 2 * 20) / 1e6),
        pytest.approx((1 * 20 + 5 * 5 + 100_000 * 0.2) / 1e6),
    ]


def test_the_key_and_the_conversation_are_nowhere_but_on_the_wire(door: DoorProcess, wire: Wire) -> None:
    """Not in log, ledger, health or failures, even when the provider echoes the key; the control is that both were
    sent."""
    for before in range(400, 500, 10):  # of all lengths, so that the key stands where the message is cut
        with pytest.raises(ModelFailure) as cut:
            ask(door, wire, Status(401, "authentication_error", f"{'x' * before}{KEY} is not valid"))
        assert KEY[:5] not in cut.value.message
    with pytest.raises(ModelFailure) as caught:
        ask(door, wire, Status(401, "authentication_error", f"the key {KEY} is not valid"))

    assert "[secret]" in caught.value.message
    seen = door.log() + Path(door.places.ledger).read_text() + str(door.health()) + str(caught.value)
    assert KEY not in seen
    assert SECRET not in seen
    assert "authorization" not in seen.lower()
    assert wire.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert SECRET in json.dumps(wire.requests[-1].body)
    lines = [json.loads(line) for line in door.log().splitlines()]
    assert "call.settled" in [line["event"] for line in lines]
