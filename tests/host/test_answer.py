"""A person in the model's place: the door's question, the command's answer, and what is refused on the way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.model_client import ModelFailure
from infra.shared.conversation import (
    COMPLETE_PATH,
    END_TURN,
    TOOL_USE,
    Completion,
    Message,
    Text,
    ToolResult,
    ToolSpec,
    ToolUse,
    to_plain,
)
from infra.shared.manual import Answer, parse_answer, words_alone
from infra.shared.protocol.calls import NamedCall
from infra.shared.sockets import connect
from tests.host.desk import Desk
from tests.keep.model_door.doors import BASH, DEADLINE_SECONDS, DoorProcess, a_request

CALL = '{"name": "bash", "input": {"command": "ls"}}'


class Asked:
    """A door whose state is the agent's, and a call that waits for somebody."""

    def __init__(self, desk: Desk, door: DoorProcess) -> None:
        self.desk, self.door = desk, door
        self.outcomes: list[Completion | ModelFailure] = []

    def ask(self, *messages: Message) -> threading.Thread:
        def call() -> None:
            try:
                self.outcomes.append(self.door.complete(a_request("look around", messages=messages)))
            except ModelFailure as failure:
                self.outcomes.append(failure)

        thread = threading.Thread(target=call)
        thread.start()
        return thread

    def folder(self) -> Path:
        return Path(self.desk.home().state) / "manual"


@pytest.fixture
def asked(desk: Desk, tmp_path: Path) -> Iterator[Asked]:
    desk.call("init")
    door = DoorProcess(tmp_path / "door", {"model": {"provider": "manual", "answer_seconds": DEADLINE_SECONDS}})
    door.places = door.places._replace(var=desk.home().state)
    with door:
        yield Asked(desk, door)


def test_a_question_is_shown_and_answered_by_a_call_and_then_by_words(asked: Asked) -> None:
    """What is new is shown, with the tools; nothing is left behind; and it costs nothing."""
    thread = asked.ask()
    shown = asked.desk.done("answer", "--wait", str(DEADLINE_SECONDS))
    assert "user: Continue." in shown.out
    assert "tools: bash(command)" in shown.out
    files = list(asked.folder().iterdir())
    assert [path.stat().st_mode & 0o777 for path in (asked.folder(), *files)] == [0o700, 0o600]

    asked.desk.done("answer", f"I look.\n{CALL}")
    thread.join(DEADLINE_SECONDS)
    said = asked.outcomes.pop()
    assert isinstance(said, Completion)
    use = said.content[1]
    assert isinstance(use, ToolUse)
    assert (said.content[0], use.name, use.input, said.stop_reason) == (
        Text("I look."),
        "bash",
        {"command": "ls"},
        TOOL_USE,
    )

    thread = asked.ask(Message("assistant", said.content), Message("user", (ToolResult(use.id, "a\x1b[2Jb", True),)))
    question = asked.desk.done("answer", "--wait", str(DEADLINE_SECONDS), "--json").json
    assert question["request"]["messages"][2]["content"][0]["content"] == "a\x1b[2Jb"
    again = asked.desk.done("answer").out
    assert "Continue." not in again
    assert "failed: a\\x1b[2Jb" in again
    asked.desk.done("answer", "Done.")
    thread.join(DEADLINE_SECONDS)
    end = asked.outcomes.pop()
    assert isinstance(end, Completion)
    assert (end.content, end.stop_reason) == ((Text("Done."),), END_TURN)
    assert list(asked.folder().iterdir()) == []
    assert asked.door.get("/v1/budget")["spent_usd"] == 0


def test_an_answer_that_cannot_be_used_is_refused_and_the_question_stays(asked: Asked) -> None:
    """Each says what was expected; a hand-made file that is none fails the call."""
    thread = asked.ask()
    asked.desk.done("answer", "--wait", str(DEADLINE_SECONDS))
    for text, words in (
        ('{"name": "rm", "input": {}}', "no such tool: 'rm'; the tools are bash"),
        ('{"name": "bash"}', 'exactly the keys "name" and "input"'),
        ("{oops", "in the middle of the list"),
        ('I look.\n{"cmd": "ls"}', "is no operation, such as"),
        ('[{"type": "shell"}]', "operation 1: command is missing"),
        ('[{"type": "readFile", "path": "a"}]', "no such tool: 'read_file'; the tools are bash"),
        (f'{{"name": "bash", "input": {{"command": {"[" * 64}{"]" * 64}}}}}', "more than 64 levels"),
        (" \n", "the reply is empty"),
    ):
        ended = asked.desk.run("answer", text)
        assert (ended.code, words in ended.err) == (2, True), ended.err
    assert not asked.outcomes

    question = next(asked.folder().glob("*.request.json"))
    Path(str(question).replace(".request.json", ".answer")).write_bytes(b"\xff")
    thread.join(DEADLINE_SECONDS)
    failure = asked.outcomes.pop()
    assert isinstance(failure, ModelFailure)
    assert failure.type == "provider_error"


def test_a_question_goes_with_whoever_asked_it(asked: Asked) -> None:
    """Nobody's words are lost on a runner that died; and its own next question is asked."""
    body = json.dumps(to_plain(a_request())).encode()
    head = f"POST {COMPLETE_PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with connect(asked.door.places.model_socket, DEADLINE_SECONDS) as runner:
        runner.sendall(head + body)
        asked.desk.done("answer", "--wait", str(DEADLINE_SECONDS))
    deadline = time.monotonic() + DEADLINE_SECONDS / 2
    while list(asked.folder().iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(asked.folder().iterdir()) == []

    thread = asked.ask()
    asked.desk.done("answer", "--wait", str(DEADLINE_SECONDS))
    asked.desk.done("answer", "Here.")
    thread.join(DEADLINE_SECONDS)
    assert isinstance(asked.outcomes.pop(), Completion)


def test_without_a_question_the_command_says_so(asked: Asked, tmp_path: Path) -> None:
    """And a door that starts forgets what the one before it was asked."""
    assert (ended := asked.desk.run("answer")).code == 3, ended.err
    asked.folder().mkdir(mode=0o700)
    left = asked.folder() / f"{'a' * 32}.request.json"
    left.write_text("{}")
    assert asked.desk.run("answer").code == 1
    DoorProcess(tmp_path / "other", {"model": {"provider": "manual"}}).stop()
    asked.door.signal(9)
    asked.door.start()
    assert not left.exists()


def test_a_person_who_does_not_answer_is_no_outage_without_end(tmp_path: Path) -> None:
    """The call fails after the time that the settings give."""
    settings = {"model": {"provider": "manual", "answer_seconds": 0.3}}
    with DoorProcess(tmp_path, settings) as door:
        began = time.monotonic()
        with pytest.raises(ModelFailure, match=r"nobody answered within 0\.3 s") as caught:
            door.complete()

    assert caught.value.type == "unavailable"
    assert time.monotonic() - began < DEADLINE_SECONDS


@pytest.mark.parametrize(
    ("given_", "words"),
    [({}, "argument path is missing"), ({"path": "a", "mode": 1}, "unknown argument 'mode'"), ([], "is an object")],
)
def test_a_call_is_held_against_its_tool(given_: object, words: str) -> None:
    """What is missing or unknown is named, with what the tool takes."""
    takes = {"type": "object", "properties": {"path": {}}, "required": ["path"], "additionalProperties": False}
    with pytest.raises(ValueError, match=words):
        parse_answer(json.dumps({"name": "read_file", "input": given_}), (ToolSpec("read_file", "", takes),))


SHELL = '{"type": "shell", "command": "ls"}'


def test_an_act_is_typed_either_way() -> None:
    """As an operation or as the call of a tool; one, or a list, with words beside it; and words may look like both."""
    ls = NamedCall("bash", {"command": "ls"})
    for text, wanted in (
        (SHELL, Answer("", (ls,))),
        (CALL, Answer("", (ls,))),
        (f"I look.\n{SHELL}", Answer("I look.", (ls,))),
        (f"I look.\n{CALL}\nSo.", Answer("I look.\n\n\nSo.", (ls,))),
        (f"[{CALL},\n {CALL}]", Answer("", (ls, ls))),
        (f'[{{"type": "message", "text": "I look."}}, {SHELL}]', Answer("I look.", (ls,))),
        (f'{{"protocol": 1, "operations": [{SHELL}]}}', Answer("", (ls,))),
        ("All done.", Answer("All done.")),
        (words_alone(SHELL), Answer(SHELL)),
        (words_alone("42"), Answer("42")),
    ):
        assert parse_answer(text, (BASH,)) == wanted
    assert parse_answer(words_alone(SHELL), ()) == Answer(words_alone(SHELL))


@given(st.text(max_size=60) | st.lists(st.sampled_from(["{", "}", "[", CALL, SHELL, "\n", "words", '"'])).map("".join))
def test_any_text_is_an_answer_or_a_reason(text: str) -> None:
    """A call comes only of what is one, and of nothing else."""
    for tools in ((BASH,), ()):
        try:
            answer = parse_answer(text, tools)
        except ValueError:
            continue
        assert isinstance(answer, Answer)
        assert all(call == NamedCall("bash", {"command": "ls"}) for call in answer.calls)
        assert len(answer.calls) <= text.count(CALL) + text.count(SHELL)
        assert tools or not answer.calls
        assert answer.calls or not tools or not any(line.startswith(("{", "[{")) for line in text.split("\n"))


def test_without_tools_the_whole_is_text() -> None:
    """The runner finds the operations in it; what it would refuse is refused at once."""
    text = '{"protocol": 1,\n"operations": []}\nand words'
    assert parse_answer(f"{text}\n", ()) == Answer(text)
    for wrong in (" \n", CALL, '[{"type": "ls"}]', "[{"):
        with pytest.raises(ValueError, match=r"expected|in the middle"):
            parse_answer(wrong, ())
