"""The tool `note`: what it refuses, what it finds out by itself, and what the policy sees of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.loop import Acted
from infra.cell.loop.registry import Verdict
from infra.cell.loop.toolbox import Toolbox
from infra.cell.mind.note_tool import NotesOfRun, note_tool
from infra.cell.mind.notes import MOST_NOTES, NOTE, details_of
from infra.cell.policy.gate import gate_of
from infra.shared.policy import Policy, Rule, to_text
from tests.cell.loop.waiting import gone, wait_for
from tests.shared.rows import each_row


class Noting:
    """A run that notes in a checkout of its own."""

    def __init__(self, checkout: Path | str, policy: Policy | None = None, origins: tuple[str, ...] = ()) -> None:
        self.notes = NotesOfRun()
        self.notes.directed("Deploys run from the branch\nrelease only.")
        tool = note_tool(self.notes, str(checkout), Interruption(), lambda: origins, seconds=5.0)
        gate = gate_of(to_text(policy), str(checkout), lambda *_: Verdict(False, "asked")) if policy else None
        self._toolbox = Toolbox([tool], gate)

    def __call__(self, subject: str, statement: str, **more: str) -> ToolResult:
        return self._toolbox.call(ToolCall("1", NOTE, {"subject": subject, "statement": statement, **more}))


def found(result: ToolResult) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = result.facts[NOTE]
    assert details_of(facts) is not None
    return facts


def test_a_check_is_run_and_its_status_stands_in_the_facts(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("port=8080\n")
    note = Noting(tmp_path)
    good = note("port", "the port is 8080", check="grep -q 8080 config")
    assert good.ok
    assert "check" in good.payload
    assert found(good)["exit_status"] == 0
    bad = note("port", "the port is 9090", check="echo looked; grep -q 9090 config")
    assert bad.ok
    assert "looked" in bad.payload
    assert "counts for nothing" in bad.payload
    assert found(bad)["exit_status"] == 1 == bad.facts["exit"]


def test_a_check_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    tool = note_tool(NotesOfRun(), str(tmp_path), Interruption(), seconds=0.2)
    call = ToolCall("1", NOTE, {"subject": "a", "statement": "b", "check": "sh -c 'echo $$ > pid; sleep 60' & wait"})
    result = Toolbox([tool]).call(call)
    assert "exit_status" not in found(result)
    assert "counts for nothing" in result.payload
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: gone(pid), "the end of what the check started")


def test_a_quote_stands_in_the_words_of_the_pm(tmp_path: Path) -> None:
    """Blanks make no difference; words of the model's do not stand there."""
    note = Noting(tmp_path)
    assert found(note("deploys", "they run from release", quote="from the branch release only"))["quote_found"] is True
    refused = note("deploys", "they run by night", quote="deploys run by night")
    assert (refused.status, refused.detail) == ("failed", "refused")
    assert "letter by letter" in refused.shown


@each_row(
    "given, words",
    [
        ({"subject": " ", "statement": "x"}, "subject holds no word"),
        ({"subject": "x", "statement": "..."}, "statement holds no word"),
        ({"subject": "x" * 81, "statement": "x"}, "81 characters; expected 80"),
        ({"subject": "x", "statement": "x" * 401}, "401 characters; expected 400"),
        ({"subject": "x", "statement": "y", "check": "a" * 1001}, "1001 characters"),
        ({"subject": "x", "statement": "y", "check": "true"}, "shows nothing"),
        ({"subject": "x", "statement": "y", "check": "grep y /agent/memory/beliefs.md"}, "no evidence of itself"),
        ({"subject": "x", "statement": "y", "check": "ls \0"}, "NUL"),
        ({"subject": "x", "statement": "y", "quote": "release"}, "does not stand so"),
    ],
)
def test_what_cannot_be_a_note_is_refused_with_what_to_do(given: dict[str, str], words: str) -> None:
    refused = Noting("/")(**given)
    assert not refused.ok
    assert words in refused.payload
    assert refused.hint


def test_one_run_notes_a_thing_once_and_not_more_than_so_many(tmp_path: Path) -> None:
    note = Noting(tmp_path)
    assert note("port", "The port is 8080.").ok
    assert "already" in note("Port", "the port is  8080").payload
    for number in range(1, MOST_NOTES):
        assert note("port", f"the port of {number} is open").ok
    assert f"{MOST_NOTES} notes" in note("port", "one more").payload


def test_what_was_shown_is_named(tmp_path: Path) -> None:
    """By recall, by what was placed before the run, by a look into the mind's files; other files are the world."""
    note = Noting(tmp_path)
    note.notes.shown("## L-000001 port\nThe port is 8080.\n")
    for name, args in (
        ("recall", {"words": "db"}),
        ("bash", {"command": "cat /agent/memory/long_term.md"}),
        ("read_file", {"path": "../mind/reflection/open_questions.md"}),
    ):
        note.notes.seen(Acted(1, 1, ToolCall("1", name, args), ToolResult(f"the {name} base is small"), 0.1))
    note.notes.seen(Acted(1, 1, ToolCall("1", "bash", {"command": "cat README"}), ToolResult("builds take 9 s"), 0.1))
    assert found(note("port", "the port is 8080"))["recalled"] == "The port is 8080."
    assert found(note("base", "bash base is small"))["recalled"]
    assert found(note("base", "recall base is small"))["recalled"]
    assert found(note("base", "read_file base is small"))["recalled"]
    assert "recalled" not in found(note("builds", "builds take 9 s"))


def test_a_note_of_a_run_that_read_the_web_says_so(tmp_path: Path) -> None:
    result = Noting(tmp_path, origins=("a.example",))("x", "y is z", check="test -d .")
    assert result.payload.startswith("noted (page)")


@each_row(
    "rule, default, with_check, without",
    [
        (Rule("deny", tools=("bash",)), "allow", "denied", "ok"),
        (Rule("deny", commands=("ls*",)), "allow", "denied", "ok"),
        (Rule("deny", effects=("execute",)), "allow", "denied", "ok"),
        (Rule("deny", tools=("note",)), "allow", "denied", "denied"),
        (Rule("ask", tools=("bash",)), "allow", "denied", "ok"),
        (Rule("allow", tools=("note",)), "deny", "denied", "ok"),
    ],
)
def test_the_policy_sees_a_check_as_a_command_of_bash(rule: Rule, default: str, with_check: str, without: str) -> None:
    note = Noting("/", Policy(default, rules=(rule,)))
    assert note("x", "see http://127.0.0.1/ for y").status == without
    assert note("x", "y is z", check="ls /proc").status == with_check
