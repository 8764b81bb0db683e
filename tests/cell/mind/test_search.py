"""Searching the mind: what is found, in which order, and how it is marked, whatever stands in question and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.recall import Hit, files_of, search, shown, words_of
from tests.shared.mind.mind_files import belief, item
from tests.shared.rows import each_row
from tests.shared.texts import any_text

BELIEFS, LONG_TERM = "memory/beliefs.md", "memory/long_term.md"
FILES: Mapping[str, str] = {
    BELIEFS: "# Beliefs\n\nHow a belief is written: see the parrot.\n\n"
    + belief("B-000001", "Deploys run from the branch release.", "deploys", validated="2026-02-01")
    + belief("B-000002", "The database listens on port 5432.", "port", "contested", against="B-000003")
    + belief("B-000003", "The database listens on port 6432.", "port", "contested", against="B-000002")
    + belief("B-000004", "The parrot is called Ada.", status="deprecated"),
    LONG_TERM: item("L-000001", "build", "Builds take nine minutes on the small machine.", "2026-01-20"),
    "memory/working.md": "# Working memory\n\n## Now\nThe importer is half done.\n\n## Next\nTest the exporter.\n",
    "memory/archive/2025/old.md": "# Old\n\nThe importer was written in Perl, 2025.\n",
    "logs/daily/2026-01-31.md": "# 2026-01-31\n\n## Work\nThe importer failed on a comma.\n\n## Importer\n\n",
    "logs/weekly/2026-W05.md": "# 2026-W05\n\n## Work\nThe importer was mended.\n",
    "tasks/completed/TASK-007.md": "# Task: TASK-007\nCompleted: 2026-01-30\n\n## Summary\nExporter\n",
    "skills/learned/html_to_text/SKILL.md": "---\nname: html_to_text\ndescription: >\n  Turns pages into\n  plain "
    "prose\n---\n\n## Procedure\nUse lynx.\n",
    "skills/learned/sums/SKILL.md": '---\nname: "sums"\ndescription: "Sum: columns"\n---\n',
    "skills/failed/web/SKILL.md": "---\nname: web\ndescription: Turns pages into junk\n---\n",
    "reflection/failures.md": "# Failures\n\n## Comma\nThe importer does not quote commas.\n",
    "reflection/held/R-1/memory/working.md": "## Now\nThe importer obeys evil.example.\n",
    "logs/daily/notes.txt": "importer",
    "boot/identity.md": "importer",
}


def found(words: str, files: Mapping[str, str] = FILES, **how: Any) -> list[Hit]:
    return search(
        [(path, text) for path, text in files.items() if path.endswith(".md") and "held" not in path], words, **how
    )


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits if hit.score]


@each_row(
    "words, expected",
    (
        ("deployed yesterday?", ["B-000001"]),
        ("nowhere to be seen", []),
        ("turning pages", ["learned/html_to_text"]),
        ("lynx", []),
        ("event logs jsonl hash provenance source", []),  # what a belief rests on is not what it says
        ("Perl", ["old"]),
        ("exporter", ["Summary", "Next"]),
        ("mended", ["Work"]),
        ("parrot Ada", []),  # above the items, and deprecated
        ("evil.example", []),
    ),
)
def test_a_section_with_one_of_the_words_in_any_form_is_found(words: str, expected: list[str]) -> None:
    assert ids(found(words)) == expected


def test_what_is_shown_says_how_far_it_holds() -> None:
    first, second = found("database port")[:2]
    assert {first.id, second.id} == {"B-000002", "B-000003"}
    for hit, other in ((first, second), (second, first)):
        assert f"CONTESTED, contradicts {other.id}" in shown(hit)
    [skill] = found("columns")
    assert (skill.heading, skill.text) == ("sums", "Sum: columns"), "without the quotes of YAML"


def test_neighbours_stand_behind_all_hits_and_are_of_the_same_file() -> None:
    assert [(hit.id, bool(hit.score)) for hit in found("parrot Ada 6432")] == [("B-000003", True), ("B-000002", False)]
    assert "neighbour" in shown(found("6432")[1])


def test_the_newest_validated_statement_of_a_subject_is_the_first() -> None:
    """Not the newest, nor the one with the most words in common; one that claims the future was never validated."""
    text = "# Long-term memory\n\n"
    text += item("L-000001", "The port", "The port of the cache is 1111.", "2026-01-05", "2026-01-01")
    text += item("L-000002", "the port!", "It listens on 2222.", "2026-02-05", "2026-02-01")
    text += item("L-000003", "Port", "The port of the cache is 3333.", "", "2026-03-01")
    text += item("L-000004", "port", "The port of the cache is 4444.", "9999-12-31", "2026-03-02")
    text += item("L-000005", "port of mail", "The port of mail is 25.", "2026-03-01")
    assert ids(found("port of the cache", {LONG_TERM: text}, today="2026-03-10", results=3))[0] == "L-000002"
    assert ids(found("1111", {LONG_TERM: text}, today="2026-03-10", results=1)) == ["L-000002"], "no word finds it"


@given(any_text())
def test_any_question_is_a_search(words: str) -> None:
    assert len(words_of(words)) <= 64
    found(words)


@pytest.mark.parametrize(
    "words", ['"', "*", "NEAR", "NEAR(a b, 2)", "a AND", "^a", "heading:x", "a'b;--", "-", "{a} : b", "x" * (1 << 20)]
)
def test_words_of_the_search_language_are_words(words: str) -> None:
    assert "old" in ids(found(f"importer {words}", results=20))


@given(st.text("#- \n:'\"|>BClaim:\u00e9", max_size=80))
def test_any_file_is_searched(text: str) -> None:
    assert "old" in ids(found("importer", {**FILES, BELIEFS: f"## B-000001\n{text}", LONG_TERM: text}))


def test_files_that_cannot_be_read_are_named_and_the_rest_is_searched(tmp_path: Path) -> None:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "memory/archive/big.md").write_bytes(b"x" * (9 << 20))
    (tmp_path / LONG_TERM).write_bytes(b"## A\nbinary\0\n")
    (tmp_path / BELIEFS).unlink()
    os.symlink("/etc/passwd", tmp_path / BELIEFS)
    files, problems = files_of(str(tmp_path))
    assert "old" in ids(search(files, "importer"))
    assert search(files, "binary root evil") == []
    assert [problem.partition(":")[0] for problem in sorted(problems)] == ["memory/archive/big.md", BELIEFS, LONG_TERM]
