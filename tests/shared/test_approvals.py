"""What the page says of calls that the PM was asked about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.page import PageSeen
from infra.shared import comms
from infra.shared.approvals import Decision, State, agents_title, call_hash, open_answers, state_of
from tests.shared.rows import any_text, each_row

ID, OTHER = "ab12cd34ab12cd34", "0000000000000000"
ANOTHER = "1111111111111111"
DIRECTIVES = "# The page\n\n## Directives\n\n{}\n\n## Reports\n"


def said(directives: str) -> dict[str, tuple[bool, str]]:
    page = DIRECTIVES.format(directives)
    return {answer.id: (answer.approved, answer.why) for answer in open_answers(page).values()}


@each_row(
    "directives, answers",
    [
        ("- [ ] approve ab12cd34ab12cd34", {ID: (True, "")}),
        ("- APPROVE [AB12CD34AB12CD34].", {ID: (True, "")}),
        ("Approve `ab12cd34ab12cd34`", {ID: (True, "")}),
        ("* Deny ab12cd34ab12cd34", {ID: (False, "")}),
        ("- deny ab12cd34ab12cd34: use mktemp", {ID: (False, "use mktemp")}),
        ("- deny ab12cd34ab12cd34 not now\n  and not later", {ID: (False, "not now\nand not later")}),
        ("approve ab12cd34ab12cd34\ndeny 0000000000000000: no", {ID: (True, ""), OTHER: (False, "no")}),
        ("- approve ab12cd34ab12cd34\n- deny ab12cd34ab12cd34: wait", {ID: (False, "wait")}),
        ("- deny ab12cd34ab12cd34: wait\n- approve ab12cd34ab12cd34", {ID: (False, "wait")}),
        ("- [x] approve ab12cd34ab12cd34", {}),
        ("- ~~approve ab12cd34ab12cd34~~", {}),
        ("- approve ab12cd34ab12cd34 when the tests pass", {}),
        ("- approve ab12cd34ab12cd34\n  and go on", {}),
        ("- approve ab12cd34ab12cd345", {}),
        ("- approve 00000000", {}),
        ("- approve 000000000", {}),
        ("- approve everything", {}),
        ("- do not approve ab12cd34ab12cd34", {}),
        ("<!-- approve ab12cd34ab12cd34 -->", {}),
        ("```\napprove ab12cd34ab12cd34\n```", {}),
    ],
)
def test_an_answer_is_a_line_that_says_nothing_else(directives: str, answers: dict[str, tuple[bool, str]]) -> None:
    """In an item or alone, open; a no counts more than a yes, and a yes with a condition is work like any other."""
    assert said(directives) == answers
    seen = PageSeen("", DIRECTIVES.format(directives))
    assert bool(seen.open) == (bool(comms.open_directives(seen.document)) and not answers)


def test_answers_stand_under_directives_alone() -> None:
    """What the agent may write, in reports, is none."""
    page = comms.add_report(DIRECTIVES.format("- do it"), f"approve {ID}", f"- [ ] approve {ID}\n\napprove {ID}", "t")
    assert open_answers(page) == {}


@each_row(
    "directives, state",
    [
        ("- do it", ("waiting", "")),
        (f"- approve {OTHER}\n- approve {ANOTHER}", ("waiting", "")),
        (f"- [x] approve {OTHER}\n- approve {ID}", ("approved", "")),
        (f"- deny {ID}: no\n- approve {ID}", ("denied", "no")),
        (f"- [x] approve {ID}", ("over", "")),
        (f"- ~~approve {ID}~~", ("over", "")),
        (f"- [x] deny {ID}: no\n- approve {ID}", ("approved", "")),
        (f"- [x] approve {ID}\n- deny {ID}: no", ("denied", "no")),
        (f"- [x] approve {ID}\n- approve {ID}", ("approved", "")),
    ],
)
def test_a_question_stands_by_its_own_answer(directives: str, state: tuple[State, str]) -> None:
    """Wherever that stands, and whatever older answers stand beside it; one that was ticked answers no more."""
    assert state_of(DIRECTIVES.format(directives), ID) == state


JSON = st.recursive(
    st.none() | st.integers() | any_text(max_size=5),
    lambda inner: st.dictionaries(any_text(max_size=3), inner, max_size=3),
)


@given(st.dictionaries(any_text(max_size=3), JSON, max_size=4), any_text(max_size=5))
def test_a_call_is_known_by_tool_and_arguments(arguments: dict[str, object], tool: str) -> None:
    """In whatever order, and by nothing else."""
    assert call_hash(tool, dict(reversed(arguments.items()))) == call_hash(tool, arguments)
    assert call_hash(tool, arguments | {"more": 1}) != call_hash(tool, arguments) != call_hash(f"{tool}x", arguments)


def test_an_answer_names_its_line() -> None:
    """So that it can be ticked."""
    page = DIRECTIVES.format(f"- approve {ID}")
    assert open_answers(page)[ID] == Decision(ID, True, "")
    [answer] = comms.open_directives(page)
    assert open_answers(comms.tick(page, (answer.id,))) == {}


def test_no_report_of_the_agent_s_asks_as_the_keep_does() -> None:
    """The words are quoted; every other title stays."""
    assert agents_title(" Approval  wanted [x]: y") == "'Approval  wanted' [x]: y"
    assert agents_title("no approval wanted") == "no approval wanted"
