"""Skills as files; what keeps a candidate out, and which commands become one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.history import Drafted, History, LogEntry, Trial
from infra.cell.mind.skill_drafts import drafts
from infra.cell.mind.skill_gate import TRIALS, TrialKind, confidence, lacking, why_disabled
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
from infra.shared.mind.event import Command, EventLine, EventType, Execution
from tests.shared.mind.events import act
from tests.shared.rows import any_text, each_row

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


REFERENCE, HASH = "candidates/csv-sum@0.1.0", "sha256:0a"
CORE = (a_skill("core/files@1.0.0"), a_skill("core/shell@2.1.0"))


class Log:
    """Events in their order, and what they come to."""

    def __init__(self) -> None:
        self.history = History()

    def add(self, type: EventType, run: str = "", skill: str | None = None, **more: Any) -> Log:
        seq = self.history.last_seq + 1
        self.history.add(EventLine("2026-01-31.jsonl", seq, act(type, run, skill, seq=seq, **more)))
        return self

    def fact(self, fact: LogEntry) -> Log:
        return self.add("skill_execution", details=msgspec.to_builtins(fact), label="maintenance")

    def trial(self, kind: TrialKind, passed: bool = True, hash: str = HASH) -> Log:
        return self.fact(Trial(kind, REFERENCE, hash, passed))

    def tried(self) -> Log:
        for kind in TRIALS:
            self.trial(kind)
        return self

    def used(self, run: str, status: str = "completed", skill: str = REFERENCE, **more: Any) -> Log:
        self.add("skill_execution", run, skill, **more)
        self.add("skill_execution", run, skill, **more)
        return self.add("task_update", run, status=status, details={"steps": 2}, **more)


def passing(uses: int = 3) -> Log:
    log = Log().tried()
    for run in range(uses):
        log.used(f"r{run}")
    return log


def lacks(log: Log, text: str = SKILL, hash: str = HASH, *others: dict[str, bytes | OSError]) -> dict[Any, str]:
    skills = named({PATH: text.encode()}, *CORE, *others)
    return lacking(skill_of(PATH, text), hash, skills, log.history)


NEEDY = a_skill("learned/needy@1.0.0", "learned/csv-sum@1.0.0") | a_skill("learned/csv-sum@1.0.0")


@each_row(
    "log,text,others,expected",
    [
        (passing(), SKILL, (), []),
        *((passing().trial(kind, False), SKILL, (), [kind]) for kind in TRIALS),
        (passing(2), SKILL, (), ["uses"]),
        (passing(), SKILL.replace("- No file: say so.", "- ..."), (), ["failure_modes"]),
        (passing(), SKILL.replace("```bash", "```").replace("```", ""), (), ["self_test"]),
        (passing(), SKILL.replace("core/files@1.0.0", "core/files@2.0.0"), (), ["regression"]),
        (passing(), SKILL, (NEEDY,), ["regression"]),
        (Log(), SKILL, (), [*TRIALS, "uses"]),
        (passing().fact(Drafted("csv-sum", "sha256:01", ("evil.example",))), SKILL, (), ["review"]),
    ],
)
def test_each_condition_alone_keeps_it_out(
    log: Log, text: str, others: tuple[dict[str, bytes | OSError], ...], expected: list[str]
) -> None:
    """A page's hand in an earlier version is one; that others need the version before is another."""
    assert list(lacks(log, text, HASH, *others)) == expected


def test_what_is_no_use_is_not_counted() -> None:
    """One run counts once; a run that failed, explores, goes on or was cut short does not; nor one of another
    version, nor one before this content was tried."""
    log = Log().used("before").tried().used("r1").used("r1").used("r2", "max_steps").used("r3", "interrupted")
    log.used("r4", label="exploration").used("r5", skill="candidates/csv-sum@0.0.9").used("r6", skill="x")
    log.add("skill_execution", "r7", REFERENCE)
    assert list(lacks(log, hash="sha256:0b")) == [*TRIALS, "uses"], "a change of the folder starts anew"
    assert lacks(log)["uses"].startswith("1 of 3 runs")
    assert confidence(skill_of(PATH, SKILL), log.history) == 3 / 5, "two good ones and one that failed"


def test_more_failures_than_allowed_disable_it() -> None:
    skill, log = skill_of(PATH, SKILL), Log().tried()
    log.used("r1", "max_steps").used("r2", "max_failures").used("r3", "refusal").used("s", "model_unavailable")
    assert why_disabled(skill, log.history) == ""
    why = why_disabled(skill, log.used("r4", "no_op_loop").history)
    assert why.startswith("it failed 4 times, more than 3: run r1 (logs/events/")
    for run in range(20):
        log.used(f"good{run}")
    assert why_disabled(skill, log.history) == "", "they are long past"


STEPS = ("git pull", "make build", "scp out host:/srv", "ssh host restart")


class Ran(NamedTuple):
    run: str
    commands: Sequence[str]
    failed: str = ""
    end: str = "completed"
    page: bool = False


def found(runs: list[Ran], since: str) -> list[list[str]]:
    log, made = Log(), list[list[str]]()
    for run, commands, failed, end, page in runs:
        origins = ("a.example",) if page else ()
        for command in commands:
            did = Execution((Command("bash", ("-c", command)),), (int(command == failed),))
            log.add("skill_execution", run, did=did, tool="bash", status="ok", origins=origins)
        log.add("task_update", run, status=end, details={"steps": 1}, origins=origins)
    for name, text in drafts(log.history, since).items():
        steps = skill_of(f"skills/candidates/{name}/SKILL.md", text).section("Procedure").splitlines()
        made.append([step.partition(" ")[2].strip("`") for step in steps])
    return made


@each_row(
    "runs, expected",
    [
        ([Ran(run, STEPS) for run in "abc"], [[*STEPS]]),
        ([Ran(run, STEPS) for run in "ab"], []),
        ([Ran(run, STEPS[:2]) for run in "abc"], []),
        ([Ran(run, ("ls", *STEPS[:2], "cat x", *STEPS[2:], f"echo {run}")) for run in "abc"], [[*STEPS]]),
        ([Ran(run, STEPS, failed=STEPS[1]) for run in "abc"], []),
        ([Ran(run, STEPS, end="max_failures") for run in "abc"], []),
        ([Ran(run, STEPS, page=run == "c") for run in "abc"], []),
        ([Ran("a", STEPS * 3)], []),
        ([Ran(run, ["make"] * 8) for run in "abc"], []),
        (
            [Ran(run, (f"git commit -m '{run}'", "make build", f'tag {at} "a: \\b"')) for at, run in enumerate("abc")],
            [["git commit -m 'c'", "make build", 'tag 2 "a: \\b"']],
        ),
    ],
)
def test_which_sequences_of_commands_become_a_draft(runs: list[Ran], expected: list[list[str]]) -> None:
    assert found(runs, "2026-01-01") == expected
    assert found(runs, "2026-02-01") == []
