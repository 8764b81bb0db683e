"""Facts as sections of files: what parses comes back the same, what does not stays byte for byte, and an edit changes
its section alone."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.memory import Fact, Source, memory_of
from infra.shared.mind.layout import BELIEFS
from infra.shared.mind.sections import as_fields, sections, with_entry
from tests.shared.rows import any_text, each_row

THEIRS = """# Beliefs

What the PM wrote above.

## B-000123
Claim: The agent must log: every shell command. # always
Confidence: 0.98
Status: active
Type: invariant-derived
Provenance:
  - Source: /boot/invariants.md
    Evidence: run R-1 step: 1.1
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
FIRST = Fact(
    id="B-000123",
    claim="The agent must log: every shell command. # always",
    confidence=0.98,
    type="invariant-derived",
    provenance=(Source("/boot/invariants.md", "run R-1 step: 1.1"),),
    last_validated="2026-01-31",
    notes="first second",
)
PLAIN = f"## B-000123\n{as_fields(FIRST)}"
replace = msgspec.structs.replace


def test_the_customers_example_is_read_and_an_edit_changes_its_section_alone() -> None:
    memory = memory_of({BELIEFS: THEIRS})
    assert memory.problems == ()
    assert memory.every[0] == FIRST
    assert [(each.id, each.contradictions) for each in memory.every] == [("B-000123", ()), ("B-000124", ("B-000123",))]
    changed = memory.with_fact(replace(FIRST, status="contested", notes="a: 1\n\n  - b")).texts[BELIEFS]
    assert changed.startswith(THEIRS.partition("Claim")[0])
    assert changed.endswith(f"\n\n{THEIRS[THEIRS.index('## B-000124') :]}")
    assert memory_of({BELIEFS: changed}).every[0].notes == "a: 1\n\n  - b"


_words = st.one_of(any_text(12), st.sampled_from(["", "None", "B-000001", "Claim: x", "```", "## B-000002", "- a: b"]))
_facts = st.builds(
    Fact,
    id=st.sampled_from(["B-000001", "B-000123", "B-000777"]),
    claim=_words.map(lambda words: f"x{words}"),
    subject=_words,
    confidence=st.floats(0, 1),
    provenance=st.lists(st.builds(Source, _words.map(lambda words: f"x{words}"), _words), max_size=2).map(tuple),
    last_validated=st.sampled_from(["", "2026-01-31", "2026-01-31T10:42:12Z"]),
    contradictions=st.lists(st.sampled_from(["B-000778", "L-000779"]), max_size=2, unique=True).map(tuple),
    notes=st.lists(_words, max_size=3).map("\n".join),
)
_lines = st.lists(
    st.one_of(
        any_text(8), st.sampled_from([*THEIRS.split("\n"), "## B-000001", "```", "<<<<<<< a", "\r", "a: |", "&a"])
    ),
    max_size=25,
).map("\n".join)


@given(_lines, _facts)
@pytest.mark.heavy
def test_nothing_crashes_and_all_other_sections_stay_byte_for_byte(text: str, fact: Fact) -> None:
    memory = memory_of({BELIEFS: text})
    before = sections(text)
    assert "".join(each.text for each in before) == text
    for each in memory.every:
        assert memory_of({BELIEFS: f"## {each.id}\n{as_fields(each)}"}).every == (each,)
    try:
        whole = with_entry(text, fact)
    except ValueError:
        return
    after = sections(whole)
    at = next((n for n, each in enumerate(before) if each.id == fact.id), len(before))
    assert [each.text for each in after[:at]] == [each.text for each in before[:at]] or at == len(before)
    assert [each.text for each in after[at + 1 :]] == [each.text for each in before[at + 1 :]]
    assert memory_of({BELIEFS: after[at].text}).every[0] == fact


@each_row(
    "text, counted, line, words",
    [
        ("", 0, 0, ""),
        (PLAIN, 1, 0, ""),
        (PLAIN.replace("\n", "\r\n"), 1, 0, ""),
        (f"```\nforgotten\n{PLAIN}", 1, 0, ""),
        (THEIRS.partition("Claim")[0], 0, 5, "expected fields"),
        ("## B-000001\nClaim:\nStatus: active\n", 0, 1, "missing required field `Claim`"),
        (THEIRS + PLAIN, 2, 26, "second section of this id"),
        ("## B-000001\n\0", 0, 1, "control characters are not allowed"),
        (f"## B-000001\n<<<<<<< HEAD\n=======\n>>>>>>> b\n{PLAIN}", 1, 1, "expected fields"),
        (PLAIN.replace("2026-01-31", "the 4th"), 0, 1, "Last_validated is 'the 4th'"),
        (PLAIN.replace("0.98", "1.2"), 0, 1, "Confidence is '1.2'"),
        (PLAIN.replace("0.98", "nan"), 0, 1, "Confidence is 'nan'"),
        (PLAIN.replace("active", "sure"), 0, 1, "Status is 'sure': expected active, contested, deprecated"),
        (f"{PLAIN}Mood: calm\n", 0, 1, "unknown field `Mood`"),
        (f"## Thoughts\nsome: x\n{PLAIN}", 1, 1, "Thoughts"),
        (f"{PLAIN}Claim: again\n", 0, 1, "the key Claim is given twice"),
        (PLAIN.replace("Claim:", "stray\nClaim:"), 0, 1, "B-000123"),
        ("## B-000001\nClaim: [&a x, *a]\n", 0, 1, "anchors"),
        (f"## B-000001\nClaim: {'[' * 100_000}\n", 0, 1, "nested more than"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_the_rest_counts(
    text: str, counted: int, line: int, words: str
) -> None:
    read = memory_of({BELIEFS: text})
    assert len(read.every) == counted
    assert (words in str(read.problems[0]) and read.problems[0].line == line) if words else not read.problems


def test_no_id_is_given_twice() -> None:
    """Not that of a section that cannot be read, nor one that stood there once."""
    memory = memory_of({BELIEFS: f"{THEIRS}\n## B-000200\nhalf\n"})
    assert (memory.next_id("L"), memory.next_id("B")) == ("L-000001", "B-000201")
    assert memory.next_id("B", ("B-000300", "L-000999", "B-x")) == "B-000301"
