"""Beliefs and long-term memory: what parses comes back the same, what does not stays byte for byte, and an edit
changes its section alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind import beliefs, long_term
from infra.cell.mind.claims import Belief, BeliefStatus, BeliefType, Evidence, MemoryItem, Origin, Source
from infra.cell.mind.items import ItemFile, T
from infra.cell.mind.problems import MOST_NAMED
from infra.shared.mind.sections import document_of
from tests.shared.rows import each_row
from tests.shared.texts import any_text

NOW = 1_770_000_000.0  # February 2026
THEIRS = """# Beliefs

What the PM wrote above.

Next: B-000130

## B-000123
Claim: The agent must log every shell command.
Confidence: 0.98
Status: active
Type: invariant-derived
Mood: calm
Provenance:
  - Source: /boot/invariants.md
    Evidence: run R-1 step 1.1
Last_validated: 2026-01-31
Contradictions:
  - None
Notes: first
    second

## B-000124
Claim: It is contested.
Confidence: 0.5
Status: contested
Type: observed
Contradictions:
  - B-000123
"""
FIRST = Belief(
    id="B-000123",
    claim="The agent must log every shell command.",
    confidence=0.98,
    status=BeliefStatus.ACTIVE,
    type=BeliefType.INVARIANT_DERIVED,
    provenance=(Source("/boot/invariants.md", "run R-1 step 1.1"),),
    last_validated="2026-01-31",
    notes="first\nsecond",
)


def test_the_customers_example_is_read() -> None:
    read = beliefs.parse(THEIRS, NOW)
    assert read.problems == ()
    assert read.find("B-000123") == FIRST
    assert [(each.id, each.contradictions) for each in read.found] == [("B-000123", ()), ("B-000124", ("B-000123",))]


def test_an_edit_writes_the_changed_fields_and_no_other_byte() -> None:
    changed = beliefs.edit(THEIRS, FIRST._replace(status=BeliefStatus.CONTESTED, contradictions=("B-000124",)))
    expected = THEIRS.replace("Status: active", "Status: contested").replace("  - None", "  - B-000124")
    assert changed == expected
    with_subject = beliefs.edit(THEIRS, FIRST._replace(subject="logging"))
    assert with_subject == THEIRS.replace("command.\n", "command.\nSubject: logging\n", 1)


_words = st.one_of(any_text(12), st.sampled_from(["", "None", "B-000001", "Claim: x", "```", "## B-000002", "- a: b"]))
_some = _words.map(lambda words: f"x{words}")
_beliefs = st.builds(
    Belief,
    id=st.just(""),
    claim=_some,
    confidence=st.floats(0, 1),
    status=st.sampled_from(BeliefStatus),
    type=st.sampled_from(BeliefType),
    provenance=st.lists(st.builds(Source, _some, _words), max_size=2).map(tuple),
    last_validated=st.sampled_from(["", "2026-01-31", "2026-01-31T10:42:12Z"]),
    contradictions=st.lists(st.sampled_from(["B-000777", "B-000778"]), max_size=2, unique=True).map(tuple),
    notes=st.lists(_words, max_size=3).map("\n".join),
    subject=_words,
)
_items = st.builds(
    MemoryItem,
    id=st.just(""),
    subject=_words,
    statement=_some,
    evidence=st.lists(st.builds(Evidence, _words, _words, _some, st.sampled_from(Origin)), max_size=2).map(tuple),
    added=st.sampled_from(["2026-01-31", ""]),
    last_validated=st.sampled_from(["", "2026-01-31"]),
)
_lines = st.lists(
    st.one_of(
        any_text(8),
        st.sampled_from(
            [*THEIRS.split("\n"), "## L-000001 a", "Statement: s", "## B-000123", "```", "<<<<<<< a", "\r"]
        ),
    ),
    max_size=25,
).map("\n".join)


@given(_lines, _beliefs, _items)
def test_anything_is_kept_byte_for_byte_and_what_parses_comes_back_the_same(
    text: str, belief: Belief, item: MemoryItem
) -> None:
    _keeps_and_adds(beliefs.BELIEFS_FILE, text, belief)
    _keeps_and_adds(long_term.LONG_TERM_FILE, text, item)


def _keeps_and_adds(file: ItemFile[T], text: str, new: T) -> None:
    read = file.parse(text, NOW)
    assert read.document.whole() == text
    for each in read.found:
        assert file.parse(file.write(each), NOW).found == (each,)
    try:
        whole, added = file.add(text, new)
    except ValueError:
        return
    assert document_of(text).find(added.id) is None
    before, after = document_of(text), document_of(whole)
    assert [each.id for each in after.sections] == [*(each.id for each in before.sections), added.id]
    for old, kept in zip(before.sections, after.sections, strict=False):
        assert kept.text.rstrip("\n") == old.text.rstrip("\n")
    found = file.parse(after.sections[-1].text, NOW).found[0]
    assert file.write(found) == file.write(added)


@given(_lines, _beliefs)
def test_an_edit_changes_its_section_alone(text: str, belief: Belief) -> None:
    for old in beliefs.parse(text, NOW).found:
        try:
            edited = beliefs.edit(text, belief._replace(id=old.id, contradictions=()))
        except ValueError:
            continue
        before, after = document_of(text), document_of(edited)
        assert after.head == before.head
        assert len(after.sections) == len(before.sections)
        at = [each.id for each in before.sections].index(old.id)
        assert [*after.sections[:at], *after.sections[at + 1 :]] == [*before.sections[:at], *before.sections[at + 1 :]]
        unknown = [line for line in before.sections[at].text.split("\n") if line.startswith("Mood:")]
        assert [line for line in after.sections[at].text.split("\n") if line.startswith("Mood:")] == unknown


def test_no_id_is_given_twice_also_after_a_deletion() -> None:
    text, given_ids = "", list[str]()
    for _ in range(3):
        text, added = beliefs.add(text, FIRST)
        given_ids.append(added.id)
        text = beliefs.remove(text, added.id)
    assert given_ids == ["B-000001", "B-000002", "B-000003"]
    assert document_of(text).sections == ()
    _, added = beliefs.add(THEIRS, FIRST)  # the mark of the head
    assert added.id == "B-000130"
    _, added = beliefs.add(THEIRS.replace("B-000130", "B-000002"), FIRST)  # the PM lowered it
    assert added.id == "B-000125"


def _with(**changed: str) -> str:
    text = beliefs.write(FIRST)
    for name, value in changed.items():
        text = "\n".join(f"{name}: {value}" if line.startswith(f"{name}:") else line for line in text.split("\n"))
    return text


@each_row(
    "text, counted, line, words",
    [
        ("", 0, 0, ""),
        (THEIRS.partition("Status")[0], 0, 7, "Status is missing"),
        (THEIRS + beliefs.write(FIRST), 2, 29, "second section of this id"),
        ("## B-000001\n\0", 0, 0, "NUL bytes"),
        (f"## B-000001\n<<<<<<< HEAD\n=======\n>>>>>>> b\n{beliefs.write(FIRST)}", 1, 1, "while a conflict marker"),
        (beliefs.write(FIRST).replace("/boot/invariants.md", "B-000123"), 0, 6, "names itself as its evidence"),
        (_with(Last_validated="9999-12-31"), 1, 9, "lies in the future"),
        (_with(Last_validated="the 4th"), 0, 9, "no date; expected one such as 2026-01-31"),
        (_with(Confidence="1.2"), 0, 3, "expected a number from 0 to 1"),
        (_with(Confidence="nan"), 0, 3, "expected a number from 0 to 1"),
        (_with(Status="sure"), 0, 4, "expected active, contested, deprecated"),
        ("## Thoughts\nsome\n" + beliefs.write(FIRST), 1, 1, "expected a heading such as `## B-000001`"),
        (beliefs.write(FIRST) + "Claim: again\n", 0, 14, "Claim stands here twice"),
        (beliefs.write(FIRST).replace("Claim:", "stray\nClaim:"), 1, 2, "above the first field"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_the_rest_counts(
    text: str, counted: int, line: int, words: str
) -> None:
    read = beliefs.parse(text, NOW)
    assert len(read.found) == counted
    assert read.document.whole() == text
    assert (words in str(read.problems[0]) and read.problems[0].line == line) if words else not read.problems


def test_of_many_problems_a_few_are_named() -> None:
    read = long_term.parse("## x\n" * 1000, NOW)
    assert len(read.problems) == MOST_NAMED + 1
    assert f"{1000 - MOST_NAMED} more" in read.problems[-1].what


def test_nothing_is_added_below_a_block_that_does_not_end() -> None:
    with pytest.raises(ValueError, match="fenced block"):
        beliefs.add("## B-000001\n```\n", FIRST)
    with pytest.raises(KeyError):
        beliefs.edit("## B-000123\nClaim: half\n", FIRST)
