"""Images in a conversation, and what calls with them cost."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.doors import ModelFailure
from infra.keep.ledger.budgets import Used, by_label
from infra.keep.ledger.lines import Cost, Ledger
from infra.keep.ledger.prices import Rates, Tariff, cost, most_image_tokens
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.app import ModelDoor
from infra.keep.model_door.model import Answer, Call, CallFailure
from infra.keep.model_door.models import Offer
from infra.shared.conversation import (
    END_TURN,
    MOST_IMAGE_CHARS,
    Completion,
    Image,
    Message,
    Request,
    Text,
    ToolResult,
    ToolUse,
    Usage,
    to_plain,
)
from tests.keep.model_door.dialects import Anthropic, Chat, Counted, Dialect, Ollama, Responses
from tests.keep.model_door.doors import KEY, DoorProcess, a_request
from tests.keep.model_door.peer import Answer as Sent
from tests.keep.model_door.peer import Peer
from tests.keep.model_door.test_conformance import asked, every_dialect

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
DOT = Image("image/png", base64.b64encode(PNG).decode())
LARGE = Image("image/png", base64.b64encode(PNG + b"\0" * 3_000_000).decode())


def images_in(value: Any) -> list[Any]:
    """Everything in a request that holds the image's data, innermost."""
    if isinstance(value, str):
        return [value] if DOT.data in value else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for each in inner for found in images_in(each)]


# --- images in a conversation


SHOWN = (
    Message("assistant", (ToolUse("call_1", "read_file", {"path": "dot.png"}),)),
    Message("user", (ToolResult("call_1", "dot.png", images=(DOT,)), Text("See?"), DOT)),
)


@every_dialect
def test_images_reach_the_provider_in_its_form(dialect: Dialect) -> None:
    """One of a user's message and one of a result, which follows it where results can hold none."""
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("ok",)))) as peer:
        model = dialect.model(peer.url)
        asyncio.run(asked(model, a_request(messages=SHOWN)))
        body = peer.requests[0].body
    assert len(images_in(body)) == 2
    last: dict[str, Any] = (body["input"] if "input" in body else body["messages"])[-1]
    url = f"data:image/png;base64,{DOT.data}"
    source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT.data}}
    match dialect:
        case Anthropic():
            result, text, image = last["content"]
            assert result["content"] == [{"type": "text", "text": "dot.png"}, source]
            assert (text["text"], {**image, "cache_control": 0}) == ("See?", {**source, "cache_control": 0})
        case Responses():
            seen: dict[str, Any] = {"type": "input_image", "detail": "auto", "image_url": url}
            assert body["input"][-2]["output"] == [{"type": "input_text", "text": "dot.png"}, seen]
            assert last["content"] == [{"type": "input_text", "text": "See?"}, seen]
        case Chat():
            seen = {"type": "image_url", "image_url": {"url": url}}
            assert body["messages"][-2]["content"] == "dot.png"
            words = [{"type": "text", "text": said} for said in ("Shown by the call call_1:", "See?")]
            assert last["content"] == [words[0], seen, seen, words[1]]
        case Ollama():
            assert body["messages"][-2]["content"] == "dot.png"
            assert last["images"] == [DOT.data] * 2
            assert last["content"] == "Shown by the call call_1:\n\nSee?"


@every_dialect
def test_a_model_that_sees_nothing_is_told_what_there_was(dialect: Dialect) -> None:
    """Kind and size, no data."""
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("ok",)))) as peer:
        model = dialect.model(peer.url)
        model.sees = False
        asyncio.run(asked(model, a_request(messages=SHOWN)))
        said = dialect.sent(peer.requests[0].body)
    words = f"[image: image/png, {len(PNG)} bytes]"
    assert ("result", "call_1", f"dot.png\n{words}") in said
    assert words in "".join(text for kind, text, *_ in said if kind == "user")
    assert images_in(peer.requests[0].body) == []


@every_dialect
def test_an_image_is_reserved_by_what_it_can_cost_and_not_by_its_bytes(dialect: Dialect) -> None:
    """Four megabytes are no four million tokens; and a small count behind them is a count."""
    model = dialect.model()
    plain = model.prepare(a_request()).most
    seen = model.prepare(a_request(messages=(Message("user", (LARGE,)),))).most
    most = most_image_tokens("any other model")
    assert most <= seen.input_tokens - plain.input_tokens <= most + 1000
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("ok",), counted=Counted(1600, 2)))) as peer:
        model = dialect.model(peer.url)
        answer = asyncio.run(asked(model, a_request(messages=(Message("user", (LARGE,)),))))
    assert (answer.measured, answer.completion.usage) == (True, Usage(1600, 2))


def test_a_model_that_counts_images_as_more_has_more_reserved() -> None:
    """gpt-4o-mini: eight tiles at most, 2,833 + 8 * 5,667 tokens."""
    model = Chat().model()
    model.name = "gpt-4o-mini-2024-07-18"
    reserved = model.prepare(a_request(messages=(Message("user", (DOT,)),))).most
    assert reserved.input_tokens > 2_833 + 8 * 5_667


def test_what_is_no_image_is_refused_by_the_door(tmp_path: Path) -> None:
    """A provider would refuse it, and every later call of a conversation that holds it."""
    with DoorProcess(tmp_path, {"model": {"provider": "scripted"}}) as door:

        def refused(**changed: str) -> str:
            messages = [{"role": "user", "content": [to_plain(DOT) | changed]}]
            request = {"do": "complete", "request": {"system": [], "messages": messages, "tools": []}}
            failure = door.send(json.dumps(request).encode())["failure"]
            return f"{failure['type']}: {failure['message']}"

        assert "not base64" in refused(data="%%%%")
        assert "is image/png, and says that it is image/gif" in refused(media_type="image/gif")
        assert "is none" in refused(data="AAAA")
        assert "Invalid enum value 'image/bmp'" in refused(media_type="image/bmp")
        assert f"<= {MOST_IMAGE_CHARS}" in refused(data="A" * (MOST_IMAGE_CHARS + 4))


def test_a_question_about_an_image_is_a_call_like_any_other(tmp_path: Path) -> None:
    """Reserved and settled under the run's name; answered by words; a refusal is a failure, what was cut says so."""
    dialect = Responses()
    replies = iter(("completed", "max_output_tokens", "content_filter"))
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("A dot.",), reason=next(replies)))) as peer:
        model = {"provider": "openai", "base_url": peer.url, "api": "responses"}
        with DoorProcess(tmp_path, {"model": model}, KEY, "openai_api_key") as door:
            assert door.model.vision(PNG, "What is it?", 10.0, "run-7") == "A dot."
            opened, settled = door.ledger()
            assert door.model.vision(PNG, "?") == "A dot.\n[cut at the limit of tokens]"
            with pytest.raises(ModelFailure, match="the model refused: A dot"):
                door.model.vision(PNG, "?")
    (item,) = peer.requests[0].body["input"]
    assert [part["type"] for part in item["content"]] == ["input_image", "input_text"]
    assert (opened["run"], settled["id"]) == ("run-7", opened["id"])


def test_the_next_model_is_asked_when_the_first_sees_nothing(tmp_path: Path) -> None:
    """Without a try of the first, which never will; and when none does, that is what is told, at no cost."""
    dialect = Chat()
    with Peer(dialect.content_type, lambda body: Sent(dialect.reply(("A dot.",)))) as peer:
        seeing = {"provider": "openai", "base_url": peer.url, "api": "chat"}
        settings = {"model": {"provider": "scripted", "then": [seeing]}}
        with DoorProcess(tmp_path / "two", settings, KEY, "openai_api_key") as door:
            assert door.model.vision(PNG, "What is it?") == "A dot."
            assert [line["provider"] for line in door.ledger()] == ["openai"] * 2
        with DoorProcess(tmp_path / "none", {"model": {"provider": "ollama", "base_url": peer.url}}) as door:
            with pytest.raises(ModelFailure, match="ollama qwen3 takes no images") as caught:
                door.model.vision(PNG, "What is it?")
            assert (caught.value.type, door.ledger()) == ("tool_unavailable", [])
            with pytest.raises(ModelFailure, match="no image that models take"):
                door.model.vision(b"<svg>", "What is it?")
    assert len(peer.requests) == 1


# --- money


class Spender:
    """A model whose calls can take `most`, and take what they are told to, or fail."""

    provider, name, sees, problem = "openai", "m", True, None

    def __init__(self) -> None:
        self.calls: list[tuple[Usage, Answer | CallFailure]] = []
        self.taken: list[Usage] = []
        self.most = Usage()

    async def load(self) -> None:
        """There is nothing to load."""

    def prepare(self, request: Request) -> Call:
        self.most = self.calls[-1][0]
        return self

    async def make(self) -> Answer:
        _, does = self.calls[-1]
        usage = does.usage if isinstance(does, CallFailure) else does.completion.usage
        self.taken.append(self.most if usage is None else usage)
        if isinstance(does, CallFailure):
            raise does
        return does


TARIFF = Tariff(Rates(1_000, 5_000, 1_250, 100))
shares = st.floats(0, 1)
outcomes = st.tuples(
    st.integers(0, 4000),
    st.integers(0, 400),
    shares,
    shares,
    st.sampled_from(["answer", "unmeasured", "failure", "unknown"]),
)


@given(st.lists(outcomes, max_size=30), st.integers(0, 20_000))
def test_no_sequence_of_calls_passes_a_cap(
    tmp_path_factory: pytest.TempPathFactory,
    wanted: list[tuple[int, int, float, float, str]],
    day_limit: int,
) -> None:
    """Calls with any use up to what they could take, broken off or not: the day's money is not passed, and the ledger
    says the same."""
    limit = day_limit
    ledger = Ledger(str(tmp_path_factory.mktemp("money") / "ledger.jsonl"))
    model = Spender()
    accounts = Accounts(ledger, limit, {("openai", "m"): TARIFF}, lambda: 1_800_000_000.0)
    door = ModelDoor([Offer(model, TARIFF)], accounts, os.devnull)

    async def all_of_it() -> None:
        for prompt, output, of_prompt, of_output, end in wanted:
            usage = Usage(round(prompt * of_prompt), round(output * of_output))
            failed = CallFailure("unavailable", "x", usage=None if end == "unknown" else usage)
            done = Answer(Completion((Text("x"),), END_TURN, "m", usage), end == "answer")
            model.calls.append((Usage(prompt, output), failed if end in ("failure", "unknown") else done))
            with contextlib.suppress(CallFailure):
                await door.complete(a_request())

    asyncio.run(all_of_it())
    spent = Cost(sum(cost(TARIFF, usage) for usage in model.taken), sum(sum(usage) for usage in model.taken))
    assert spent.nano_usd <= limit
    told = by_label(ledger.day("2027-01-15")).get("task", Used())
    assert spent.nano_usd <= told.spent.nano_usd <= limit, "what was used is at most what was written down"
    assert told.calls == len(model.taken)
    ledger.close()


def test_two_dozen_calls_at_once_cannot_pass_the_limit_together(tmp_path: Path) -> None:
    """Each is reserved before it is made."""
    flat = Tariff(Rates(10**6, 10**6, 10**6, 10**6))  # a nano-dollar a token
    model = Spender()
    used = Answer(Completion((Text("x"),), END_TURN, "m", Usage(1000, 0)))
    model.calls.append((Usage(1000, 0), used))
    ledger = Ledger(str(tmp_path / "ledger.jsonl"))
    door = ModelDoor(
        [Offer(model, flat)], Accounts(ledger, 10_500, {("openai", "m"): flat}, lambda: 1_800_000_000.0), os.devnull
    )

    async def at_once() -> list[Any]:
        asked = [door.complete(a_request()) for _ in range(24)]
        return await asyncio.gather(*asked, return_exceptions=True)

    ended = asyncio.run(at_once())
    assert sum(isinstance(each, Completion) for each in ended) == len(model.taken) == 10
    assert {each.type for each in ended if isinstance(each, CallFailure)} == {"budget_exhausted"}
