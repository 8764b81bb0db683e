"""Searching the mind: what is found, in which order, and how it is marked; whatever stands in the question, the files,
or the place of the index."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.cell.mind.index import IndexLimits, MindIndex, Refreshed, connected
from infra.cell.mind.search import (
    Hit,
    Query,
    Recalled,
    hits_of,
    problem_with,
    search,
    shown,
    shown_all,
    since_day,
    words_of,
)
from tests.shared.mind.mind_files import FilesInMemory, belief, item
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
    "logs/daily/2026-01-31.md": "# 2026-01-31\n\n## Work\nThe importer failed on a comma.\n",
    "logs/weekly/2026-W05.md": "# 2026-W05\n\n## Work\nThe importer was mended.\n",
    "tasks/completed/TASK-007.md": "# Task: TASK-007\nCompleted: 2026-01-30\n\n## Summary\nExporter\n",
    "skills/learned/html_to_text/SKILL.md": "---\nname: html_to_text\ndescription: >\n  Turns pages into\n  plain "
    "prose\n---\n\n## Procedure\nUse lynx.\n",
    "skills/failed/web/SKILL.md": "---\nname: web\ndescription: Turns pages into junk\n---\n",
    "reflection/failures.md": "# Failures\n\n## Comma\nThe importer does not quote commas.\n",
    "logs/daily/notes.txt": "importer",
    "boot/identity.md": "importer",
}


def found(words: str, files: Mapping[str, str | bytes] = FILES, **how: Any) -> list[Hit]:
    return list(search("", FilesInMemory(files), Query(words, **how)).hits)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits if not hit.is_neighbour]


def test_a_section_with_one_of_the_words_in_any_form_is_found() -> None:
    assert ids(found("deployed yesterday?")) == ["B-000001"]
    assert {hit.path for hit in found("importers") if not hit.is_neighbour} == {
        path for path, text in FILES.items() if "importer" in text and path.endswith(".md") and "boot" not in path
    }
    assert found("nowhere to be seen") == []
    assert "Try synonyms" in shown_all((), "nowhere")


def test_of_a_skill_name_and_description_are_searched_alone() -> None:
    [skill] = found("turning pages")
    assert (skill.id, skill.text, skill.kind) == ("learned/html_to_text", "Turns pages into plain prose", "skill")
    assert found("lynx") == []


def test_what_a_belief_rests_on_is_not_what_it_says() -> None:
    """Its hashes and lines of events would be words in common with everything."""
    assert found("event logs jsonl hash provenance source") == []


def test_a_file_says_what_stands_above_its_sections_unless_it_holds_items() -> None:
    assert ids(found("Perl")) == ["Old"]
    assert found("parrot") == []


@each_row(
    "words, how, paths",
    (
        ("importer", {"kind": "summary"}, {"logs/daily/2026-01-31.md", "logs/weekly/2026-W05.md"}),
        ("importer", {"kind": "archive"}, {"memory/archive/2025/old.md"}),
        ("importer", {"since": "2026-02-01", "kind": "summary"}, {"logs/weekly/2026-W05.md"}),
        ("exporter", {"since": "2026-01-31"}, {"memory/working.md"}),
        ("exporter", {"since": "2026-01-30", "kind": "task"}, {"tasks/completed/TASK-007.md"}),
        ("importer", {"paths": ("logs/weekly/*.md",)}, {"logs/weekly/2026-W05.md"}),
    ),
)
def test_kind_since_and_paths_narrow_the_search(words: str, how: Mapping[str, Any], paths: set[str]) -> None:
    assert {hit.path for hit in found(words, **how) if not hit.is_neighbour} == paths


def test_a_deprecated_belief_is_shown_when_asked_for() -> None:
    assert found("Ada") == []
    assert ids(found("Ada", with_deprecated=True)) == ["B-000004"]


def test_a_contested_belief_is_shown_as_contested_with_the_other() -> None:
    first, second = (hit for hit in found("database port") if not hit.is_neighbour)
    assert {first.id, second.id} == {"B-000002", "B-000003"}
    for hit, other in ((first, second), (second, first)):
        assert f"CONTESTED, contradicts {other.id}" in shown(hit)


def test_neighbours_stand_behind_all_hits() -> None:
    hits = found("parrot Ada 6432")
    assert [(hit.id, hit.is_neighbour) for hit in hits] == [("B-000003", False), ("B-000002", True)]
    assert "neighbour" in shown(hits[1])


def test_the_newest_validated_statement_of_a_subject_is_the_first() -> None:
    """Not the newest, nor the one with the most words in common; one that claims the future was never validated."""
    text = "# Long-term memory\n\n"
    text += item("L-000001", "The port", "The port of the cache is 1111.", "2026-01-05", "2026-01-01")
    text += item("L-000002", "the port!", "It listens on 2222.", "2026-02-05", "2026-02-01")
    text += item("L-000003", "Port", "The port of the cache is 3333.", "", "2026-03-01")
    text += item("L-000004", "port", "The port of the cache is 4444.", "9999-12-31", "2026-03-02")
    text += item("L-000005", "port of mail", "The port of mail is 25.", "2026-03-01")
    hits = found("port of the cache", {LONG_TERM: text}, today="2026-03-10", results=3)
    assert hits[0].id == "L-000002"
    assert sorted((hit.score for hit in hits if not hit.is_neighbour), reverse=True) == [
        hit.score for hit in hits if not hit.is_neighbour
    ]


def test_a_valid_statement_is_found_by_the_words_of_one_that_it_replaced() -> None:
    text = item("L-000001", "cache", "Its harbour is 1111.", "2026-01-05") + item(
        "L-000002", "cache", "2222", "2026-02-05"
    )
    assert ids(found("harbour", {LONG_TERM: text}, results=1)) == ["L-000002"]


@given(any_text())
def test_any_question_is_a_search(words: str) -> None:
    assert len(words_of(words)) <= 64
    assert isinstance(_index(FILES)(Query(words)), list)


@pytest.mark.parametrize(
    "words", ['"', "*", "NEAR", "NEAR(a b, 2)", "a AND", "^a", "heading:x", "a'b;--", "-", "{a} : b"]
)
def test_words_of_the_search_language_are_words(words: str) -> None:
    assert _index(FILES)(Query(f"{words} importer")) != []


def test_a_long_question_is_cut() -> None:
    assert found("importer " + "x" * (1 << 20)) != []
    assert found("importer " * (1 << 17)) != []


def test_words_that_stand_everywhere_give_way_to_rare_ones() -> None:
    sections = "".join(item(f"L-{at:06}", f"s{at}", "common words" + " rare" * (at == 20)) for at in range(40))
    assert ids(found("common rare", {LONG_TERM: sections}, most_matches=10)) == ["L-000020"]
    assert len(ids(found("common", {LONG_TERM: sections}, most_matches=10))) == 8, "alone it is searched for"


def test_where_each_word_stands_in_too_many_the_section_with_all_of_them_comes_first() -> None:
    """Also one that is old; then those with most of them. Of a single word the newest are weighed."""
    texts = {7: "one two three four", 9: "one two three"}
    others = ("one four", "two four", "three four", "four", "one two")
    sections = "".join(item(f"L-{at:06}", f"s{at}", texts.get(at, others[at % 5])) for at in range(1, 60))
    asked = partial(found, files={LONG_TERM: sections}, most_matches=10)
    assert ids(asked("one two three four"))[:3] == ["L-000007", "L-000059", "L-000054"]
    assert ids(asked("four three one two nothing"))[0] == "L-000007"
    assert ids(asked("one two three"))[:3] == ["L-000009", "L-000007", "L-000059"]
    assert all(int(hit.id[2:]) > 45 for hit in asked("four") if not hit.is_neighbour)


# The index


def _index(files: Mapping[str, str | bytes]) -> Callable[[Query], list[Hit]]:
    """Made once: it is asked alone."""
    key = tuple(files.items())
    if key not in _INDEXES:
        _INDEXES[key] = MindIndex(connected(":memory:"))
        _INDEXES[key].refresh(FilesInMemory(files))
    return lambda query: hits_of(_INDEXES[key].database, query)


_INDEXES: dict[object, MindIndex] = {}


def test_one_changed_note_is_one_row(tmp_path: Path) -> None:
    path, files = str(tmp_path / "index"), FilesInMemory(FILES)
    first = search(path, files, Query("importer")).refreshed
    assert (first.files, first.added) == (10, 15)
    changed = FILES[BELIEFS].replace("branch release", "branch stable")
    files.files[BELIEFS] = changed
    before = len(files.reads)
    result = search(path, files, Query("stable"))
    assert result.refreshed == Refreshed(files=1, added=1, removed=1)
    assert files.reads[before:] == [BELIEFS]
    assert ids(list(result.hits)) == ["B-000001"]
    assert search(path, files, Query("release")).hits == ()
    files.files[BELIEFS] = changed.replace("\n\n## ", f"\n\n{belief('B-000009', 'A new first one.')}## ", 1)
    assert search(path, files, Query("new first")).refreshed == Refreshed(files=1, added=1)
    del files.files[BELIEFS]
    result = search(path, files, Query("stable database port"))
    assert (result.hits, result.refreshed.removed) == ((), 5)
    for gone in [each for each in files.files if each.startswith("logs/")]:
        del files.files[gone]
    assert {hit.path.split("/")[0] for hit in search(path, files, Query("importer")).hits} == {"memory", "reflection"}


@settings(max_examples=20)
@given(st.lists(st.lists(st.sampled_from(["alpha", "beta", "gamma"]), max_size=6), max_size=4))
def test_an_index_that_was_kept_finds_what_a_new_one_finds(versions: list[list[str]]) -> None:
    kept, files = MindIndex(connected(":memory:")), FilesInMemory({})
    for version in versions:
        files.files[LONG_TERM] = "".join(f"## {word} {at % 2}\n{word}\n" for at, word in enumerate(version))
        kept.refresh(files, trust_folders=bool(version))
        new = MindIndex(connected(":memory:"))
        new.refresh(files)
        query = Query("alpha beta", results=50)
        assert [hit[:4] for hit in hits_of(kept.database, query)] == [hit[:4] for hit in hits_of(new.database, query)]


def _cut(path: str) -> None:
    os.truncate(path, os.path.getsize(path) // 2)


def _junk(path: str) -> None:
    Path(path).write_bytes(b"\x00junk" * 5000)


def _other_tables(path: str) -> None:
    os.unlink(path)
    connected(path).execute("CREATE TABLE section (a)")


def _later_version(path: str) -> None:
    connected(path).execute("PRAGMA user_version = 99")


def _no_words(path: str) -> None:
    connected(path).execute("DROP TABLE words")


def _scribbled(path: str) -> None:
    with open(path, "r+b") as file:
        for at in range(4096, os.path.getsize(path), 4096):
            file.seek(at + 100)
            file.write(b"\xff" * 200)


def _directory(path: str) -> None:
    os.unlink(path)
    os.mkdir(path)


def _pipe(path: str) -> None:
    os.unlink(path)
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage", [_cut, _junk, _other_tables, _later_version, _no_words, _scribbled, _directory, _pipe, os.unlink]
)
def test_a_broken_index_is_made_again(tmp_path: Path, damage: Callable[[str], None]) -> None:
    path, files = str(tmp_path / "index"), FilesInMemory(FILES)
    expected = search(path, files, Query("importer")).hits
    damage(path)
    assert search(path, files, Query("importer")).hits == expected
    assert search(path, files, Query("importer")).hits == expected


def test_an_index_that_another_process_holds_is_searched_as_it_is(tmp_path: Path) -> None:
    path, files, soon = str(tmp_path / "index"), FilesInMemory(FILES), IndexLimits(busy_seconds=0.05)
    search(path, files, Query("importer"))
    other = connected(path)
    other.execute("BEGIN IMMEDIATE")
    files.files["memory/working.md"] = "## New\nNews of the importer.\n"
    stale = search(path, files, Query("importer"), limits=soon)
    assert "in use by another process" in stale.refreshed.problems[0]
    assert "Old" in ids(list(stale.hits))
    other.rollback()
    other.execute("BEGIN EXCLUSIVE")
    assert "New" in ids(list(search(path, files, Query("importer"), limits=soon).hits)), "then from memory"
    other.rollback()
    assert os.path.exists(path)


def test_where_no_index_can_be_written_it_is_in_memory() -> None:
    assert search("/proc/nowhere/index", FilesInMemory(FILES), Query("importer")).hits != ()


@each_row(
    "name, content, problem, hits",
    (
        ("binary", b"## A\nimporter\0\n", "it is binary", 0),
        ("large", lambda: b"## A\nimporter\n" + (b"## B\n" + b"more words " * 40_000) * 120, "first 8 MiB", 1),
        ("conflict", b"<<<<<<< ours\n## A\nimporter\n=======\n## A\nimporter\n>>>>>>> theirs\n", "", 2),
        ("no section", b"importer" * 3, "", 0),
        ("empty", b"", "", 0),
        ("not UTF-8", b"## A\nimporter \xff\xfe\n", "", 1),
        ("cut", b"## B-000001\nClaim: The importer", "", 1),
        ("twice", belief("B-000001", "importer").encode() * 2, "", 2),
    ),
)
def test_a_file_of_any_content_does_no_harm(
    name: str, content: bytes | Callable[[], bytes], problem: str, hits: int
) -> None:
    files = FilesInMemory({**FILES, BELIEFS: content() if callable(content) else content})
    result = search("", files, Query("importer", results=20))
    matches = [hit.path for hit in result.hits if not hit.is_neighbour]
    assert matches.count(BELIEFS) == hits, name
    assert any(path == "memory/working.md" for path in matches), "the sound rest is found"
    assert problem in "".join(result.refreshed.problems), name
    assert bool(problem) == bool(result.refreshed.problems), name


def test_sections_are_bounded_in_all_and_of_one_file() -> None:
    """One file that went wrong leaves room for the others."""
    nine = "".join(item(f"L-{at:06}", "s", "word") for at in range(9))
    files, limits = FilesInMemory({"memory/archive/a.md": nine, LONG_TERM: nine}), IndexLimits(sections=7, of_file=5)
    result = search("", files, Query("word", results=20), limits=limits)
    assert [hit.kind for hit in result.hits].count("archive") == 2
    assert len(result.hits) == 7
    assert "first 5 sections" in result.refreshed.problems[1]
    assert "more than 7 sections" in result.refreshed.problems[0]


def test_a_file_that_cannot_be_read_is_named() -> None:
    class Unreadable(FilesInMemory):
        def read(self, path: str, most: int) -> bytes:
            if path == BELIEFS:
                raise PermissionError(13, "Permission denied")
            return super().read(path, most)

    result: Recalled = search("", Unreadable(FILES), Query("importer"))
    assert result.hits != ()
    assert result.refreshed.problems == (f"{BELIEFS}: it cannot be read: Permission denied; it is not searched",)


@each_row(
    "kind, since, problem",
    (
        ("", "", ""),
        ("belief", "7d", ""),
        ("", "2026-01-31", ""),
        ("", "2026-01-31T10:00:00Z", ""),
        ("beliefs", "", "the kinds are"),
        ("", "2026-02-31", "write a date"),
        ("", "yesterday", "write a date"),
    ),
)
def test_what_cannot_be_asked_is_said(kind: str, since: str, problem: str) -> None:
    said = problem_with(kind, since)
    assert problem in said
    assert bool(problem) == bool(said)


@each_row(
    "since, day",
    (
        ("2d", "2026-01-29"),
        ("1w", "2026-01-24"),
        ("2026-01-05T10:00", "2026-01-05"),
        ("99999w", "0109-07-27"),
        ("", ""),
    ),
)
def test_since_is_a_day(since: str, day: str) -> None:
    assert since_day(since, 1_769_860_800.0) == day  # 2026-01-31T12:00:00Z
