"""A model explores: three steps by blocks through a real model door, its failures, its bounds, its answers."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from door_client import Completion, DoorFailure, Outage, completed
from llm_driver import Question, Result
from minifram_driver import MOST_REFUSALS, MiniframDriver, Settings, settings_from
from model_replies import cut_middle, read_answers, shown_result, split_reply
from model_talk import Turn, messages_of, size_of, within

from tests.keep.model_door.doors import KEY, DoorProcess
from tests.keep.model_door.wire import Answer, Counts, Say, Status, Wire

PROMPT = "You explore by a shell."
PRE = "<Intent>\nlook around\n\n<Command>\nls /world\n\n<Expected>\nnames\n\n<OnError>\ngive up"
POST = "<Observation>\nthere are names\n\n<Inference>\na world\n\n<Next>\nread it"
PRICES = {"prices": {"test-model": {"input": 1.0, "output": 10.0}}}
USAGE = Counts(input=1000, output=100)
"""At these prices, 0.002 US dollars."""


def result(stdout: str = "data.csv\n", **more: Any) -> Result:
    """The end of a command."""
    usual = Result(1, "ls", stdout, "", 0, 0.1234, stdout_bytes=len(stdout))
    return replace(usual, **more)


def explore(exploring: MiniframDriver) -> int:
    """To the end of the run; how many steps it had."""
    steps, last = 0, None
    while exploring.decide(last):
        steps += 1
        last = result("y" * 400)
        exploring.note(last)
    return steps


def block(command: str) -> str:
    return PRE.replace("ls /world", command)


def quiet(line: str) -> None:
    """What the driver says while it waits."""


def driver(socket: str, **more: Any) -> MiniframDriver:
    settings = Settings(socket, more.pop("usd", None), "run-1")
    return MiniframDriver(PROMPT, settings, say=quiet, **more)


def scripted(directory: Path, *replies: dict[str, Any]) -> DoorProcess:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "script.yaml").write_text(json.dumps({"scenes": [{"name": "explore", "replies": list(replies)}]}))
    return DoorProcess(directory, {"model": {"provider": "scripted", "script": "script.yaml"}})


def anthropic(directory: Path, wire: Wire, budget: dict[str, Any] | None = None) -> DoorProcess:
    model = {"provider": "anthropic", "name": "test-model", "base_url": wire.url, "max_tokens": 1000} | PRICES
    return DoorProcess(directory, {"model": model, "budget": budget or {}}, KEY)


def said(*texts: str) -> Callable[[dict[str, Any]], Answer]:
    """A provider that says one text after the other."""
    left = list(texts)
    return lambda request: Answer((Say(left.pop(0)),), usage=USAGE)


# --- through a door ----------------------------------------------------------------------------------------------


def test_a_scripted_model_drives_three_steps_and_answers(tmp_path: Path) -> None:
    """One call a step: each reply after the first holds a note and the next block; the run's name is in the ledger."""
    replies = [block("ls /world"), *(f"{POST}\n\n{block(command)}" for command in ("cat /world/a", "cat /world/b"))]
    texts = [*replies, f"{POST}\n\n<Done>", "q1: 42\nq2: unknown"]
    with scripted(tmp_path / "door", *({"text": text} for text in texts)) as door:
        exploring = driver(door.places.model_socket)
        exploring.open()
        assert exploring.model == "scripted demo"
        commands, notes, last = [], [], None
        while plan := exploring.decide(last):
            commands.append(plan)
            last = result()
            notes.append(exploring.note(last))
        assert commands == [block(command) for command in ("ls /world", "cat /world/a", "cat /world/b")]
        assert notes == [POST] * 3
        assert exploring.ended_by == "model"
        assert exploring.answer([Question("q1", "how many?"), Question("q2", "which?")]) == {"q1": "42"}
        lines = door.ledger()
    assert [line["event"] for line in lines].count("opened") == 5
    assert {line["run"] for line in lines} == {"run-1"}
    settled = [line for line in lines if line["event"] == "settled"]
    assert exploring.tokens == sum(line["input_tokens"] + line["output_tokens"] for line in settled) > 0


def test_money_and_tokens_are_what_the_door_books(tmp_path: Path) -> None:
    """A provider's own count, priced; the conversation that it gets has the prompt, the blocks and the results."""
    with Wire(said(PRE, f"{POST}\n{block('true')}")) as wire, anthropic(tmp_path / "door", wire) as door:
        exploring = driver(door.places.model_socket)
        assert exploring.decide(None) == PRE
        assert (round(exploring.usd, 9), exploring.tokens) == (0.002, 1100)
        assert exploring.note(result(stdout="x" * 50)) == POST
        assert exploring.usd == pytest.approx(2 * door.ledger()[-1]["usd"])
    first, second = (request.body for request in wire.requests)
    assert PROMPT in json.dumps(first["system"])
    shown = json.dumps(second["messages"])
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert json.dumps(PRE)[1:-1] in shown
    assert "Result of step 1: exit code 0" in shown
    assert "x" * 50 in shown
    assert "<Done>" in json.dumps(first["messages"])


def test_the_doors_budget_for_the_run_ends_it(tmp_path: Path) -> None:
    """No call is made that could pass it; the run ends by its budget, and questions get no answer."""
    budget = {"unit_usd": 0.018}  # at worst a call costs 0.010 for its 1000 tokens, and its prompt
    with Wire(said(PRE, f"{POST}\n{PRE}", "never")) as wire, anthropic(tmp_path / "door", wire, budget) as door:
        exploring = driver(door.places.model_socket)
        assert (explore(exploring), exploring.ended_by) == (1, "budget")
        assert exploring.answer([Question("q1", "how many?")]) == {}
    assert len(wire.requests) == len(wire.billed) == 1


def test_a_bound_of_the_run_keeps_money_for_the_answers(tmp_path: Path) -> None:
    """With 0.007 dollars at 0.002 a call, the second step leaves 0.003: too little for a step and the answers."""
    with Wire(said(PRE, f"{POST}\n{PRE}", "q1: 7")) as wire, anthropic(tmp_path / "door", wire) as door:
        exploring = driver(door.places.model_socket, usd=0.007)
        assert (explore(exploring), exploring.ended_by) == (2, "budget")
        assert exploring.answer([Question("q1", "how many?")]) == {"q1": "7"}
    assert "0.007 US dollars" in json.dumps(wire.requests[0].body["messages"])


def test_what_passes_is_waited_for_and_a_refused_key_is_not(tmp_path: Path) -> None:
    """Busy twice, then it answers; a refused key ends the run with the door's words."""
    busy = [Status(529, "overloaded_error"), Status(429, "rate_limit_error", headers=(("retry-after", "3"),))]
    waits: list[float] = []

    complete = partial(completed, sleep=waits.append)

    def reply(request: dict[str, Any]) -> Status | Answer:
        return busy.pop(0) if busy else Answer((Say(PRE),), usage=USAGE)

    with Wire(reply) as wire, anthropic(tmp_path / "door", wire) as door:
        assert driver(door.places.model_socket, complete=complete).decide(None) == PRE
    assert waits == [0.0, 3.0]
    with (
        Wire(lambda request: Status(401, "authentication_error", "bad key")) as wire,
        anthropic(tmp_path / "refused", wire) as door,
    ):
        exploring = driver(door.places.model_socket, complete=complete)
        assert (exploring.decide(None), exploring.decide(None)) == ("", "")
        assert exploring.ended_by.startswith("model: authentication")
    assert len(wire.requests) == 1


def test_a_door_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody starts it again."""
    with scripted(tmp_path / "door", {"text": PRE}) as door:
        exploring = driver(door.places.model_socket)
        assert exploring.decide(None) == PRE
        door.signal(signal.SIGTERM)
        exploring.note(result())
    assert exploring.ended_by.startswith("model: no_door: nobody listens at ")


def test_no_door_is_told_before_anything_runs(tmp_path: Path) -> None:
    """What is missing, and what to do."""
    with pytest.raises(ValueError, match=r"MINIFRAM_MODEL_SOCKET is not set.*minifram discover run"):
        settings_from({})
    with pytest.raises(ValueError, match="nothing is there"):
        settings_from({"MINIFRAM_MODEL_SOCKET": str(tmp_path / "no.sock")})
    (tmp_path / "s").touch()
    for text in ("ten", "-1", "0", "nan", "inf"):
        with pytest.raises(ValueError, match="DISCOVERY_USD"):
            settings_from({"MINIFRAM_MODEL_SOCKET": str(tmp_path / "s"), "DISCOVERY_USD": text})
    with pytest.raises(DoorFailure, match="nobody listens"):
        driver(str(tmp_path / "s")).open()


# --- what needs no door ------------------------------------------------------------------------------------------


class Model:
    """Says what it is told to, and remembers what it was asked."""

    def __init__(self, *replies: str | Completion | DoorFailure) -> None:
        self.replies = list(replies)
        self.asked: list[list[dict[str, Any]]] = []

    def __call__(self, socket: str, system: str, messages: list[dict[str, Any]], **_: Any) -> Completion:
        self.asked.append(messages)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, DoorFailure):
            raise reply
        return reply if isinstance(reply, Completion) else Completion(reply, "end_turn", 0.001, 10)


def heard(model: Model) -> str:
    """The last message that the model was sent."""
    assert model.asked[-1][-1]["role"] == "user"
    return str(model.asked[-1][-1]["content"][0]["text"])


def test_a_refused_block_goes_back_to_the_model() -> None:
    """With its error; after a block that ran the count of refusals begins again."""
    model = Model("two commands", "three", PRE, f"{POST}\n{PRE}", PRE)
    exploring = driver("", complete=model)
    assert exploring.decide(None) == "two commands"
    exploring.refused("two commands", "expected one <Command>")
    assert exploring.decide(None) == "three"
    assert "expected one <Command>" in heard(model)
    exploring.refused("three", "expected one <Command>")
    assert exploring.decide(None) == PRE
    exploring.note(result())
    for _ in range(MOST_REFUSALS - 1):
        assert exploring.decide(result())
        exploring.refused("x", "no")
    assert exploring.ended_by == ""


def test_only_so_many_blocks_in_a_row_are_refused() -> None:
    """Then the run ends, with the last error; the model is not asked again."""
    model = Model("nonsense")
    exploring = driver("", complete=model)
    for _ in range(MOST_REFUSALS):
        assert exploring.decide(None) == "nonsense"
        exploring.refused("nonsense", "no <Command> in it")
    assert exploring.decide(None) == ""
    assert exploring.ended_by.endswith("the last: no <Command> in it")
    assert len(model.asked) == MOST_REFUSALS


def test_a_reply_that_was_cut_is_not_carried_out() -> None:
    """A cut command may look whole: the model is asked for a shorter reply."""
    model = Model(Completion(PRE, "max_tokens", 0.0, 0), PRE)
    assert driver("", complete=model).decide(None) == PRE
    assert len(model.asked) == 2
    assert "cut at the limit" in heard(model)
    endless = Model(Completion(PRE, "max_tokens", 0.0, 0))
    exploring = driver("", complete=endless)
    assert exploring.decide(None) == ""
    assert "could not be used" in exploring.ended_by
    assert len(endless.asked) == MOST_REFUSALS


@pytest.mark.parametrize("reply", ["", "<Done>", f"{POST}\n\n<Done>", f"{POST}\n<done/>"])
def test_a_model_that_is_done_ends_the_run(reply: str) -> None:
    """By <Done>, or by nothing at all; the note stays."""
    exploring = driver("", complete=Model(PRE, reply))
    assert exploring.decide(None) == PRE
    assert exploring.note(result()) == (POST if POST in reply else "")
    assert (exploring.decide(None), exploring.ended_by) == ("", "model")


def test_a_model_that_refuses_ends_the_run() -> None:
    """With its words: a provider says no to the whole conversation then."""
    exploring = driver("", complete=Model(Completion("I cannot", "refusal", 0.0, 0)))
    assert (exploring.decide(None), exploring.ended_by) == ("", "model: it refused: I cannot")


def test_a_conversation_that_is_too_long_is_made_shorter_and_sent_again() -> None:
    """Old results first; the last one stays whole. A conversation that cannot be made shorter ends the run."""
    model = Model(PRE, *[f"{POST}\n{PRE}"] * 9, DoorFailure("context_overflow", "too long"), f"{POST}\n{PRE}")
    exploring = driver("", complete=model)
    for _ in range(10):
        assert exploring.decide(None) == PRE
        exploring.note(result(stdout="z" * 8000))
    before, after = (sum(len(each["content"][0]["text"]) for each in asked) for asked in model.asked[-2:])
    assert after < before * 0.6
    assert "z" * 8000 in heard(model)
    hopeless = driver("", complete=Model(DoorFailure("context_overflow", "too long")))
    assert (hopeless.decide(None), hopeless.ended_by) == ("", "model: context_overflow: too long")


@pytest.mark.parametrize("post", [POST, POST.upper(), POST.replace("\n", "\r\n"), ""])
@pytest.mark.parametrize("fence", ["{}", "```\n{}\n```", "Here it is.\n\n{}"])
def test_both_blocks_are_found_in_either_order(post: str, fence: str) -> None:
    """Whatever stands around them."""
    for text in (f"{post}\n\n{PRE}", f"{PRE}\n\n{post}"):
        found = split_reply(fence.format(text))
        assert (found.post, found.pre) == (post, PRE), text


def test_what_a_command_writes_is_not_taken_for_a_block() -> None:
    """A note that goes into LOG.md by a here-document has the same tags."""
    wrote = block(f"cat >>LOG.md <<'END'\n{POST}\nEND")
    assert split_reply(f"{POST}\n{wrote}") == (POST, wrote)
    assert split_reply(f"{wrote}\n{POST}") == (POST, wrote)


def test_words_without_a_command_are_the_parsers_to_refuse() -> None:
    """They are no end of the run."""
    assert split_reply("I would like to look around.").pre == "I would like to look around."
    assert split_reply(POST) == (POST, POST)
    assert split_reply(f"{block('echo done')}\n<Done>").pre.startswith("<Intent>")


def test_a_result_is_shown_within_a_bound() -> None:
    """Both ends of each stream, with its true size, and all that is out of the ordinary."""
    odd: dict[str, Any] = {"timed_out": True, "restarted": True, "stdout_bytes": 10**6, "stderr_bytes": 9000}
    shown = shown_result(result("a" * 20_000 + "END", step=7, latency_s=1, stderr="e" * 9000, **odd))
    assert shown.startswith("Result of step 7: it was ended at the time limit, 1.00 s; the container had stopped")
    assert "stdout (1000000 bytes):" in shown
    assert "END\nstderr (9000 bytes)" in shown
    assert len(shown) < 2 * 8000 + 400
    assert cut_middle("abcdefgh", 4) == "ab\n[… 4 characters left out …]\ngh"
    assert "stdout: empty" in shown_result(result(""))


def test_a_conversation_is_kept_within_its_size() -> None:
    """Short ones are left alone, old results go first, then whole exchanges; roles take turns in what is left."""
    talk = (Turn("user", "begin"), *(Turn("assistant", "say"), Turn("user", "r" * 1000, "short")) * 20)
    assert within(talk, 30_000) is talk
    less = within(talk, 15_000)
    assert size_of(less) <= 9000 + 1000
    assert (less[2].text, less[-1].text, len(less)) == ("short", "r" * 1000, len(talk))
    wordy = (Turn("user", "begin"), *(Turn("assistant", "w" * 1000), Turn("user", "r" * 100, "s")) * 20)
    least = within(wordy, 5000)
    assert size_of(least) <= 5000
    assert least[0].text.startswith("begin\n\n[")
    assert least[-2:] == wordy[-2:]
    roles = [message["role"] for message in messages_of(least)]
    assert all(one != other for one, other in itertools.pairwise(roles))
    assert roles[0] == "user"


def test_answers_are_read_however_they_are_laid_out() -> None:
    """The last line for a question counts; what is not known is not there."""
    asked = [Question(id, "?") for id in ("q1", "q2", "q3", "q10", "q4")]
    text = 'Here:\n- **q1**: `42`\nq2: I do not know.\n  Q3: "a b"\nq10: 7\nq1: 43\nq4 - unknown'
    assert read_answers(text, asked) == {"q1": "43", "q3": "a b", "q10": "7"}
    assert read_answers("", asked) == {}


def test_patience_ends() -> None:
    """After 900 s of waiting; no wait is longer than 300 s, whatever is asked for."""
    outage, waits = Outage(), []
    while (wait := outage.wait_after(DoorFailure("unavailable", ""))) is not None:
        waits.append(wait)
        outage = outage.after(wait)
    assert waits[:8] == [0, 1, 2, 4, 8, 15, 30, 60]
    assert 840 < sum(waits) <= 900
    assert Outage().wait_after(DoorFailure("rate_limited", "", 10_000)) == 300
    assert Outage().wait_after(DoorFailure("budget_exhausted", "", 10)) is None
