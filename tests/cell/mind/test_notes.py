"""The tool `note`: what it refuses, what it finds out, which checks bear out a statement, and when two are the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given

from infra.cell.actions import NOTE, ToolCall, ToolResult
from infra.cell.interruption import Interruption
from infra.cell.mind.history import converted
from infra.cell.mind.notes import NoteDetails, names, note_tool, pm_words, said_in
from infra.cell.mind.statements import key_of, normalised, problem_with_check
from infra.cell.policy.gate import gate_of
from infra.cell.tools.tool import Toolbox, Verdict
from infra.shared import comms
from infra.shared.people import Person
from infra.shared.policy import Do, Policy, Rule
from infra.shared.repository.git import Git
from infra.shared.text import one_line
from tests.cell.loop.waiting import gone, wait_for
from tests.shared.rows import any_text, each_row


def _said_by(quote: str) -> str:
    return said_in(quote, (("D-1", "Deploys run from the branch release only."),))


class Noting:
    """A run that notes in a checkout of its own."""

    def __init__(self, checkout: Path | str, policy: Policy | None = None) -> None:
        tool = note_tool(str(checkout), Interruption(), _said_by, seconds=5.0)
        gate = gate_of(policy, str(checkout), lambda *_: Verdict(False, "asked")) if policy else None
        self._toolbox = Toolbox([tool], gate)

    def __call__(self, subject: str, statement: str, **more: str) -> ToolResult:
        return self._toolbox.call(ToolCall("1", NOTE, {"subject": subject, "statement": statement, **more}))


def found(result: ToolResult) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = result.facts[NOTE]
    assert converted(facts, NoteDetails) is not None
    return facts


def test_a_quote_is_looked_up_and_a_check_is_run(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("port=8080\n")
    note = Noting(tmp_path)
    assert (
        note("deploys", "they run from release", quote="from the branch\n release only").payload
        == "noted: the PM's word"
    )
    good = note("port", "the port is 8080", check="grep -q 8080 config")
    assert good.ok
    assert good.payload == "noted: borne out by its check"
    assert "by your word alone" in note("port", "the port is 8080", check="test -d /").payload
    assert found(good)["exit_status"] == 0
    bad = note("port", "the port is 9090", check="echo looked; grep -q 9090 config")
    assert bad.ok
    assert "looked" in bad.payload
    assert "counts for nothing" in bad.payload
    assert found(bad)["exit_status"] == 1 == bad.facts["exit"]


def test_a_check_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    tool = note_tool(str(tmp_path), Interruption(), str, seconds=0.2)
    call = ToolCall("1", NOTE, {"subject": "a", "statement": "b", "check": "sh -c 'echo $$ > pid; sleep 60' & wait"})
    result = Toolbox([tool]).call(call)
    assert "exit_status" not in found(result)
    assert "counts for nothing" in result.payload
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: gone(pid), "the end of what the check started")


@each_row(
    "given, words",
    [
        ({"subject": " ", "statement": "x"}, r"subject: expected `str` matching regex '\\w'"),
        ({"subject": "x", "statement": "..."}, "statement: expected"),
        ({"subject": "x" * 81, "statement": "x"}, "subject: expected `str` of length <= 80"),
        ({"subject": "x", "statement": "x" * 401}, "length <= 400"),
        ({"subject": "x", "statement": "y", "check": "a" * 1001}, "length <= 1000"),
        ({"subject": "x", "statement": "y", "check": "true"}, "shows nothing"),
        ({"subject": "x", "statement": "y", "check": "grep y /agent/memory/beliefs.md"}, "no evidence of itself"),
        ({"subject": "x", "statement": "y", "check": "ls \0"}, "check: expected"),
        ({"subject": "x", "statement": "y", "quote": "release"}, "stands in no directive"),
        ({"subject": "deploys", "statement": "they run by night", "quote": "deploys run by night"}, "in no directive"),
    ],
)
def test_what_cannot_be_a_note_is_refused_with_what_to_do(given: dict[str, str], words: str) -> None:
    refused = Noting("/")(**given)
    assert not refused.ok
    assert words in refused.payload
    assert refused.hint


@each_row(
    "subject, statement, check, is_enough",
    [
        ("port", "The port is 8080.", "grep -q 8080 config", True),
        ("API key", "the API key is read from the variable FOO_KEY", "grep -rq FOO_KEY src", True),
        ("tests", "make test runs pytest", "grep -q pytest Makefile", True),
        ("documentation", "the documentation is built with sphinx", "make -n docs | grep sphinx-build", True),
        ("web handler", "the web handler is src/handlers/web.py", "ls src/handlers/web.py", True),
        ("linting", "the project uses ruff, set up in pyproject.toml", "grep -q tool.ruff pyproject.toml", True),
        ("bash", "bash is installed", "command -v bash", True),
        ("log level", "it logs with log_level=debug", "grep -q log_level=debug config", True),
        ("deploys", "deploys run at night", "grep -q . README.md", False),
        ("deploys", "README.md says that deploys run at night", "test -e README.md", False),
        ("src", "src holds the billing code", "test -d src", False),
        ("src", "src holds 12 handlers", "ls src/handlers", False),
        ("ports", "they are 8080 and 9090", "grep -q 8080 config", False),
        ("port", "The port is 8080.", "! nc -z host 18080", False),
    ],
)
def test_a_check_names_what_the_statement_says(subject: str, statement: str, check: str, is_enough: bool) -> None:
    assert names(subject, statement, check) is is_enough


def test_a_quote_is_looked_up_in_the_page_and_in_all_that_ever_stood_in_the_inbox(tmp_path: Path) -> None:
    git = Git(str(tmp_path), Person("PM", "pm@example.invalid"))
    git("init", "--quiet", "--template=", "--initial-branch=mind")
    (tmp_path / "tasks").mkdir()
    for text in ("---\ntask_id: TASK-1\npriority: low\n---\nPort\n 8080 it is.\n", "", "task_id: TASK-2\nAlso so.\n"):
        (tmp_path / "tasks/inbox.md").write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--message", "x")
    page = comms.add_directive(comms.with_sections(""), "Deploy it\nby night.")
    words = pm_words(page, git, "mind")
    assert said_in("it by night", words) == comms.directives(page)[0].id
    assert [said_in(quote, words) for quote in ("Port 8080 it", "Also so", "so", "by day")] == [
        "TASK-1",
        "TASK-2",
        "",
        "",
    ]
    assert said_in("Port 8080", pm_words(page, git, "nothing")) == ""


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
def test_the_policy_sees_a_check_as_a_command_of_bash(rule: Rule, default: Do, with_check: str, without: str) -> None:
    note = Noting("/", Policy(default, rules=(rule,)))
    assert note("x", "see http://127.0.0.1/ for y").status == without
    assert note("x", "y is z", check="ls /proc").status == with_check


@each_row(
    "one, other, same",
    [
        ("The port is 8080.", "the  port is `8080`", True),
        ("Builds use two cores", "build uses two core", True),
        ("ﬁles live in /Srv", "files live in /srv", True),
        ("the version is 3.1", "the version is 31", False),
        ("the limit is -1", "the limit is 1", False),
        ("it is allowed", "it is not allowed", False),
        ("a < b", "a > b", False),
        ("C++", "C", False),
        ("b before a", "a before b", False),
    ],
)
def test_the_same_in_other_words(one: str, other: str, same: bool) -> None:
    assert (normalised(one) == normalised(other)) is same
    assert (key_of("It", one) == key_of("it", other)) is same


@given(any_text(), any_text())
def test_any_text_has_one_form_and_one_key(subject: str, statement: str) -> None:
    """Blanks around make no difference, nor do they for a line."""
    assert key_of(f" {subject}\n", f"\t{statement} ") == key_of(subject, statement)
    assert len(one_line(statement).splitlines()) <= 1
    assert one_line(one_line(statement)) == one_line(statement)


@each_row(
    "command, shows",
    [
        ("grep -q 8080 config.yaml", True),
        ("test -f a && grep -q b a", True),
        ("true", False),
        (" : ", False),
        ("echo yes", False),
        ("cd src; exit 0", False),
        ("grep x y || true", False),
        ("grep x y; echo done", False),
        ("grep -q 8080 /agent/memory/beliefs.md", False),
        ("cat ../memory/long_term.md | grep port", False),
        ("grep x /home/memory.txt", True),
    ],
)
def test_a_check_that_cannot_fail_or_reads_the_mind_shows_nothing(command: str, shows: bool) -> None:
    assert (problem_with_check(command) == "") is shows
