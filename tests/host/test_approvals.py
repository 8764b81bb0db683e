"""`minifram approve` and `minifram deny`, and what `status` says of calls that wait."""

from __future__ import annotations

import os
from typing import Any

import pytest

from infra.shared import approvals, comms, questions
from infra.shared.questions import Question
from tests.host.desk import Desk

ID, OTHER = "ab12cd340123ffff", "0123abcd0123abcd"
AT = "2026-01-31T10:42:12.345Z"


def recorded(desk: Desk, id: str, tool: str = "bash", **given: Any) -> Question:
    """The keep holds a question."""
    question = Question(
        id=id,
        call=approvals.call_hash(tool, given),
        tool=tool,
        input=given,
        why="rule 1",
        branch="main",
        commit="12" * 20,
        asked_at=AT,
        report="0" * 32,
    )
    directory = desk.home().places.questions
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/{questions.file_name(id)}", "wb") as file:
        file.write(questions.encode(question))
    return question


def shown_on_page(desk: Desk, id: str, text: str, branch: str = "main") -> None:
    title = approvals.title(branch, desk.main(), id, "bash")
    desk.write_page(comms.add_report(desk.page(), title, text, AT))


def test_an_answer_is_a_line_of_the_pms(desk: Desk) -> None:
    """One commit each; the words of a denial go with it, on one line."""
    recorded(desk, ID, command="touch a")
    recorded(desk, OTHER, command="touch b")

    assert f"approve {ID}" in desk.done("approve", ID.upper()).out
    told = desk.done("deny", OTHER, "use\nmktemp", "--json").json

    assert told["schema"] == "minifram.deny/1"
    assert (told["commit"], told["id"]) == (desk.main(), OTHER)
    assert told["directive_id"] in {each.id for each in comms.open_directives(desk.page())}
    assert told["call"]["call"] == '{"command": "touch b"}'
    answers = approvals.open_answers(desk.page())
    assert (answers[ID].approved, answers[OTHER].approved, answers[OTHER].why) == (True, False, "use mktemp")


def test_what_is_approved_is_shown_from_the_keeps_record(desk: Desk) -> None:
    """Whatever the page says of that id, with nothing hidden and no key."""
    key = "ghp_" + "aZ3kQ9xW1mB7vN5tR2pL8sD4fG6hJ0cY3uEq"
    recorded(desk, ID, command=f"rm -rf / \x1b[2J\u202e {key}")
    shown_on_page(desk, ID, "    ls")

    out = desk.done("approve").out
    assert desk.done("approve", ID).out.endswith(out)
    assert "rm -rf / \\u001b[2J\\u202e" in out
    assert "main@121212121212" in out
    assert key not in out
    assert f"what looks like a key is left out; the whole call is in {desk.home().places.questions}/{ID}.json" in out
    assert "ls" not in out.split()


def test_only_what_waits_is_answered(desk: Desk) -> None:
    """An id that is on no record is not found, though a report says so; one that was answered is a conflict."""
    recorded(desk, ID, command="x")
    shown_on_page(desk, OTHER, "May I?")
    before = desk.main()

    unknown = desk.run("approve", OTHER)
    assert unknown.code == 4
    assert f"{ID} (bash)" in unknown.err
    assert desk.run("approve", ID[:8]).code == 4
    assert desk.main() == before

    desk.done("deny", ID)
    again = desk.run("approve", ID)
    assert again.code == 6
    assert "denied already" in again.err


@pytest.mark.parametrize("content", ["{}", "x" * 2_000_000, None])
def test_a_record_that_is_none_answers_nothing(desk: Desk, content: str | None) -> None:
    """It is named, and the status shows the rest."""
    question = recorded(desk, ID, command="x")
    path = f"{desk.home().places.questions}/{ID}.json"
    if content is None:  # a call beside the hash of another one
        with open(path, "wb") as file:
            file.write(questions.encode(question).replace(b'"x"', b'"y"'))
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    ended = desk.run("approve", ID)
    assert ended.code == 6
    assert f"{ID}.json" in ended.err
    assert f"{ID}.json" in desk.run("status").out


def test_status_shows_what_waits(desk: Desk) -> None:
    """With the words to answer it; nothing when all is answered."""
    assert desk.done("approve").out == "nothing waits for your answer\n"
    recorded(desk, ID, command="x")

    assert f"minifram approve {ID}" in desk.run("status").out
    [asking] = desk.run("status", "--json").json["awaiting_approval"]
    assert (asking["id"], asking["tool"], asking["at"]) == (ID, "bash", AT)
    assert desk.done("approve", "--json").json["waiting"] == [asking]
    desk.done("approve", ID)
    assert desk.run("status", "--json").json["awaiting_approval"] == []


def test_config_shows_the_rules(desk: Desk) -> None:
    """As the file has them, with what they mean."""
    with open(desk.home().settings, "w", encoding="utf-8") as file:
        file.write("policy: {rules: [{do: deny, commands: ['rm *'], why: never}]}\n")

    shown = desk.done("config", "policy").out
    assert '[{"do": "deny", "commands": ["rm *"], "why": "never"}]' in shown
    assert "the first that matches counts" in shown
