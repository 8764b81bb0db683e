"""Calls of the model become acts, or errors in words that say what to do instead; one that hangs is ended."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from msgspec import Meta

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.tools.tool import BRIEFLY, Args, Gate, OutOfTime, Tool, Toolbox, ToolError, Verdict, within
from infra.shared.conversation import ToolSpec
from infra.shared.policy import WRITE
from infra.shared.repository.git import GitError
from tests.cell.tools.made import tool
from tests.shared.rows import each_row


class Echo(Args):
    """Give the words
    back."""

    words: str
    times: Annotated[int, Meta(ge=1, description="how often")] = 1
    pause: Annotated[float, Meta(gt=0)] | None = None


def echo(given: Echo) -> ToolResult:
    return ToolResult(given.words * given.times)


ECHO = Tool("echo", Echo, echo, 1500, WRITE)
BOX = Toolbox([ECHO])


class Failing:
    """An act that raises its errors in turn, and then does what it is asked; the pauses between are noted."""

    def __init__(self, *errors: BaseException, retry: tuple[float, ...] = (), gate: Gate | None = None) -> None:
        self.left = list(errors)
        self.pauses: list[float] = []
        self.bugs: list[BaseException] = []
        self.box = Toolbox(
            [ECHO._replace(act=self.act, retry_profile=retry)], gate, self.bugs.append, self.pauses.append
        )

    def act(self, given: Echo) -> ToolResult:
        if self.left:
            raise self.left.pop(0)
        return echo(given)

    def call(self, words: str = "a") -> ToolResult:
        return self.box.call(ToolCall("call", "echo", {"words": words}))


def call(name: str = "echo", **input: Any) -> ToolResult:
    return BOX.call(ToolCall("call", name, input))


def test_a_tool_shows_what_it_takes_and_may_do() -> None:
    """The schema is the Struct's, without what helps no model."""
    times = {"type": "integer", "description": "how often"}
    properties = {"words": {"type": "string"}, "times": times, "pause": {"type": "number"}}
    schema = {"type": "object", "properties": properties, "required": ["words"]}
    assert (ECHO.name, ECHO.args_schema, ECHO.timeout_ms, ECHO.retry_profile) == ("echo", schema, 1500, ())
    assert (ECHO.side_effect_class, ECHO.spec) == ("write", ToolSpec("echo", "Give the words back.", schema))


@each_row(
    "input, words",
    [
        ({}, "missing required field `words`; it takes words, times, pause"),
        ({"words": "a", "word": "b"}, "unknown field `word`"),
        ({"words": 7}, "words: expected `str`, got `int`"),
        ({"words": None}, "missing required field `words`"),
        ({"words": "a", "times": True}, "times: expected `int`, got `bool`"),
        ({"words": "a", "times": 0}, "times: expected `int` >= 1"),
        ({"words": "a", "pause": float("nan")}, "pause: expected `float` > 0.0"),
        ({"words": "a\ud800"}, "a lone surrogate"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(input: dict[str, Any], words: str) -> None:
    """Before the gate, which decides on arguments that are what they say; each names what was expected."""
    reply = Toolbox([ECHO], lambda *_: pytest.fail("asked")).call(ToolCall("call", "echo", input))
    assert reply.error_code == "validation_error"
    assert reply.payload.startswith("echo: ")
    assert words in reply.payload


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    """The model can choose again; ten megabytes of a name, or of a number, cost the conversation nothing."""
    unknown = ToolResult.err("unknown_tool", "no such tool: 'eval'; the tools are echo")
    assert call("eval", words="a") == unknown
    long: dict[str, Any] = {"x" * 10_000_000: 1}
    for reply in (call("x" * 10_000_000), call(**long), call(words="a", times=-(10**4000))):
        assert len(reply.payload) < 1000


BUSY = OSError(11, "Resource temporarily unavailable")


@each_row(
    "errors, pauses, detail",
    [
        ([ToolError("no such luck")], [], "refused"),
        ([OSError(28, "No space left on device")], [], "os_error"),
        ([GitError(("push",), 1, "remote: hook declined")], [], "git_error"),
        ([GitError(("fetch",), None, "stopped after 5 s")], [], "timeout"),
        ([GitError(("fetch",), 128, "the remote end hung up")], [0.2], ""),
        ([BUSY, BUSY], [0.2, 0.8], ""),
        ([BUSY, BUSY, BUSY], [0.2, 0.8], "os_error"),
    ],
)
def test_an_act_that_fails_is_a_result_and_what_may_pass_is_tried_again(
    errors: list[Exception], pauses: list[float], detail: str
) -> None:
    """As often as the tool's own profile says; a no stays a no."""
    failing = Failing(*errors, retry=BRIEFLY)
    assert failing.call() == (ToolResult.err(detail, f"echo: {errors[-1]}") if detail else ToolResult("a"))
    assert (failing.pauses, failing.bugs) == (pauses, [])
    assert Failing(BUSY).call().error_code == "execution_error", "without a profile"


@each_row("raised", [ZeroDivisionError("by nothing"), SystemExit(3), GeneratorExit(), MemoryError()])
def test_a_bug_in_an_act_is_told_to_both(raised: BaseException) -> None:
    """Also an exception that ends programs: the run goes on, the model reads of it, and the log has the whole."""
    failing = Failing(raised)
    reply = failing.call()
    assert (reply.error_code, failing.bugs) == ("execution_error", [raised])
    assert f"{type(raised).__name__}: {raised}" in reply.payload


def test_the_gate_is_asked_before_anything_is_done() -> None:
    """Its no is a result with its words and its flags; its yes may have flags as well."""

    def gate(entry: Tool, given: Mapping[str, Any]) -> Verdict:
        assert entry.side_effect_class == WRITE
        return Verdict(given["words"] == "b", "not that word", "denied", ("words",))

    failing = Failing(ToolError("acted"), gate=gate)
    assert failing.call() == ToolResult.err("denied", "echo: not that word")._replace(policy_flags=("words",))
    assert len(failing.left) == 1
    failing.left.clear()
    assert failing.call("b") == ToolResult("b", policy_flags=("words",))


DONE: list[int] = []


def turns_in_spite_of_it() -> None:
    while True:
        with contextlib.suppress(Exception):
            DONE.append(1)


def sleeps() -> None:
    time.sleep(3600)


def matches_for_ever() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


@each_row("hang", [turns_in_spite_of_it, sleeps, matches_for_ever])
def test_an_act_that_hangs_is_ended(hang: Callable[[], None]) -> None:
    """It is answered with what to do next, and does nothing more."""

    def act(given: Args) -> ToolResult:
        hang()
        return ToolResult("done")

    hung = Toolbox([tool("hangs", act)._replace(timeout_ms=100)]).call(ToolCall("", "hangs", {}))
    assert (hung.status, hung.error_code, hung.retriable) == ("failed", "tool_timeout", True)
    assert hung.shown.startswith("hangs: it had not ended after 0.1 s")
    assert "before you do it again" in hung.hint
    did = len(DONE)
    time.sleep(0.02)
    assert len(DONE) == did


def test_an_act_in_time_is_not_broken_off_later() -> None:
    """Its time ends while something else is done, or while an act with more time runs."""
    within(0.05, lambda: None)
    time.sleep(0.1)
    within(60.0, lambda: time.sleep(0.1))
    with pytest.raises(OutOfTime):
        within(0.05, sleeps)
    time.sleep(0.1)


def test_an_act_within_another_has_the_time_of_that_one() -> None:
    """Its own is not looked at."""
    began = time.monotonic()
    with pytest.raises(OutOfTime):
        within(0.3, lambda: within(0.01, sleeps))
    assert 0.3 <= time.monotonic() - began < 3
