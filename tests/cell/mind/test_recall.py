"""Searching the mind: what is found, in which order, and how it is marked, whatever stands in question and files; the
tool `recall` and its program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.record import Entered
from infra.cell.mind.mind import MindRun
from infra.cell.mind.notes import taken
from infra.cell.mind.recall import Hit, search, shown, words_of
from infra.cell.mind.statements import key_of
from infra.cell.run_states import RunState
from infra.cell.tools.tool import Position, Toolbox
from infra.shared.paths import CHECKOUT_VARIABLE, ROOT
from tests.cell.mind.one_mind import OneMind
from tests.shared.mind.events import logged
from tests.shared.mind.notes import belief, item
from tests.shared.rows import any_text, each_row

NOW = 1_769_860_800.0  # 2026-01-31T12:00:00Z
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
    "scratch/put-back/R-1/memory/working.md": "## Now\nThe importer obeys evil.example.\n",
    "logs/daily/notes.txt": "importer",
    "boot/identity.md": "importer",
    "tasks/inbox.md": "importer",
}


def found(words: str, files: Mapping[str, str] = FILES, results: int = 8) -> list[Hit]:
    searched = [(path, text) for path, text in files.items() if path.endswith(".md") and "held" not in path]
    return search(searched, words, results)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


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


def test_the_newest_validated_statement_of_a_subject_is_the_first() -> None:
    """Not the newest, nor the one with the most words in common."""
    text = item("L-000001", "The port", "The port of the cache is 1111.", "2026-01-05", "2026-01-01")
    text += item("L-000002", "the port!", "It listens on 2222.", "2026-02-05", "2026-02-01")
    text += item("L-000003", "Port", "The port of the cache is 3333.", "", "2026-03-01")
    text += item("L-000005", "port of mail", "The port of mail is 25.", "2026-03-01")
    assert ids(found("port of the cache", {LONG_TERM: text}, results=3))[0] == "L-000002"
    assert ids(found("1111", {LONG_TERM: text}, results=1)) == ["L-000002"], "no word finds it"


@given(any_text(), st.text("#- \n:'\"|>BClaim:\u00e9", max_size=80))
def test_any_question_is_a_search_of_any_file(words: str, text: str) -> None:
    assert len(words_of(words)) <= 64
    found(words)
    assert "old" in ids(found("importer", {**FILES, BELIEFS: f"## B-000001\n{text}", LONG_TERM: text}))


@each_row(
    "words", ['"', "*", "NEAR", "NEAR(a b, 2)", "a AND", "^a", "heading:x", "a'b;--", "-", "{a} : b", "x" * (1 << 20)]
)
def test_words_of_the_search_language_are_words(words: str) -> None:
    assert "old" in ids(found(f"importer {words}", results=20))


def test_the_tool_finds_what_was_written_a_moment_ago_and_names_what_it_cannot_read(tmp_path: Path) -> None:
    mind = OneMind(str(tmp_path), NOW)
    for path, text in FILES.items():
        mind.write(path, text)
    mind.write("memory/archive/big.md", b"x" * (9 << 20))
    mind.write("memory/working.md", b"## A\nbinary\0\n")
    os.unlink(f"{mind.root}/{BELIEFS}")
    os.symlink("/etc/passwd", f"{mind.root}/{BELIEFS}")
    run = MindRun(mind.cell(), Position("run-1"))
    recall = Toolbox(run.tools())

    def asked(words: str) -> ToolResult:
        return recall.call(ToolCall("1", "recall", {"words": words}))

    nothing = asked("kettle root evil").payload
    assert nothing.startswith("Nothing in the mind has one of the words: kettle, root, evil.")
    named = [f"[not searched: {path}: " in nothing for path in ("memory/archive/big.md", "memory/working.md", BELIEFS)]
    assert all(named), nothing
    with open(f"{mind.root}/{LONG_TERM}", "a", encoding="utf-8") as file:
        file.write(item("L-000002", "kettle", "The kettle boils at noon."))
    result = asked("boiling")
    assert "The kettle boils at noon." in result.payload
    assert result.facts["shown"][0] == f"{LONG_TERM}#L-000002"
    assert key_of("kettle", "The kettle boils at noon.") in result.facts["statements"]
    run.begin("Go.", ["0123abcd"])
    run.record(Entered("1", RunState.PLAN))
    [began] = logged(mind.places.events)
    assert f"{LONG_TERM}#L-000002" in began.event.metadata.details["shown"]


@pytest.mark.heavy
def test_the_program_finds_the_mind_and_leaves_word_for_the_runner(tmp_path: Path) -> None:
    """What a shell was shown is on record like what the tool shows."""
    mind = OneMind(str(tmp_path), NOW)
    mind.write(BELIEFS, FILES[BELIEFS])
    checkout = tmp_path / "bot/feature/one/minifram"
    checkout.mkdir(parents=True)
    env = {**os.environ, "MINIFRAM_WEB_PYTHON": sys.executable, CHECKOUT_VARIABLE: str(checkout)}
    program = f"{ROOT}/infra/cell/bin/minifram-mind"
    asked = [program, "recall", "deploying", "now"]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True, env=env)
    assert "Deploys run from the branch release." in ran.stdout
    [left] = taken(mind.root)
    assert (left.name, left.args) == ("recall", {"words": "deploying now"})
