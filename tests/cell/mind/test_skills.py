from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.problems import MindProblem
from infra.cell.mind.semver import Dependency, SkillVersion
from infra.cell.mind.skill_graph import graph_problems
from infra.cell.mind.skill_index import IndexLine, index_line, lines_of, with_line, without_line
from infra.cell.mind.skills import (
    FAILURE_MODES,
    HELD_OUT,
    MOST_BYTES,
    SELF_TEST,
    Skills,
    SkillStatus,
    WrongSkill,
    folder_hash,
    skill_of,
    skills_of,
    with_front,
)
from tests.shared.rows import each_row
from tests.shared.texts import any_text

PATH = "skills/candidates/csv-sum/SKILL.md"
SKILL = """\
---
name: csv-sum
description: "Sum a column: of a CSV file."
version: 0.1.0
status: candidate
license: MIT   # of the author's
dependencies:
  - core/files@1.0.0
---

# Skill: csv-sum

## Purpose
Sum.

## Dependencies
- core/files@1.0.0
- `core/shell@2.1.0`
- nothing else

## Procedure
1. Run awk.

## Validation / Self-test
It ends with 0.

```bash
test 3 = $((1 + 2))
```

## Failure modes & recovery
- No file: say so.

## Held-out task
Write the sum of data.csv to sum.txt.

```bash
test "$(cat sum.txt)" = 6
```
"""


def a_skill(reference: str, *dependencies: str) -> dict[str, bytes | MindProblem]:
    directory, _, rest = reference.partition("/")
    name, _, version = rest.partition("@")
    front = "".join(f"\n  - {each}" for each in dependencies)
    text = (
        f"---\nname: {name}\ndescription: It works.\nversion: {version}\ndependencies:{front}\n---\n\n## Purpose\nx\n"
    )
    return {f"skills/{directory}/{name}/SKILL.md": text.encode()}


def named(*skills: dict[str, bytes | MindProblem]) -> Skills:
    return skills_of({path: content for each in skills for path, content in each.items()})


def test_a_skill_is_read_with_its_sections() -> None:
    skill = skill_of(PATH, SKILL.encode())
    assert skill.reference == "candidates/csv-sum@0.1.0"
    assert skill.description == "Sum a column: of a CSV file."
    assert [str(each) for each in skill.dependencies] == ["core/files@1.0.0", "core/shell@2.1.0"]
    assert skill.command(SELF_TEST) == "test 3 = $((1 + 2))"
    assert skill.prose(HELD_OUT) == "Write the sum of data.csv to sum.txt."
    assert skill.section(FAILURE_MODES) == "- No file: say so."
    assert skill.section("Notes") == ""


def test_a_change_of_the_front_matter_changes_nothing_else() -> None:
    promoted = with_front(SKILL, status="learned", version="1.0.0")
    assert promoted == SKILL.replace("status: candidate", "status: learned").replace("version: 0.1.0", "version: 1.0.0")
    assert with_front(promoted, version="0.1.0", status="candidate") == SKILL
    successor = with_front(SKILL, successor="learned/sum@1.0.0")
    assert skill_of(PATH, successor.encode()).successor == "learned/sum@1.0.0"
    assert with_front(successor, successor="") == SKILL


def test_the_hash_of_a_folder_is_that_of_its_content_but_for_the_state() -> None:
    files = {"SKILL.md": SKILL.encode(), "sum.awk": b"{ sum += $1 }"}
    promoted = {**files, "SKILL.md": with_front(SKILL, status="learned").encode()}
    assert folder_hash(promoted) == folder_hash(files)
    assert folder_hash({**files, "sum.awk": b"{}"}) != folder_hash(files)
    assert folder_hash({"SKILL.md": SKILL.replace("Run awk", "Run sed").encode()}) != folder_hash(files)
    assert folder_hash({"SKILL.md": SKILL.encode() + b"status: x\n"}) != folder_hash({"SKILL.md": SKILL.encode()})


@given(
    any_text().map(str.encode) | st.binary(max_size=200) | any_text().map(lambda text: f"---\n{text}\n---\n".encode())
)
def test_whatever_a_file_holds_is_a_skill_or_a_problem_with_its_place(content: bytes) -> None:
    read = skills_of({PATH: content, **a_skill("learned/other@1.0.0")})
    assert read.find("other", SkillStatus.LEARNED)
    assert len(read.found) + len(read.problems) == 2
    assert all(str(problem).startswith(PATH) for problem in read.problems)


@given(st.sampled_from(SKILL.split("\n")), any_text())
def test_whatever_stands_beside_is_kept(line: str, more: str) -> None:
    text = SKILL.replace(line, f"{line}\n{more}", 1)
    try:
        skill = skill_of(PATH, text.encode(errors="replace"))
    except WrongSkill:
        return
    changed = with_front(skill.text, status="learned")
    assert (
        sorted(set(changed.split("\n")) ^ set(skill.text.split("\n")))
        in (
            ["status: candidate", "status: learned"],
            ["status: learned"],
        )
        or changed == skill.text
    )


@each_row(
    "content,line,words",
    [
        (b"", 0, "it is empty"),
        (b" \n", 0, "it is empty"),
        (b"x" * (MOST_BYTES + 1), 0, "more than 262,144 bytes"),
        (b"---\nname: csv-sum\n\xff\n---\n", 3, "UTF-8"),
        (b"---\nname: csv-sum\n---\n\0", 4, "zero byte"),
        (SKILL.replace("# Skill: csv-sum", "<<<<<<< HEAD").encode(), 11, "conflict marker"),
        (b"# Skill\n", 1, "expected '---' on the first line"),
        (b"---\nname: csv-sum\n", 1, "does not end"),
        (b"---\n- a\n---\n", 1, "no keys"),
        (b"---\nname: csv-sum\nname: x\n---\n", 3, "given twice"),
        (b"---\ndescription: x\n---\n", 1, "name is missing"),
        (SKILL.replace("name: csv-sum", "name: other").encode(), 2, "its folder is 'csv-sum'"),
        (SKILL.replace("name: csv-sum", "name: CSV sum").encode(), 2, "lower-case"),
        (SKILL.replace("version: 0.1.0", "version: 1.0").encode(), 4, "no text"),
        (SKILL.replace("version: 0.1.0", "version: v1").encode(), 4, "MAJOR.MINOR.PATCH"),
        (SKILL.replace("status: candidate", "status: learned").encode(), 5, "write 'status: candidate'"),
        (SKILL.replace("  - core/files@1.0.0", "  - files").encode(), 7, "STATE/NAME@VERSION"),
        (SKILL.replace("`core/shell@2.1.0`", "shell@2").encode(), 18, "STATE/NAME@VERSION"),
        (SKILL.replace("Sum a column: of a CSV file.", "x" * 1025).encode(), 3, "at most 1,024"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(content: bytes, line: int, words: str) -> None:
    with pytest.raises(WrongSkill) as wrong:
        skill_of(PATH, content)
    assert wrong.value.problem.line == line, wrong.value.problem
    assert words in wrong.value.problem.what


@each_row(
    "asked,has,takes",
    [
        ("1.0.0", "1.0.0", True),
        ("1.0.0", "1.2.3", True),
        ("1.2.0", "1.1.9", False),
        ("1.0.0", "2.0.0", False),
        ("1.0.0", "1.0.0-rc.1", False),
        ("1.0.0-rc.1", "1.0.0-rc.2", True),
        ("1.0.0-2", "1.0.0-10", True),
        ("1.0.0-10", "1.0.0-rc", True),
        ("1.0.0-rc", "1.0.0-10", False),
    ],
)
def test_a_dependency_takes_the_same_major_number_that_is_no_older(asked: str, has: str, takes: bool) -> None:
    assert Dependency.of(f"core/x@{asked}").takes(SkillVersion.of(has)) is takes


@given(st.from_regex(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(-[0-9a-z.-]{1,9})?", fullmatch=True))
def test_a_version_that_reads_is_written_as_it_was(text: str) -> None:
    try:
        version = SkillVersion.of(text)
    except ValueError:
        return
    assert str(version) == text
    assert not version.order < version.order


@each_row(
    "skills,problems",
    [
        ([("core/a@1.0.0",), ("learned/b@0.1.0", "core/a@1.0.0")], []),
        ([("learned/b@0.1.0", "learned/b@0.1.0")], ["it depends on itself, learned/b@0.1.0; take that out"]),
        ([("learned/b@0.1.0", "core/a@1.0.0")], ["it depends on core/a@1.0.0, which is not there"]),
        (
            [("core/a@2.0.0",), ("learned/b@0.1.0", "core/a@1.0.0")],
            [
                "it depends on core/a@1.0.0, and 2.0.0 is there; ask for a version of that major number, or bring the "
                "other up"
            ],
        ),
        (
            [("deprecated/a@1.0.0",), ("learned/b@0.1.0", "learned/a@1.0.0")],
            ["it depends on learned/a@1.0.0, which is deprecated/a@1.0.0; name that, or another skill"],
        ),
        (
            [(f"learned/{one}@1.0.0", f"learned/{other}@1.0.0") for one, other in ("ab", "bc", "ca")],
            [
                "its dependencies lead back to it (learned/a@1.0.0 → learned/b@1.0.0 → learned/c@1.0.0 → "
                "learned/a@1.0.0); take one of them out"
            ],
        ),
        ([("failed/b@0.1.0", "failed/b@0.1.0")], []),
        ([("core/a@1.0.0",), ("learned/a@1.0.0",)], ["a core skill has the name 'a'; give it another"]),
        ([("learned/a@1.0.0",), ("learned/b@0.1.0", "candidates/a@1.0.0")], []),
    ],
)
def test_dependencies_that_cannot_be_met_are_named(skills: list[tuple[str, ...]], problems: list[str]) -> None:
    assert [each.what for each in graph_problems(named(*(a_skill(*each) for each in skills)))] == problems


def test_a_chain_of_any_length_is_followed() -> None:
    chain = [
        a_skill(f"learned/s{at}@1.0.0", f"learned/s{(at + 1) % 1100}@1.0.0") for at in range(1100)
    ]  # deeper than Python calls
    (circle,) = graph_problems(named(*chain))
    assert circle.path == "skills/learned/s0/SKILL.md"


INDEX = """\
# Skills

What I do.

## core

- `core/files@1.0.0`: Files. Confidence: 1.0
- a note of the PM's

## learned
"""


def test_the_index_changes_by_lines() -> None:
    skill = skill_of(PATH, SKILL.encode())
    line = IndexLine.of(skill, 0.666)
    assert str(line).endswith("csv-sum@0.1.0`: not through its gate yet; what it says is in its file. Confidence: 0.67")
    promoted = skill._replace(status=SkillStatus.LEARNED)
    assert str(IndexLine.of(promoted, 1)) == "- `learned/csv-sum@0.1.0`: Sum a column: of a CSV file. Confidence: 1.00"
    added = with_line(INDEX, line)
    assert added == f"{INDEX}\n## candidates\n\n{line}\n"
    assert [each.name for each in lines_of(added)] == ["files", "csv-sum"]
    better = with_line(added, line._replace(confidence=0.9, hash="sha256:0a"))
    assert better == added.replace("Confidence: 0.67", "Confidence: 0.90 (sha256:0a)")
    learned = line._replace(directory="learned")
    assert with_line(INDEX, learned) == f"{INDEX}\n{learned}\n"
    core = line._replace(directory="core")
    assert with_line(INDEX, core) == INDEX.replace("- a note of the PM's\n", f"- a note of the PM's\n{core}\n")
    assert without_line(with_line(INDEX, core), "core", "csv-sum") == INDEX
    assert without_line(better, "learned", "csv-sum") == better


@given(any_text(), st.floats(-1, 2), st.sampled_from(["core", "learned"]))
def test_an_index_line_reads_back_and_all_others_stay(text: str, confidence: float, directory: str) -> None:
    line = IndexLine.of(skill_of(PATH, SKILL.encode()), confidence, "sha256:12ab")._replace(directory=directory)
    assert index_line(str(line)) == line
    for old in (text, INDEX + text):
        whole = with_line(old, line)
        assert line in lines_of(whole)
        assert with_line(whole, line) == whole
        kept = [each for each in whole.split("\n") if each.strip() and each not in (str(line), f"## {directory}")]
        assert kept == [each for each in old.split("\n") if each.strip() and each != f"## {directory}"]
