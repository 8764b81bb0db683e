"""`minifram protocol`, and the schema beside the parser in both directions."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.programs import keep_command, keep_environment
from infra.shared.protocol.read import Requested, oddities, read
from infra.shared.protocol.schema import events_schema, operations_schema
from infra.shared.protocol.shapes import OPERATIONS, Operation
from tests.cell.loop.examples import read_examples
from tests.shared.protocol.test_read import _operation

EXAMPLES = read_examples((Path(__file__).parents[2] / "spec/protocol/EXAMPLES.md").read_text())


def _validator(schema: dict[str, Any]) -> Callable[[Any], bool]:
    # It knows draft 7, in which everything that is used here means the same.
    compiled = fastjsonschema.compile(schema | {"$schema": "http://json-schema.org/draft-07/schema"})

    def fits(value: Any) -> bool:
        try:
            compiled(copy.deepcopy(value))
        except fastjsonschema.JsonSchemaException:
            return False
        return True

    return fits


OPERATIONS_FIT = _validator(operations_schema())
EVENTS_FIT = _validator(events_schema())


def is_taken(value: list[dict[str, Any]]) -> bool:
    """The parser takes every operation of it, or refuses what no schema can tell: a text that cannot be meant."""
    found = read(json.dumps(value))
    if not isinstance(found, Requested):
        return False
    return all(isinstance(item, Operation) or is_odd(each) for item, each in zip(found.items, value, strict=True))


def is_odd(operation: dict[str, Any]) -> bool:
    if not OPERATIONS_FIT([operation]):
        return False
    return any(oddities(operation["type"], {name: value for name, value in operation.items() if name != "type"}))


def changed(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each with one thing wrong."""
    yield operation | {"extra": 1}
    yield operation | {"type": "run"}
    yield operation | {"id": 7}
    yield operation | {"id": ""}
    for name in operation:
        yield {key: value for key, value in operation.items() if key != name}
        wrongs: tuple[Any, ...] = (None, 5.5, [], {}, -1, True, {"block": 1}, {"block": "A", "more": 1}, 0)
        yield from (operation | {name: wrong} for wrong in wrongs)


@given(st.lists(_operation(), min_size=1, max_size=2))
def test_what_the_parser_takes_fits_the_schema(made: list[dict[str, Any]]) -> None:
    """And a list that is wrong in one place fits neither, or both."""
    assert is_taken(made)
    assert OPERATIONS_FIT(made)
    assert OPERATIONS_FIT({"protocol": 1, "operations": made})
    for wrong in changed(made[0]):
        if not any(isinstance(value, dict) for value in wrong.values()):  # a block stands beside the list
            assert OPERATIONS_FIT([wrong]) == is_taken([wrong]), wrong


def test_a_block_fits_where_text_does() -> None:
    whole = {"type": "createFile", "path": "a", "content": {"block": "A"}}
    assert OPERATIONS_FIT([whole])
    assert not OPERATIONS_FIT([whole | {"path": {"block": "A"}}])
    assert not OPERATIONS_FIT([whole | {"content": {"block": "A", "more": 1}}])
    assert set(OPERATIONS) == {kind["properties"]["type"]["const"] for kind in _kinds(operations_schema())}


def _kinds(schema: dict[str, Any]) -> list[dict[str, Any]]:
    several: list[dict[str, Any]] = schema["oneOf"][0]["items"]["oneOf"]
    return several


def test_the_events_of_the_examples_fit_their_schema() -> None:
    """And one with something more, or without its status, does not."""
    for example, answers in EXAMPLES:
        for events in answers:
            assert EVENTS_FIT({"protocol": 1, "events": events}), example.title
            for event in events:
                assert not EVENTS_FIT({"protocol": 1, "events": [event | {"more": 1}]})
                less = {key: value for key, value in event.items() if key != "status"}
                assert not EVENTS_FIT({"protocol": 1, "events": [less]})


def minifram(*words: str, said: str = "", cwd: Path | None = None) -> tuple[int, str, str]:
    """Exit code and what it prints."""
    ended = subprocess.run(
        keep_command("host", "protocol", *words),
        input=said,
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        env=keep_environment(),
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_check_names_the_place(tmp_path: Path) -> None:
    """By its path, with what was expected and found; 8 when there is something."""
    reply = tmp_path / "reply.txt"
    reply.write_text('Here:\n[{"type": "shell", "command": "ls", "timeout": "soon"}, {"type": "ls"}]')
    code, out, _ = minifram("check", str(reply))
    assert code == 8
    assert "operations[0].timeout: timeout is the string 'soon'; expected a number above 0" in out
    assert "operations[1].type: type is 'ls'; expected one of message" in out
    assert minifram("check", "-", said='[{"type": "shell", "command": "ls"}]')[:2] == (0, "ok\n")
    code, out, _ = minifram("check", "--json", "-", said="[{")
    assert (code, json.loads(out)["problems"][0]["path"]) == (8, "$")


def test_run_carries_out_under_a_policy(tmp_path: Path) -> None:
    """In its workspace; a denied act is an event, a key is not printed, and nothing of a broken list is done."""
    key = "sk-ant-" + "api03-AbCdEf1234567890GhIjKlMnOpQrStUvWxYz0987654321abcdefghijkl"
    policy = tmp_path / "minifram.yaml"
    policy.write_text("policy: {rules: [{do: deny, tools: [delete_file]}]}\n")
    workspace = tmp_path / "work"
    workspace.mkdir()
    said = json.dumps(
        [
            {"type": "createFile", "path": "a", "content": "x"},
            {"type": "deleteFile", "path": "a"},
            {"type": "readFile", "path": "../minifram.yaml"},
            {"type": "shell", "command": f"cat a; echo {key}"},
        ]
    )
    code, out, _ = minifram("run", "--workspace", str(workspace), "--policy", str(policy), said=said)
    events = json.loads(out)["events"]
    assert code == 8
    assert [event["status"] for event in events] == ["ok", "denied", "failed", "ok"]
    assert events[3]["stdout"].startswith("x")
    assert key not in out
    assert (workspace / "a").exists()
    code, out, error = minifram("run", "--workspace", str(workspace), said='[{"type": "shell", "command": "touch b"}')
    assert (code, out) == (8, "")
    assert "ends in the middle" in error
    assert not (workspace / "b").exists()


def test_schema_and_guide_are_printed() -> None:
    assert json.loads(minifram("schema")[1])["events"] == events_schema()
    assert minifram("guide")[1].startswith("# How you act")
