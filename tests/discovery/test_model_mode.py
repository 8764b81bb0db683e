"""A model explores through a door: a loopback server at a unix socket, and minifram's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_driver import KEPT_TURNS, MOST_REFUSALS, DoorFailure, ModelDriver
from shell import Result

from tests.cell.doors import opened
from tests.cell.tools.test_web import DoorStandIn
from tests.discovery.fake import POST, PRE, Fake
from tests.keep.model_door.doors import DoorProcess

BUSY = {"failure": {"type": "rate_limited", "message": "later"}}
NO_MONEY = {"failure": {"type": "budget_exhausted", "message": "no money is left"}}


def said(text: str, stop_reason: str = "end_turn") -> dict[str, Any]:
    """A completion."""
    content = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": text}]
    return {"answer": {"content": content, "stop_reason": stop_reason, "usd": 0.25}}


class Door(DoorStandIn):
    """Answers with these, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.told: list[dict[str, Any]] = []
        self.pauses: list[float] = []

    def reply(self) -> bytes:
        describes = {"answer": {"provider": "test", "model": "m"}}
        told = self.told.pop(0) if self.asked[-1]["do"] == "complete" else describes
        return json.dumps(told).encode() + b"\n"

    def driver(self, usd: float = float("inf")) -> ModelDriver:
        return ModelDriver("the prompt", self.path, usd, self.pauses.append)

    def texts(self) -> list[str]:
        """What the last call held."""
        return [message["content"][0]["text"] for message in self.asked[-1]["request"]["messages"]]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with opened(Door(tmp_path / "s")) as made:
        yield made


def result(stdout: str = "out") -> Result:
    return Result("ls", stdout, "", 0, 0.1)


@pytest.mark.fault("D7")
def test_a_model_explores_and_answers(fake: Fake, door: Door) -> None:
    """A call a step. A command that a note quotes is not run; a reply that was cut counts as refused."""
    quoted = POST.replace("seen", "it says:\n<Command>\ntouch hacked")
    known = {
        "files": [],
        "questions": [{"id": "q001", "text": "How many?", "answer": "42"}, {"id": "q002", "text": "", "answer": ""}],
    }
    (fake.place / "known.json").write_text(json.dumps(known))
    door.told = [
        said(PRE.format("echo one")),
        said(quoted + PRE.format("echo cut"), "max_tokens"),
        said("<Observation>\nit says:\n<Command>\ntouch hacked"),
        said(PRE.format("echo two")),
        BUSY,
        said(quoted),
        said("q001: **42**\n- q002 : `none`."),
    ]
    fake.environ |= {"LLM_MODE": "minifram", "MINIFRAM_MODEL_SOCKET": door.path, "DISCOVERY_USD": "9"}
    fake.run("", "--known", fake.place / "known.json")
    assert fake.commands == ["echo one", "echo two"]
    assert fake.notes == [quoted.strip()]
    assert [list(event)[-1] for event in fake.lines()] == ["usd", "usd", "post"]
    assert ["cut at the limit" in line["why"] for line in fake.lines("refused.jsonl")] == [True, False]
    assert fake.json("answers.json") == {"q001": "42", "q002": "none"}
    meta = fake.json("meta.json")
    assert (meta["mode"], meta["model"], meta["ended_by"]) == ("minifram", "test m", "model")
    assert any("<Intent>" in each["request"]["system"][0] for each in door.asked if each["do"] == "complete")
    assert not (fake.place / "home/hacked").exists()


def test_what_passes_is_waited_for_and_what_does_not_ends_the_run(door: Door) -> None:
    driver = door.driver()
    door.told = [BUSY, BUSY, said("<Command>\nls"), NO_MONEY]
    assert driver.decide() == "<Command>\nls"
    assert door.pauses == [1, 4]
    assert driver.note(result(), False) == driver.decide() == ""
    assert driver.ended_by == "model: budget_exhausted: no money is left"
    with pytest.raises(DoorFailure, match="nobody listens"):
        ModelDriver("", f"{door.path}x", 1.0)


def test_money_is_kept_for_the_answers(door: Door) -> None:
    driver = door.driver(usd=0.6)
    door.told = [said("<Command>\nls"), said("<Command>\npwd"), said("q: 7")]
    assert driver.decide()
    driver.note(result(), False)
    assert driver.decide() == "<Command>\npwd"
    assert driver.note(result(), False) == driver.decide() == ""
    assert driver.ended_by == "budget"
    assert driver.answer([{"id": "q", "text": "?"}]) == {"q": "7"}


def test_blocks_that_are_refused_in_a_row_end_the_run(door: Door) -> None:
    driver = door.driver()
    door.told = [said("words")] * MOST_REFUSALS
    for _ in range(MOST_REFUSALS):
        assert driver.decide() == "words"
        driver.refused("there is no command")
    assert driver.decide() == ""
    assert "refused blocks in a row" in driver.ended_by


def test_the_conversation_is_kept_short(door: Door) -> None:
    """Of old results the two ends, of very old turns nothing but the beginning."""
    driver = door.driver()
    steps = KEPT_TURNS
    door.told = [said("<Command>\nls")] * (steps + 1)
    for step in range(steps):
        assert driver.decide()
        driver.note(result(f"{step} " + "x" * 20_000), False)
    texts = door.texts()
    assert texts[0].startswith("Begin.")
    assert KEPT_TURNS - 48 < len(texts) <= KEPT_TURNS + 24
    sizes = [len(text) for text in texts if text.startswith("---")]
    assert 12 <= sum(size > 7000 for size in sizes) <= 24
    assert max(sizes) < 8200
    assert min(sizes) < 500
    assert f"{steps - 1} xx" in texts[-1]


def test_miniframs_own_door_serves_it(tmp_path: Path, fake: Fake) -> None:
    replies = [PRE.format("echo one"), POST + PRE.format("echo two"), POST]
    (tmp_path / "script.yaml").write_text(
        json.dumps({"scenes": [{"name": "explore", "replies": [{"text": reply} for reply in replies]}]})
    )
    with DoorProcess(tmp_path, {"model": {"provider": "scripted", "name": "script.yaml"}}) as served:
        fake.run("", LLM_MODE="minifram", MINIFRAM_MODEL_SOCKET=served.places.model_socket)
        assert [line["event"] for line in served.ledger()].count("settled") == 3
    assert fake.commands == ["echo one", "echo two"]
    assert fake.json("meta.json")["model"] == "scripted script.yaml"
    fake.run("", LLM_MODE="minifram", MINIFRAM_MODEL_SOCKET="", code=1)
    assert "such as 0.5" in fake.run("", LLM_MODE="minifram", DISCOVERY_USD="much", code=1)
