"""`minifram approve` and `minifram deny`, and what `status` says of calls that wait."""

from __future__ import annotations

from infra.contract import approvals, comms
from tests.host.desk import Desk

ID, OTHER = "ab12cd34", "0123abcd"


def asking(desk: Desk, *ids: str) -> None:
    page = comms.add_directive(desk.page(), "make it")
    for id in ids:
        page = comms.add_report(
            page, approvals.title("main", desk.main(), id, "bash"), "May I?", "2026-01-31T10:42:12.345Z"
        )
    desk.write_page(page)


def test_an_answer_is_a_line_of_the_pms(desk: Desk) -> None:
    """One commit each; the words of a denial go with it, on one line."""
    asking(desk, ID, OTHER)

    assert f"approve {ID}" in desk.done("approve", ID.upper()).out
    told = desk.done("deny", OTHER, "use\nmktemp", "--json").json

    assert told["schema"] == "minifram.deny/1"
    assert told["commit"] == desk.main()
    answers = approvals.open_answers(desk.page())
    assert (answers[ID].approved, answers[OTHER].approved, answers[OTHER].why) == (True, False, "use mktemp")


def test_only_what_waits_is_answered(desk: Desk) -> None:
    """An id that nobody asked with is not found, one that was answered is a conflict."""
    asking(desk, ID)
    before = desk.main()

    unknown = desk.run("approve", OTHER)
    assert unknown.code == 4
    assert f"{ID} (bash)" in unknown.err
    assert desk.main() == before

    desk.done("deny", ID)
    again = desk.run("approve", ID)
    assert again.code == 6
    assert "denied already" in again.err


def test_status_shows_what_waits(desk: Desk) -> None:
    """With the words to answer it; nothing when all is answered."""
    asking(desk, ID)

    assert f"minifram approve {ID}" in desk.run("status").out
    assert desk.run("status", "--json").json["awaiting_approval"] == [
        {"id": ID, "tool": "bash", "at": "2026-01-31T10:42:12.345Z"}
    ]
    desk.done("approve", ID)
    assert desk.run("status", "--json").json["awaiting_approval"] == []


def test_config_shows_the_rules(desk: Desk) -> None:
    """As the file has them, with what they mean."""
    with open(desk.home().settings, "w", encoding="utf-8") as file:
        file.write("policy: {rules: [{do: deny, commands: ['rm *'], why: never}]}\n")

    shown = desk.done("config", "policy").out
    assert '[{"do": "deny", "commands": ["rm *"], "why": "never"}]' in shown
    assert "the first that matches counts" in shown
