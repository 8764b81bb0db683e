"""The scripted decisions and the provider that plays them: what is compared is the same work."""

from __future__ import annotations

import http.client
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from bench.decisions import (
    DONE,
    Broken,
    BrokenOff,
    Busy,
    Edit,
    ModelReply,
    Read,
    Shell,
    Write,
    by_bash,
    by_operations,
    by_tools,
)
from bench.provider import Provider
from bench.tasks import LARGE, MANY, SMALL, tasks
from infra.cell.loop.arguments import problem_with_input
from infra.cell.loop.bash_tool import BASH
from infra.cell.loop.file_tools import EDIT_FILE, READ_FILE, WRITE_FILE
from infra.keep.model_door.anthropic_stream import AnthropicReply
from infra.shared.conversation import ToolUse
from infra.shared.protocol.framing import NotTaken
from infra.shared.protocol.read import Requested, read
from infra.shared.protocol.shapes import Operation

SPECS = {spec.name: spec for spec in (BASH, EDIT_FILE, READ_FILE, WRITE_FILE)}


def test_each_way_asks_for_the_same_acts() -> None:
    """All that is decided is said, in a form that is taken; there are twelve tasks at least, of three kinds."""
    assert len(tasks()) >= 12
    assert {task.kind for task in tasks()} == {LARGE, MANY, SMALL}
    for task in tasks():
        acts = [act for step in task.steps for act in step]
        operations = [read(reply.text) for reply in by_operations(task.steps)[:-2] if isinstance(reply, ModelReply)]
        asked = [item for found in operations if isinstance(found, Requested) for item in found.items]
        assert all(isinstance(item, Operation) for item in asked)
        calls = [call for reply in by_tools(task.steps) if isinstance(reply, ModelReply) for call in reply.calls]
        assert [problem_with_input(SPECS[name], given) for _, name, given in calls] == [None] * len(acts)
        commands = [call for reply in by_bash(task.steps) if isinstance(reply, ModelReply) for call in reply.calls]
        assert len(asked) == len(calls) == len(commands) - 1 == len(acts)
        for act, item, (_, _, given) in zip(acts, asked, calls, strict=True):
            assert isinstance(item, Operation)
            texts = [value for value in item.fields.values() if isinstance(value, str)]
            assert texts == [value for value in given.values() if isinstance(value, str)] == [*filter(_is_text, act)]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def test_mini_swe_agent_is_told_the_same_in_its_own_words(tmp_path: Path) -> None:
    """Its commands leave the files that ours would."""
    moves = (
        (Write("a/b.txt", "one\ntwo 'x'\n"),),
        (Edit("a/b.txt", "two", "2"), Read("a/b.txt")),
        (Shell("cp a/b.txt c"),),
    )
    for reply in by_bash(moves)[:-1]:
        assert isinstance(reply, ModelReply)
        for _, _, given in reply.calls:
            subprocess.run(["sh", "-c", given["command"]], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "c").read_text() == "one\n2 'x'\n"


def test_the_provider_answers_in_its_format_and_counts_what_crosses_its_wire() -> None:
    """A whole reply, one that breaks off, and none."""
    provider = Provider(keeps_bodies=True)
    answers = by_tools([(Shell("true"),), BrokenOff(), Busy()])
    provider.play(answers)
    body = json.dumps({"messages": []})
    taken = []
    for _ in answers:
        connection = http.client.HTTPConnection(urlsplit(provider.url).netloc)
        connection.request("POST", "/v1/messages", body)
        response = connection.getresponse()
        try:
            content = response.read()
        except http.client.IncompleteRead as broken:
            content = broken.partial
        connection.close()
        reply = AnthropicReply()
        for line in content.splitlines():
            if response.status == 200:
                reply.take(line)
        taken.append((response.status, reply.completion(frozenset()) if reply.done else None))
    turns = provider.finished(10.0)
    provider.close()
    assert [status for status, _ in taken] == [200, 200, 503, 200]
    first, second, _, last = (completion for _, completion in taken)
    assert first
    assert isinstance(first.content[1], ToolUse)
    assert first.content[1].input == {"command": "true"}
    assert second is None
    assert last
    assert last.content[0].text == DONE  # type: ignore[union-attr]
    assert [turn.body for turn in turns] == [body.encode()] * len(answers)
    assert all(turn.received_bytes > len(body) and turn.arrived <= turn.answered for turn in turns)


def test_a_broken_reply_is_one_that_nothing_of_may_be_carried_out() -> None:
    """It is cut in the list; tools get a call without its argument."""
    cut, _, _ = by_operations([Broken()])
    assert isinstance(cut, ModelReply)
    assert isinstance(read(cut.text), NotTaken)
    call, _ = by_tools([Broken()])
    assert isinstance(call, ModelReply)
    assert problem_with_input(BASH, call.calls[0][2])
