"""Calls of the model become acts, or errors in words that say what to do instead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.interruption import Interruption
from infra.cell.tools.arguments import schema
from infra.cell.tools.bash import bash_tool, environment
from infra.cell.tools.registry import BRIEFLY, Gate, SideEffect, Tool, ToolError, Verdict
from infra.cell.tools.spill import MOST_BYTES, MOST_FILES, MOST_TOGETHER, Spill, path_of
from infra.cell.tools.tool import Toolbox
from infra.shared.boot import VARIABLE
from infra.shared.conversation import ToolSpec
from infra.shared.paths import OUTPUTS
from infra.shared.repository.git import GitError
from tests.shared.rows import each_row
from tests.shared.texts import any_text

ECHO = ToolSpec(
    "echo",
    "Give the words back.",
    schema({"words": {"type": "string"}}, {"times": {"type": "integer", "minimum": 1}, "pause": {"type": "number"}}),
)


def echo(given: Mapping[str, Any], seconds: float) -> ToolResult:
    return ToolResult(given["words"] * given.get("times", 1))


BOX = Toolbox([Tool(ECHO, echo, 1000, SideEffect.READ)])


class Failing:
    """An act that raises its errors in turn, and then does what it is asked; the pauses between are noted."""

    def __init__(self, *errors: Exception, retry: tuple[float, ...] = (), gate: Gate | None = None) -> None:
        self.left = list(errors)
        self.pauses: list[float] = []
        self.bugs: list[BaseException] = []
        entry = Tool(ECHO, self.act, 1500, SideEffect.WRITE, retry)
        self.box = Toolbox([entry], gate, self.bugs.append, self.pauses.append)

    def act(self, given: Mapping[str, Any], seconds: float) -> ToolResult:
        assert seconds == 1.5
        if self.left:
            raise self.left.pop(0)
        return echo(given, seconds)

    def call(self) -> ToolResult:
        return self.box.call(ToolCall("call", "echo", {"words": "a"}))


def call(name: str = "echo", **input: Any) -> ToolResult:
    return BOX.call(ToolCall("call", name, input))


def test_a_call_that_fits_is_acted_on() -> None:
    """Required and optional arguments reach the act."""
    assert call(words="ab") == ToolResult("ab")
    assert call(words="ab", times=2, pause=1) == ToolResult("abab")


@each_row(
    "input, words",
    [
        ({}, "argument words is missing; echo takes words, times (optional), pause (optional)"),
        ({"words": "a", "word": "b"}, "unknown argument 'word'; echo takes words"),
        ({"words": 7}, "words is of type int; expected string"),
        ({"words": None}, "words is of type NoneType; expected string"),
        ({"words": "a", "times": True}, "times is of type bool; expected integer"),
        ({"words": "a", "times": 1.0}, "times is of type float; expected integer"),
        ({"words": "a", "times": 0}, "times is 0; expected 1 or more"),
        ({"words": "a\ud800"}, "words holds a lone surrogate"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(input: dict[str, Any], words: str) -> None:
    """Missing, unknown, of another type, out of range: each names itself and what was expected."""
    reply = call(**input)

    assert not reply.ok
    assert words in reply.payload


NAMES = st.sampled_from(["words", "times", "pause", "other"])
VALUES = st.none() | st.booleans() | st.integers(max_value=9) | st.floats() | any_text(max_size=9)


@given(st.dictionaries(NAMES, VALUES))
def test_no_arguments_whatever_are_an_exception(input: dict[str, Any]) -> None:
    """Whatever a model invents comes back as a result, and only what fits is acted on."""
    reply = BOX.call(ToolCall("call", "echo", input))

    if not reply.ok:
        assert reply.payload.startswith("echo: ")
    else:
        assert reply.payload == input["words"] * input.get("times", 1)


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    """The model can choose again."""
    unknown = ToolResult.err("unknown_tool", "no such tool: 'eval'; the tools are echo")
    assert call("eval", words="a") == unknown
    assert call(wrong="a").detail == "invalid_arguments"


@each_row(
    "error, code",
    [
        (ToolError("no such luck"), "refused"),
        (OSError(28, "No space left on device"), "os_error"),
        (FileNotFoundError(2, "No such file"), "os_error"),
        (GitError(("push",), 1, "no"), "git_error"),
        (GitError(("fetch",), None, "stopped after 5 s"), "timeout"),
    ],
)
def test_an_act_that_fails_is_a_result(error: Exception, code: str) -> None:
    """What went wrong is for the model to read, and of what kind it is for whoever counts."""
    failing = Failing(error)

    assert failing.call() == ToolResult.err(code, f"echo: {error}")
    assert failing.bugs == []


def test_a_bug_in_an_act_is_told_to_both() -> None:
    """The loop goes on, the model reads that it was no fault of its call, and the log has the whole."""
    failing = Failing(ZeroDivisionError("by nothing"))

    reply = failing.call()

    assert reply.detail == "internal"
    assert "ZeroDivisionError: by nothing" in reply.payload
    assert [type(error) for error in failing.bugs] == [ZeroDivisionError]


BUSY = OSError(11, "Resource temporarily unavailable")


@each_row(
    "errors, retry, pauses, well",
    [
        ([BUSY, BUSY], BRIEFLY, [0.2, 0.8], True),
        ([BUSY, BUSY, BUSY], BRIEFLY, [0.2, 0.8], False),
        ([GitError(("fetch",), 128, "the remote end hung up")], BRIEFLY, [0.2], True),
        ([GitError(("fetch",), None, "stopped after 60 s")], BRIEFLY, [], False),
        ([GitError(("push",), 1, "remote: hook declined")], BRIEFLY, [], False),
        ([OSError(28, "No space left on device")], BRIEFLY, [], False),
        ([ToolError("no")], BRIEFLY, [], False),
        ([BUSY], (), [], False),
    ],
)
def test_only_what_may_pass_is_tried_again(
    errors: list[Exception], retry: tuple[float, ...], pauses: list[float], well: bool
) -> None:
    """As often as the act's own profile says; a no stays a no."""
    failing = Failing(*errors, retry=retry)

    assert failing.call().ok is well
    assert failing.pauses == pauses


def test_the_gate_is_asked_before_anything_is_done() -> None:
    """Its no is a result with its words and its flags; its yes may have flags as well."""

    def gate(entry: Tool, given: Mapping[str, Any]) -> Verdict:
        assert entry.side_effect is SideEffect.WRITE
        return Verdict(given["words"] == "b", "not that word", "denied", ("words",))

    failing = Failing(ToolError("acted"), gate=gate)

    denied = ToolResult.err("denied", "echo: not that word")._replace(policy_flags=("words",))
    assert failing.call() == denied
    assert len(failing.left) == 1
    failing.left.clear()
    allowed = failing.box.call(ToolCall("call", "echo", {"words": "b"}))
    assert allowed == ToolResult("b", policy_flags=("words",))


def test_what_does_not_fit_never_reaches_the_gate() -> None:
    """It decides on arguments that are what they say."""

    def gate(entry: Tool, given: Mapping[str, Any]) -> Verdict:
        raise AssertionError

    box = Toolbox([Tool(ECHO, echo, 1000, SideEffect.READ)], gate)
    assert box.call(ToolCall("call", "echo", {"words": 7})).detail == "invalid_arguments"


def test_long_names_are_not_given_back_whole() -> None:
    """Ten megabytes of a name, or of a number, cost the conversation nothing."""
    assert len(BOX.call(ToolCall("call", "x" * 10_000_000, {})).payload) < 1000
    assert len(BOX.call(ToolCall("call", "echo", {"x" * 10_000_000: 1, "words": "a"})).payload) < 1000
    assert len(call(words="a", times=-(10**4000)).payload) < 1000


# bash


@pytest.fixture
def shell(tmp_path: Path) -> Toolbox:
    return Toolbox([bash_tool(str(tmp_path), 5.0, 200, Interruption())])


def run(shell: Toolbox, command: str, **more: Any) -> ToolResult:
    return shell.call(ToolCall("call", "bash", {"command": command, **more}))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("true", "[exit status 0]"),
        ("echo one; echo two", "one\ntwo\n[exit status 0]"),
        ("echo oh >&2; exit 3", "oh\n[exit status 3]"),
        ("kill -TERM $$", "[ended by signal 15]"),
        ("nosuchcommand 2>/dev/null", "[exit status 127]"),
    ],
)
def test_the_status_of_a_command_is_always_told_and_never_an_error(shell: Toolbox, command: str, shown: str) -> None:
    """A command that fails has been run all the same: what it says is what the model wanted to know."""
    reply = run(shell, command)
    assert (reply.payload, reply.ok) == (shown, True)


def test_out_of_time_is_an_error_with_what_was_written(shell: Toolbox) -> None:
    """The model may ask for less time than the limit."""
    reply = run(shell, "echo begun; sleep 100", timeout=0.1)

    assert reply.error_code == "tool_timeout"
    assert reply.payload.startswith("begun\n[ended after 0.1 s")


def test_the_limit_stands_whatever_is_asked_for(tmp_path: Path) -> None:
    """More time than the PM allows is not given."""
    shell = Toolbox([bash_tool(str(tmp_path), 0.1, 200, Interruption())])

    assert "[ended after 0.1 s" in run(shell, "sleep 100", timeout=1e300).payload
    assert "[ended after 0.1 s" in run(shell, "sleep 100", timeout=float("inf")).payload
    assert "expected 0 or more" in run(shell, "true", timeout=float("nan")).payload


def test_commands_that_no_command_line_can_hold_are_refused(shell: Toolbox) -> None:
    """Too long, or with a NUL: the answer says what to do."""
    assert "into a file" in run(shell, "true " + "x" * 200_000).hint
    assert "NUL" in run(shell, "echo \0").payload


def kept(reply: ToolResult) -> str:
    """The path that a cut result names."""
    [line] = [line for line in reply.payload.splitlines() if "logs/outputs/" in line]
    return line.rstrip("]").partition(": ")[2]


def test_the_whole_of_a_long_output_can_be_searched(shell: Toolbox, tmp_path: Path) -> None:
    """Where it lies is told, from the checkout; a short one leaves no file."""
    run(shell, "echo short")
    assert not (tmp_path / "logs").exists()
    reply = run(shell, "seq 10000")
    path = kept(reply)
    assert "of 48894 characters left out" in reply.payload
    assert reply.payload.endswith("[exit status 0]")
    assert reply.artifacts == (path,)
    assert run(shell, "seq 10000") == reply
    assert (tmp_path / path).read_text() == "".join(f"{number}\n" for number in range(1, 10001))
    assert run(shell, f"grep -n ^5000$ {path}").payload == "5000:5000\n[exit status 0]"


@pytest.mark.heavy
def test_of_an_endless_output_the_beginning_is_kept(shell: Toolbox, tmp_path: Path) -> None:
    """As much as may be, and that is said; also of a command that was ended."""
    reply = run(shell, "yes", timeout=0.5)
    assert not reply.ok
    assert f"its first {MOST_BYTES} bytes" in reply.payload
    assert (tmp_path / kept(reply)).stat().st_size == MOST_BYTES


@pytest.mark.heavy
def test_only_the_last_outputs_are_kept(tmp_path: Path) -> None:
    """By time, whatever else lies there: so many files, and so many bytes of all."""
    outputs, place = Spill(str(tmp_path)), tmp_path / OUTPUTS
    kept = [outputs.keep(b"%d" % number) for number in range(3)]
    (place / "directory").mkdir()
    for number in range(3, MOST_FILES):
        (place / f"{number:04}.txt").write_bytes(b"x")
    for age, path in enumerate([tmp_path / path for path in kept] + sorted(place.glob("0*.txt"))):
        os.utime(path, (age, age))
    assert outputs.keep(b"0") == kept[0] == path_of(b"0"), "the oldest, once more"
    outputs.keep(b"new")
    outputs.keep(b"newer")
    assert [(tmp_path / path).exists() for path in kept] == [True, False, False]
    assert len(list(place.glob("*.txt"))) == MOST_FILES

    for number in range(MOST_TOGETHER // MOST_BYTES):
        last = outputs.keep(b"%03d" % number + b"\n" * (MOST_BYTES - 3))
    sizes = [path.stat().st_size for path in place.glob("*.txt")]
    assert sum(sizes) == MOST_TOGETHER
    assert (tmp_path / last).exists()


def test_outputs_that_cannot_be_kept_cost_no_result(shell: Toolbox, tmp_path: Path) -> None:
    """A file stands in the way of the directory."""
    (tmp_path / "logs").write_text("")
    reply = run(shell, "seq 10000")
    assert reply.ok
    assert "could not be kept" in reply.payload
    assert reply.payload.endswith("[exit status 0]")


def test_commands_do_not_inherit_what_makes_a_runner(shell: Toolbox) -> None:
    """A runner started by hand from a command would otherwise take itself for this one."""
    os.environ[VARIABLE] = "{}"
    try:
        assert VARIABLE not in environment()
        assert run(shell, f"echo ${{{VARIABLE}:-none}}").payload == "none\n[exit status 0]"
    finally:
        del os.environ[VARIABLE]
    assert environment()["PATH"] == os.environ["PATH"]
