from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.skills import (
    FAILURE_MODES,
    LEARNED,
    MOST_BYTES,
    Skills,
    folder_hash,
    index_of,
    marked,
    met_by,
    skill_of,
    skills_of,
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
license: MIT
dependencies:
  - core/files@1.0.0
  - core/shell@2.1.0
---

# Skill: csv-sum

## Purpose
Sum.

## Procedure
1. Run awk.

## Validation / Self-test
It ends with 0.

```bash
test 3 = $((1 + 2))
```

## Failure modes & recovery
- No file: say so.
"""


def a_skill(reference: str, *dependencies: str) -> dict[str, bytes | OSError]:
    directory, _, rest = reference.partition("/")
    name, _, version = rest.partition("@")
    front = "".join(f"\n  - {each}" for each in dependencies)
    text = (
        f"---\nname: {name}\ndescription: It works.\nversion: {version}\ndependencies:{front}\n---\n\n## Purpose\nx\n"
    )
    return {f"skills/{directory}/{name}/SKILL.md": text.encode()}


def named(*skills: dict[str, bytes | OSError]) -> Skills:
    return skills_of({path: content for each in skills for path, content in each.items()})


def test_a_skill_is_read_with_its_sections() -> None:
    skill = skill_of(PATH, SKILL)
    assert skill.reference == "candidates/csv-sum@0.1.0"
    assert skill.head.description == "Sum a column: of a CSV file."
    assert skill.head.dependencies == ("core/files@1.0.0", "core/shell@2.1.0")
    assert skill.self_test == "test 3 = $((1 + 2))"
    assert skill.section(FAILURE_MODES) == "- No file: say so."
    assert skill.section("Notes") == ""


def test_a_change_of_its_state_changes_neither_its_text_nor_its_hash() -> None:
    promoted = marked(SKILL, status="learned", successor="learned/sum@1.0.0")
    assert skill_of(PATH, promoted).head.successor == "learned/sum@1.0.0"
    changed = {"status: candidate", "status: learned", "successor: learned/sum@1.0.0"}
    assert {*promoted.split("\n")} ^ {*SKILL.split("\n")} == changed
    files = {"SKILL.md": SKILL.encode(), "sum.awk": b"{ sum += $1 }"}
    assert folder_hash({**files, "SKILL.md": promoted.encode()}) == folder_hash(files)
    for other in ({"sum.awk": b"{}"}, {"SKILL.md": SKILL.encode() + b"status: x\n"}):
        assert folder_hash(files | other) != folder_hash(files)


@given(
    any_text().map(str.encode) | st.binary(max_size=200) | any_text().map(lambda text: f"---\n{text}\n---\n".encode())
)
def test_whatever_a_file_holds_is_a_skill_or_a_problem_with_its_place(content: bytes) -> None:
    read = skills_of({PATH: content, **a_skill("learned/other@1.0.0")})
    assert read.find("other", LEARNED)
    assert len(read.found) + len(read.problems) == 2
    assert all(str(problem).startswith(PATH) for problem in read.problems)


@each_row(
    "content,words",
    [
        (b"x" * (MOST_BYTES + 1), "at most 262,144 bytes"),
        (b"---\nname: csv-sum\n\xff\n---\n", "utf-8"),
        (b"---\nname: csv-sum\n---\n\0", "expected text"),
        (SKILL.replace("name: csv-sum", "name: other").encode(), "its folder is 'csv-sum'"),
        (SKILL.replace("version: 0.1.0", "version: 1.0").encode(), "version is '1.0'"),
        (SKILL.replace("  - core/files@1.0.0", "  - files").encode(), "matching regex"),
        (SKILL.replace("Sum a column: of a CSV file.", "x" * 1025).encode(), "length <= 1024"),
    ],
)
def test_what_is_wrong_is_named(content: bytes, words: str) -> None:
    (problem,) = skills_of({PATH: content}).problems
    assert words in problem.what


@each_row(
    "asked,has,takes",
    [
        ("core/x@1.0.0", "core/x@1.0.0", True),
        ("core/x@1.0.0", "core/x@1.2.3", True),
        ("core/x@1.9.0", "core/x@1.10.0", True),
        ("core/x@1.2.0", "core/x@1.1.9", False),
        ("core/x@1.0.0", "core/x@2.0.0", False),
        ("core/x@1.0.0", "learned/x@1.0.0", False),
        ("candidates/x@1.0.0", "learned/x@1.0.0", True),
    ],
)
def test_a_dependency_takes_the_same_major_number_that_is_no_older(asked: str, has: str, takes: bool) -> None:
    assert bool(met_by(asked, named(a_skill(has)).found)) is takes


@each_row(
    "skills,problems",
    [
        ([("core/a@1.0.0",), ("learned/b@0.1.0", "core/a@1.0.0")], []),
        ([("learned/b@0.1.0", "core/a@1.0.0")], ["it depends on core/a@1.0.0; no such version is there"]),
        (
            [("deprecated/a@1.0.0",), ("learned/b@0.1.0", "deprecated/a@1.0.0")],
            ["it depends on deprecated/a@1.0.0; no such version is there"],
        ),
        ([("failed/b@0.1.0", "core/a@1.0.0")], []),
    ],
)
def test_dependencies_that_cannot_be_met_are_named(skills: list[tuple[str, ...]], problems: list[str]) -> None:
    assert [each.what for each in named(*(a_skill(*each) for each in skills)).graph_problems()] == problems


def test_the_index_is_made_from_the_folders() -> None:
    skills = named(
        a_skill("learned/b@1.0.0"), a_skill("core/a@1.0.0"), {PATH: SKILL.encode()}, a_skill("failed/c@1.0.0")
    )
    assert re.findall("^- .*", index_of(skills, lambda skill: 0.666), re.MULTILINE) == [
        "- `core/a@1.0.0`: It works. Confidence: 0.67",
        "- `learned/b@1.0.0`: It works. Confidence: 0.67",
        "- `candidates/csv-sum@0.1.0`: not through its gate yet. Confidence: 0.67",
    ]
