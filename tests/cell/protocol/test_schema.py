"""The published schemas are those that the tables give, and the examples are what happens."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union

import fastjsonschema
import msgspec
import pytest
from msgspec import Meta

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.ways import event_of, said
from infra.cell.protocol.operations import BLOCKS, EVENTS, MOST_OPERATIONS, OPERATIONS, form, guide
from infra.cell.tools.hop import Bootstrap
from infra.cell.tools.tool import Tool, Toolbox, Verdict
from infra.shared.conversation import OPENING_PREFIX
from infra.shared.people import AGENT
from infra.shared.policy import AUTH
from infra.shared.repository.git import Git
from tests.cell.loop.workbench import Workbench

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


class Block(msgspec.Struct, forbid_unknown_fields=True):
    """The text of the fence with this name, behind the list."""

    block: Annotated[str, Meta(min_length=1)]


def _arguments(kind: str) -> type[msgspec.Struct]:
    """The arguments of the tool, with `type` and `id`, and blocks where there may be some; null means left out."""
    fields: list[Any] = [("id", Annotated[str, Meta(min_length=1, max_length=200)] | None, None)]
    for each in msgspec.structs.fields(OPERATIONS[kind]):
        takes = Union[each.type, Block] if each.name in BLOCKS else each.type  # noqa: UP007 - of types at run time
        fields += [(each.name, takes) if each.required else (each.name, Union[takes, None], None)]  # noqa: UP007
    name = kind[0].upper() + kind[1:]
    return msgspec.defstruct(name, fields, tag=kind, tag_field="type", forbid_unknown_fields=True, kw_only=True)


def operations_schema() -> dict[str, Any]:
    """Of what an agent says. A bare list means the same as the object."""
    each: Any = Union[tuple(map(_arguments, OPERATIONS))]  # noqa: UP007
    listed: Any = Annotated[list[each], Meta(max_length=MOST_OPERATIONS)]
    fields: list[Any] = [("operations", listed), ("protocol", Literal[1], 1)]
    whole: Any = msgspec.defstruct("OperationsMessage", fields, forbid_unknown_fields=True)
    return _DRAFT | {"title": "Operations"} | msgspec.json.schema(Union[listed, whole])  # noqa: UP007


SPEC = Path(__file__).parents[3] / "spec/protocol"
EVENTS_SCHEMA = json.loads((SPEC / "events.schema.json").read_text())


def test_the_published_schemas_are_the_codes() -> None:
    assert json.loads((SPEC / "operations.schema.json").read_text()) == operations_schema()
    shapes = [
        each["properties"] for each in EVENTS_SCHEMA["$defs"].values() if "operation" in each.get("properties", {})
    ]
    said = {each["type"]["enum"][0]: each.keys() - {"type", "operation", "status", "error"} for each in shapes}
    assert said == {kind: set(fields) for kind, fields in EVENTS.items()}


def test_the_guide_shows_each_operation() -> None:
    assert all(form(kind) in guide() for kind in OPERATIONS)
    assert len(guide()) < 4000, "it is part of every request"


_FENCE = "`" * 4
_SAID = re.compile(rf"^{_FENCE}text\n(.*?)^{_FENCE}$", re.MULTILINE | re.DOTALL)
_EVENTS = re.compile(rf"^{_FENCE}json\n(.*?)^{_FENCE}$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    title: str
    replies: tuple[str, ...]
    """Of the model, in order."""
    opens_with: tuple[str, ...] = ()
    """Files that the runtime shows unasked, before the first reply."""


SHOWN = 200
"""Characters of a result; short, so that the documents are."""
ASKED = "git push"
GRANTED = "The PM approves call q1: make it again, with the same arguments."


class Pm:
    """Is asked about a push, and allows it two replies later."""

    def __init__(self) -> None:
        self.replies = 0
        self.asked_at = 0

    def gate(self, tool: Tool, given: Mapping[str, Any]) -> Verdict:
        if ASKED not in given.get("command", "") or 0 < self.asked_at < self.replies - 1:
            return Verdict(True)
        self.asked_at = self.replies
        return Verdict(False, "the PM is asked about this call (q1) and has not answered yet", "awaiting_approval")

    def news(self) -> list[dict[str, Any]]:
        """What the PM says after a reply."""
        self.replies += 1
        granted = self.asked_at and self.replies == self.asked_at + 2
        return [said(GRANTED, "pm")] if granted else []


def bootstrap(given: Bootstrap) -> ToolResult:
    return ToolResult(f"the watcher will start {given.branch}", hands_over=True)


def play(example: Example, directory: Path) -> list[list[dict[str, Any]]]:
    """The events of each reply, in a workspace with one document that can be pushed; first those of the opening."""
    pm = Pm()
    bench = Workbench(directory, pm.gate, SHOWN)
    bench.clone.joinpath("docs").mkdir()
    bench.clone.joinpath("docs/plan.md").write_text("# Plan\n\n- [ ] ship\n")
    if any(ASKED in reply for reply in example.replies):
        for words in (f"init -q --bare {directory}/remote", f"init -q {bench.clone}"):
            subprocess.run(["git", *words.split()], check=True)
        git = Git(str(bench.clone), AGENT)
        git("remote", "add", "origin", f"{directory}/remote")
        git("add", ".")
        git("commit", "-qm", "a plan")
    tools = (*bench.tools, Tool("bootstrap", Bootstrap, bootstrap, 1000, AUTH))
    bench.toolbox = Toolbox(tools, pm.gate)
    pm.replies = 1
    shown = [
        ToolCall(f"{OPENING_PREFIX}{n}", "read_file", {"path": path}) for n, path in enumerate(example.opens_with, 1)
    ]
    opening = [event_of(call, bench.toolbox.call(call)) for call in shown]
    return [*([opening] if opening else []), *(bench.reply(reply) + pm.news() for reply in example.replies)]


def read_examples(document: str) -> list[tuple[Example, list[list[dict[str, Any]]]]]:
    """Each with the events that it must get."""
    found = []
    for section in document.split("\n## ")[1:]:
        title = section.split("\n", 1)[0]
        answers = [json.loads(events)["events"] for events in _EVENTS.findall(section)]
        is_opened = section.index("The runtime:") < section.index("The agent:")
        opens_with = tuple(event["path"] for event in answers[0]) if is_opened else ()
        found.append((Example(title, tuple(_SAID.findall(section)), opens_with), answers))
    return found


EXAMPLES = read_examples((SPEC / "EXAMPLES.md").read_text())


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


EVENTS_FIT = _validator(EVENTS_SCHEMA)


def test_the_events_of_the_examples_fit_their_schema() -> None:
    """And one with something more, or without its status, does not."""
    for example, answers in EXAMPLES:
        for events in answers:
            assert EVENTS_FIT({"protocol": 1, "events": events}), example.title
            for event in events:
                assert not EVENTS_FIT({"protocol": 1, "events": [event | {"more": 1}]})
                less = {key: value for key, value in event.items() if key != "status"}
                assert not EVENTS_FIT({"protocol": 1, "events": [less]})


@pytest.mark.heavy
def test_each_example_is_what_happens(tmp_path: Path) -> None:
    """All of version 1, by the operations that are said and the events that answer them."""
    assert len({example.title for example, _ in EXAMPLES}) == 8
    for number, (example, answers) in enumerate(EXAMPLES):
        assert len(example.replies) + bool(example.opens_with) == len(answers) > 0, example.title
        assert play(example, tmp_path / str(number)) == answers, example.title
