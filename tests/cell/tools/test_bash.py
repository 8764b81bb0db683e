"""`bash`: what a command says and how it ended, within bounds; long text is cut in the middle, and says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.clip import HeadAndTail, clip
from infra.cell.interruption import Interruption
from infra.cell.tools import command
from infra.cell.tools.bash import bash_tool, environment
from infra.cell.tools.spill import MOST_KEPT, TORN_BYTES, Spill
from infra.cell.tools.tool import Toolbox
from infra.shared.boot import VARIABLE
from infra.shared.paths import OUTPUTS
from tests.shared.rows import any_text


@pytest.fixture
def shell(tmp_path: Path) -> Toolbox:
    return Toolbox([bash_tool(str(tmp_path), 5.0, 200, Interruption())])


def run(shell: Toolbox, command: str, **more: Any) -> ToolResult:
    return shell.call(ToolCall("call", "bash", {"command": command, **more}))


def test_the_limit_stands_whatever_is_asked_for(tmp_path: Path) -> None:
    """More time than the PM allows is not given; out of time is an error, with what was written."""
    shell = Toolbox([bash_tool(str(tmp_path), 0.1, 200, Interruption())])
    for timeout in (1e300, float("inf")):
        reply = run(shell, "echo begun; sleep 100", timeout=timeout)
        assert reply.error_code == "tool_timeout"
        assert reply.shown.startswith("begun\n[ended after 0.1 s")
    assert run(shell, "true", timeout=float("nan")).error_code == "validation_error"


def test_commands_that_no_command_line_can_hold_are_refused(shell: Toolbox) -> None:
    """Too long, or with a NUL."""
    assert "Argument list too long" in run(shell, "true " + "x" * 200_000).payload
    assert run(shell, "echo \0").error_code == "validation_error"


def test_a_checkout_that_is_gone_is_told(tmp_path: Path) -> None:
    """With a directory and without one."""
    shell = Toolbox([bash_tool(str(tmp_path / "gone"), 5.0, 200, Interruption())])
    for more in ({}, {"cwd": "src"}):
        assert "is no directory" in run(shell, "true", **more).shown
    assert run(shell, "pwd", cwd=str(tmp_path)).shown == f"{tmp_path}\n[exit status 0]"


def kept(reply: ToolResult) -> str:
    """The path that a cut result names."""
    [line] = [line for line in reply.shown.splitlines() if "logs/outputs/" in line]
    return line.rstrip("]").partition(": ")[2]


def test_the_whole_of_a_long_output_can_be_searched(shell: Toolbox, tmp_path: Path) -> None:
    """Where it lies is told, from the checkout; a short one leaves no file."""
    run(shell, "echo short")
    assert not (tmp_path / "logs").exists()
    reply = run(shell, "seq 10000")
    path = kept(reply)
    assert "of 48894 characters left out" in reply.shown
    assert reply.shown.endswith("[exit status 0]")
    assert reply.artifacts == (path,)
    assert run(shell, "seq 10000") == reply
    assert (tmp_path / path).read_text() == "".join(f"{number}\n" for number in range(1, 10001))
    assert run(shell, f"grep -n ^5000$ {path}").shown == "5000:5000\n[exit status 0]"


@pytest.mark.heavy
def test_of_an_endless_output_the_beginning_is_kept(shell: Toolbox, tmp_path: Path) -> None:
    """As much as may be, and that is said; also of a command that was ended."""
    reply = run(shell, "yes", timeout=0.5)
    assert not reply.ok
    assert f"its first {command.MOST_KEPT} bytes" in reply.shown
    assert (tmp_path / kept(reply)).stat().st_size == command.MOST_KEPT - TORN_BYTES


def test_only_the_last_outputs_are_kept(tmp_path: Path) -> None:
    """The oldest go; whatever else lies there."""
    outputs, place = Spill(str(tmp_path)), tmp_path / OUTPUTS
    (place / "directory").mkdir(parents=True)
    kept = [tmp_path / outputs.keep(b"%03d" % number, "")[0][0] for number in range(MOST_KEPT)]
    for age, path in enumerate(kept):
        os.utime(path, (age, age))
    last = tmp_path / outputs.keep(b"last", "")[0][0]
    assert [path.exists() for path in (*kept, last)] == [False, *[True] * MOST_KEPT]


def test_outputs_that_cannot_be_kept_cost_no_result(shell: Toolbox, tmp_path: Path) -> None:
    """A file stands in the way of the directory."""
    (tmp_path / "logs").write_text("")
    reply = run(shell, "seq 10000")
    assert reply.ok
    assert "could not be kept" in reply.shown
    assert reply.shown.endswith("[exit status 0]")


def test_commands_do_not_inherit_what_makes_a_runner(shell: Toolbox) -> None:
    """A runner started by hand from a command would otherwise take itself for this one."""
    os.environ[VARIABLE] = "{}"
    try:
        assert VARIABLE not in environment()
        assert run(shell, f"echo ${{{VARIABLE}:-none}}").shown == "none\n[exit status 0]"
    finally:
        del os.environ[VARIABLE]
    assert environment()["PATH"] == os.environ["PATH"]


@given(any_text(max_size=200), st.integers(min_value=1, max_value=250))
def test_short_text_stays_and_long_text_keeps_both_ends(text: str, limit: int) -> None:
    """What fits is unchanged; of what does not, exactly `limit` characters stay, around a note that counts the rest."""
    shown = clip(text, limit)

    if len(text) <= limit:
        assert shown == text
    else:
        said = f"\n[… {len(text) - limit} of {len(text)} characters left out here …]\n"
        head, tail = (limit + 1) // 2, limit // 2
        assert shown == text[:head] + said + text[len(text) - tail :]


@given(st.lists(any_text(max_size=30), max_size=20), st.integers(min_value=1, max_value=100))
def test_pieces_come_to_the_same_as_the_whole(pieces: list[str], limit: int) -> None:
    """However a text is cut into pieces on its way, the same is kept of it."""
    kept = HeadAndTail(limit)
    for piece in pieces:
        kept.feed(piece)

    assert kept.text() == clip("".join(pieces), limit)
