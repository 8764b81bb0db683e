"""Commands that the output prints: pasted, each acts on the agent that the output was about."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import pytest

from host.cli import COMMANDS
from host.display import Screen, Verbatim, with_agent
from host.notify.letters import Pending, body_of
from tests.host.desk import PROJECT, Desk

UNQUOTED = re.compile(rf"(?<!['`])\bminifram (?:{'|'.join(COMMANDS)})\b(?![^'\n]*(?:--agent|agent_option))")
WHOLE = {"cli.py", "demo.py", "demo_agent.py"}
"""Texts of `--help`, and of a demo whose agent is named by no command."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'minifram up' starts it", "'minifram up --agent bob' starts it"),
        (
            "see `minifram approve` and 'minifram deny x WHY'",
            "see `minifram approve --agent bob` and 'minifram deny --agent bob x WHY'",
        ),
        ("'minifram up --agent eve'", "'minifram up --agent eve'"),
        ("minifram up, and minifram", "minifram up, and minifram"),
    ],
)
def test_a_quoted_command_gets_the_agent_that_it_lacks(text: str, shown: str) -> None:
    """Once; the default agent needs none."""
    assert with_agent(text, " --agent bob") == shown
    assert with_agent(text, "") == text


def test_status_down_tell_and_errors_keep_the_agent(desk: Desk) -> None:
    """On both streams, by the option and by the environment."""
    desk.done("init", "--agent", "bob")
    for words in (
        ("status",),
        ("down",),
        ("reject", "gone"),
        ("upgrade",),
        ("runs",),
        ("review", "gone"),
        ("resume", "x"),
    ):
        for said in (desk.run(*words, "--agent", "bob"), desk.run(*words, MINIFRAM_AGENT="bob")):
            found = re.findall(r"'(minifram [^']*)'", said.out + said.err)
            assert found, words
            assert all(command.endswith("--agent bob") for command in found), found
    assert "--agent" not in desk.run("status").out
    assert "'minifram up --agent agent'" in desk.run("status", "--agent", "agent", MINIFRAM_AGENT="bob").out


def test_a_notification_names_the_agent_too() -> None:
    """It is read far from the agent."""
    told = Pending(1, "t", "t", 0.0, ({"at": "t", "text": "'minifram up' starts it"},))
    assert json.loads(body_of("stopped", "bob", "1", told))["items"][0]["text"] == "'minifram up --agent bob' starts it"
    assert json.loads(body_of("stopped", "agent", "1", told))["text"] == "agent: 'minifram up' starts it"


def test_what_others_wrote_is_shown_as_it_is(desk: Desk) -> None:
    """A change that names a command is not a text of ours."""
    desk.done("init", "--agent", "bob")
    git = desk.git("bob")
    blob = git("hash-object", "-w", "--stdin", stdin=b"run 'minifram up' now\n")
    tree = git("mktree", stdin=f"100644 blob {blob}\tREADME.md\n".encode())
    commit = git("commit-tree", tree, "-p", "main", "-m", "a note", stdin=b"")
    git("update-ref", "refs/heads/note", commit)

    assert "run 'minifram up' now" in desk.done("review", "note", "--agent", "bob").out
    screen = Screen(io.StringIO(), io.StringIO(), colour=False, option=" --agent bob")
    screen.show(None, ["'minifram up'", Verbatim("'minifram up'")])
    assert screen.out.getvalue() == "'minifram up --agent bob'\n'minifram up'\n"  # type: ignore[attr-defined]


def test_our_texts_quote_each_command_that_they_name() -> None:
    """So `Screen` finds it: no command is printed without its agent."""
    for path in (PROJECT / "host").rglob("*.py"):
        if path.name not in WHOLE:
            _quotes_each(path)


def _quotes_each(path: Path) -> None:
    tree = ast.parse(path.read_text())
    documents = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        for _ in [0]
        if isinstance(node.body[0], ast.Expr)
    }
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else ast.unparse(part) for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documents | parts:
            text = node.value
        assert not UNQUOTED.search(text), (path.name, text)
