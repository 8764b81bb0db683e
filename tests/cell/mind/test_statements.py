"""When two statements are the same, and which checks show nothing."""

from __future__ import annotations

from hypothesis import given

from infra.cell.mind.statements import key_of, normalised, problem_with_check
from infra.shared.text import one_line
from tests.shared.rows import each_row
from tests.shared.texts import any_text


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
