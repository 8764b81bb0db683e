"""Runs of both ways to ask for an act, in a small world: a tool that does what it is told, a policy, and a clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from infra.cell.actions import ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.record import Line, Standing
from infra.cell.loop.ways import News
from infra.cell.tools.tool import Tool, Toolbox, ToolError, Verdict
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import MAX_TOKENS, REFUSAL, Completion, Request, ToolUse
from tests.cell.loop.records import MOST_STEPS, OPENING
from tests.cell.loop.replies import Canned, calls, says
from tests.cell.tools.made import tool

WHATS = ("a", "b", "fail", "exit1", "bug", "leave", "interrupt", "forbidden", "asked", "late")
CONFIG = RunConfig(max_steps=MOST_STEPS, max_wall_time=100.0)


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits = False
        self.did: list[str] = []
        self.box = Toolbox([tool("bash", self._act, command=str)], self._gate)

    def _act(self, given: Any) -> ToolResult:
        what = given.command
        self.now += 1.0
        self.did.append(what)
        match what:
            case "fail":
                raise ToolError("it cannot be done")
            case "bug":
                raise ZeroDivisionError
            case "interrupt":
                raise Interrupted
            case "late":
                self.now += 60.0
        return ToolResult(f"did {what}", facts={"exit": 1 if what == "exit1" else 0}, hands_over=what == "leave")

    def _gate(self, _: Tool, given: Mapping[str, Any]) -> Verdict:
        asked = given["command"] == "asked"
        self.waits = self.waits or asked
        status = "awaiting_approval" if asked else "denied"
        return Verdict(given["command"] not in ("forbidden", "asked"), "no", status, (status,))


NOBODY = ModelFailure("unavailable", "nobody is there")


class Plan(Canned):
    """Says what it has to say; then nobody is there."""

    def __call__(self, request: Request) -> Completion:
        try:
            return super().__call__(request)
        except StopIteration:
            raise NOBODY from None


def by_tools(whats: list[str]) -> Completion:
    return calls(*(ToolUse(str(at), "bash", {"command": what}) for at, what in enumerate(whats)))


def by_text(whats: list[str]) -> Completion:
    return says("[" + ",".join(f'{{"type": "shell", "command": "{what}"}}' for what in whats) + "]")


BOTH = ((TOOLS, by_tools), (OPERATIONS, by_text))
_ACTS = st.lists(st.sampled_from(WHATS), min_size=1, max_size=3)
_SOME = st.lists(st.sampled_from(["a", "b", "fail", "exit1", "bug", "forbidden"]), min_size=1, max_size=3)
_WORDS = st.sampled_from([says("Done."), says("No.", REFUSAL), says("Cut", MAX_TOKENS), says(""), says("[]")])


def _plans(reply: Any) -> st.SearchStrategy[list[Completion]]:
    """Many kinds of acts, a few of them over and over, or one for ever; with words between them or at the end."""
    return (
        st.lists(_ACTS.map(reply) | _WORDS, max_size=12)
        | st.tuples(st.lists(_SOME.map(reply), max_size=14), _WORDS).map(lambda both: [*both[0], both[1]])
        | _SOME.map(lambda whats: [reply(whats)] * 15)
        | st.tuples(_SOME, st.sampled_from(["leave", "interrupt", "late"])).map(
            lambda both: [reply([*both[0], both[1]])]
        )
    )


WAYS = st.one_of(*(st.tuples(st.just(acts), _plans(reply)) for acts, reply in BOTH))
NEWS = st.lists(st.sampled_from([News(), News("Go on."), News("", "Look out.")]), max_size=6)


def lived(
    acts: str, model: Canned, news: list[News], world: World | None = None, before: Standing | None = None
) -> tuple[RunResult, list[Line]]:
    """How the run ends, and what it records."""
    world, seen, told = world or World(), list[Line](), iter(news)
    context = TaskContext(
        *(model, world.box.call, lambda: next(told, News()), seen.append),
        awaits=lambda: world.waits,
        monotonic=lambda: world.now,
    )
    return run_task(Task(OPENING, acts, before), CONFIG, context), seen
