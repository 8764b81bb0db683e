"""The scripted model: how a script is read, and which reply comes next."""

from __future__ import annotations

import asyncio

import pytest

from infra.keep.model_door.script import DEMO, Script, ScriptedModel, ScriptError, choose, parse_script, read_script
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
    OPENING_PREFIX,
    REFUSAL,
    TOOL_USE,
    Completion,
    Message,
    Text,
    ToolResult,
    ToolUse,
)
from tests.keep.model_door.doors import a_request
from tests.shared.rows import each_row

GOOD = """
scenes:
  - name: greet
    when: {directive: "^say hello"}
    replies:
      - text: "Hello first."
        tools: [{name: bash, input: {command: "true"}}, {name: bash, input: {command: "ls"}}]
      - text: "Done."
  - name: told
    when: {comms: "exit code 1"}
    replies:
      - {text: "It failed.", stop_reason: max_tokens}
  - name: rest
    replies:
      - {}
"""


def test_a_script_is_read_into_scenes() -> None:
    """The control of the refusals below, as is the one that comes with the door. One that is not there is named."""
    assert [scene.name for scene in parse_script(GOOD, "s").scenes] == ["greet", "told", "rest"]
    assert read_script(DEMO).scenes
    with pytest.raises(ScriptError, match=r"/nowhere/script.yaml.*model.name"):
        read_script("/nowhere/script.yaml")


@each_row(
    "before, after, named",
    [
        ("replies:", "answers:", "answers"),
        ("when:", "if:", "if"),
        ("stop_reason: max_tokens", "stop_reason: bored", "bored"),
        ('"^say hello"', '"(unclosed"', "scene 'greet': when.directive"),
        ('text: "Done."', "text: 1.10", "$.scenes[0].replies[1].text"),
        ("scenes:", "scenes: [", "cannot be understood"),
        ("name: greet", "nome: greet", "nome"),
    ],
)
def test_a_mistake_in_a_script_is_named_when_it_is_read(before: str, after: str, named: str) -> None:
    """Unknown keys, wrong types and patterns that are none are refused, with the scene and the key."""
    assert before in GOOD
    with pytest.raises(ScriptError) as caught:
        parse_script(GOOD.replace(before, after, 1), "my-script.yaml")

    assert named in str(caught.value)
    assert "my-script.yaml" in str(caught.value)


def opened(*ids: str) -> tuple[Message, ...]:
    """A conversation of calls with these ids."""
    each = ((Message("assistant", (ToolUse(id, "bash", {}),)), Message("user", (ToolResult(id, ""),))) for id in ids)
    return tuple(message for both in each for message in both)


def test_the_next_reply_follows_from_what_the_model_said() -> None:
    """With tool calls or without; the opening calls of the runner are not its own. A restarted model goes on."""
    said = (*opened(f"{OPENING_PREFIX}1", "scripted-0-0"), Message("assistant", (Text("and"),)))
    for messages, turn, text in (((), 0, "Hello first."), (said[:2], 0, "Hello first."), (said[:4], 1, "Done.")):
        played = choose(parse_script(GOOD, "s"), a_request("say hello", messages=messages))
        assert (played.turn, played.reply and played.reply.text) == (turn, text)
    assert choose(parse_script(GOOD, "s"), a_request("say hello", messages=said)).turn == 2


@each_row(
    "directive, scene",
    [
        *(("say hello to everyone", "greet"), ("please say hello", "rest")),
        *(("anything\n- [ ] exit code 1", "told"), ("anything\n- [ ] say hello", "rest")),
    ],
)
def test_the_first_scene_that_is_for_the_conversation_is_played(directive: str, scene: str) -> None:
    """A scene asks about the first open directive and the page; all that it asks must hold."""
    assert choose(parse_script(GOOD, "s"), a_request(directive)).scene == scene


def play(script: Script, times: int) -> list[Completion]:
    """The conversation that comes of calling the model again and again."""
    model, heard = ScriptedModel("m", script, max_tokens=1000), list[Completion]()
    messages = tuple[Message, ...]()
    for _ in range(times):
        said = asyncio.run(model.prepare(a_request("say hello", messages=messages)).make()).completion
        heard.append(said)
        results = tuple(ToolResult(block.id, "") for block in said.content if isinstance(block, ToolUse))
        messages += (Message("assistant", said.content), Message("user", results or (Text("go on"),)))
    return heard


def test_a_scene_is_played_to_its_end_and_says_so() -> None:
    """Replies come in order with the same ids each time; past the end the model ends its turn and says why. Where no
    scene is for it nothing was done, so it is a refusal."""
    said = play(parse_script(GOOD, "s"), 4)

    assert [one.stop_reason for one in said] == [TOOL_USE, END_TURN, END_TURN, END_TURN]
    assert [block.id for block in said[0].content if isinstance(block, ToolUse)] == ["scripted-0-0", "scripted-0-1"]
    assert said[1].text == "Done."
    assert all("no more replies (scene 'greet'" in one.text for one in said[2:])
    (none,) = play(parse_script("scenes: []", "s"), 1)
    assert (none.stop_reason, "no scene" in none.text) == (REFUSAL, True)


def test_a_stop_reason_can_be_set_and_tokens_are_counted() -> None:
    """The reason that the script sets wins, and usage is four bytes a token, within what was announced."""
    model = ScriptedModel("m", parse_script(GOOD, "s"), max_tokens=5)
    call = model.prepare(a_request("exit code 1"))
    said = asyncio.run(call.make()).completion
    assert said.stop_reason == MAX_TOKENS
    assert said.usage.output_tokens == 5
    assert said.usage.input_tokens == call.most.input_tokens > 20
