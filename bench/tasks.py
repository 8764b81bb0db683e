"""The tasks that are played in each way to act: what lies there at the start, what a model decides step by step, and
what must lie there in the end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bench.decisions import Edit, Read, Shell, Step, Write

LARGE, MANY, SMALL = "large outputs", "many files", "small steps"


class Task(NamedTuple):
    name: str
    kind: str
    files: Mapping[str, str]
    """There at the start."""
    steps: tuple[Step, ...]
    expected: Mapping[str, str]
    """What these files hold when the work is done."""


def tasks() -> tuple[Task, ...]:
    return (*_large(), *_many(), *_small())


def _large() -> tuple[Task, ...]:
    logs = {f"logs/app-{n}.log": _log(n, 4000 + 400 * n) for n in range(20)}
    counted = {name: text.count("ERROR") for name, text in logs.items()}
    read_logs = [(Shell(f"cat {name}; echo {name} $(grep -c ERROR {name}) >> errors.txt"),) for name in logs]
    parts = {f"src/part_{n}.py": f"value = {n}\n" for n in range(18)}
    mend: list[Step] = []
    for n, name in enumerate(parts):
        mend.append((Shell(f"seq -f 'FAILED tests/test_{n}.py::test_%g - assert value == {n + 100}' 1 900; exit 1"),))
        mend.append((Edit(name, f"value = {n}", f"value = {n + 100}"),))
    builds = [
        (Shell(f"seq -f '[{n}/20] cc -O2 -Wall -c unit_%g.c -o build/unit.o' 1 1500; echo step {n} done >> build.txt"),)
        for n in range(20)
    ]
    data = "".join(f'{{"id": {n}, "name": "item {n}", "price": {n * 7 % 1000}}}\n' for n in range(16_000))
    slices = [
        (Shell(f"sed -n '{1 + 1000 * n},{1000 * (n + 1)}p' data.jsonl | tee part; grep -c '\"price\": 7}}' part >> c"),)
        for n in range(16)
    ]
    lines = data.splitlines()
    found = [sum('"price": 7}' in line for line in lines[1000 * n : 1000 * (n + 1)]) for n in range(16)]
    history = [
        (
            Shell(
                f"seq -f 'commit %g of branch {n}: change the module and its tests' 1 {800 + 20 * n}; echo {n} >> seen"
            ),
        )
        for n in range(24)
    ]
    return (
        Task(
            "count errors in logs",
            LARGE,
            logs,
            tuple(read_logs),
            {"errors.txt": _lines(f"{k} {v}" for k, v in counted.items())},
        ),
        Task(
            "mend what tests complain of",
            LARGE,
            parts,
            tuple(mend),
            {f"src/part_{n}.py": f"value = {n + 100}\n" for n in range(18)},
        ),
        Task("watch a build", LARGE, {}, tuple(builds), {"build.txt": _lines(f"step {n} done" for n in range(20))}),
        Task("search a dump", LARGE, {"data.jsonl": data}, tuple(slices), {"c": _lines(map(str, found))}),
        Task("walk through a history", LARGE, {}, tuple(history), {"seen": _lines(map(str, range(24)))}),
    )


def _many() -> tuple[Task, ...]:
    made = {f"pages/page_{n}.md": _page(n) for n in range(40)}
    there = {f"notes/note_{n}.md": _page(n) for n in range(30)}
    index = _lines(f"note {n}: {len(text)}" for n, text in enumerate(there.values()))
    looked = [(Read(name), Shell(f"echo note {n}: $(wc -c < {name}) >> index.txt")) for n, name in enumerate(there)]
    configs = {f"conf/unit_{n}.ini": f"[unit]\nname = unit {n}\nlevel = low\nowner = nobody\n" for n in range(30)}
    raised = [(Edit(name, "level = low", "level = high"),) for name in configs]
    modules = {f"lib/mod_{n}.py": _module(n) for n in range(25)}
    renamed = [(Read(name), Edit(name, "def old_name(value):", "def new_name(value):")) for name in modules]
    return (
        Task("write 40 pages", MANY, {}, tuple((Write(*each),) for each in made.items()), made),
        Task("index 30 notes", MANY, there, tuple(looked), {"index.txt": index}),
        Task(
            "change 30 settings",
            MANY,
            configs,
            tuple(raised),
            {k: v.replace("low", "high") for k, v in configs.items()},
        ),
        Task(
            "rename in 25 modules",
            MANY,
            modules,
            tuple(renamed),
            {k: v.replace("old_name", "new_name") for k, v in modules.items()},
        ),
    )


def _small() -> tuple[Task, ...]:
    counted = [(Shell(f"echo {n} >> numbers; tail -1 numbers"),) for n in range(60)]
    words = {f"words/{n}.txt": f"word{n}\n" * (n + 1) for n in range(50)}
    looked = [(Shell(f"wc -l < words/{n}.txt | tee -a counts"),) for n in range(50)]
    tried = [
        (Write(f"try/{n}.sh", f"echo {n} squared is $(({n} * {n}))\n"), Shell(f"bash try/{n}.sh | tee -a squares"))
        for n in range(30)
    ]
    listed = [(Shell(f"mkdir -p tree/{n} && echo leaf {n} > tree/{n}/leaf && ls tree | wc -l"),) for n in range(40)]
    return (
        Task("append and look", SMALL, {}, tuple(counted), {"numbers": _lines(map(str, range(60)))}),
        Task("count words", SMALL, words, tuple(looked), {"counts": _lines(str(n + 1) for n in range(50))}),
        Task(
            "write and run", SMALL, {}, tuple(tried), {"squares": _lines(f"{n} squared is {n * n}" for n in range(30))}
        ),
        Task("grow a tree", SMALL, {}, tuple(listed), {f"tree/{n}/leaf": f"leaf {n}\n" for n in range(40)}),
    )


def _lines(texts: object) -> str:
    return "".join(f"{text}\n" for text in texts)  # type: ignore[attr-defined]


def _log(n: int, lines: int) -> str:
    levels = ("INFO", "DEBUG", "ERROR", "INFO", "WARNING", "INFO", "INFO")
    return _lines(
        f"2026-11-22T10:{n:02}:00Z {levels[at * (n + 3) % 7]} request {at} took {at * 37 % 900} ms"
        for at in range(lines)
    )


def _page(n: int) -> str:
    return f"# Page {n}\n\n" + _lines(
        f"Line {at} of page {n} says what there is to say about it." for at in range(20 + n)
    )


def _module(n: int) -> str:
    return f'"""Module {n}."""\n\n\ndef old_name(value):\n    return value + {n}\n' + _lines(
        f"CONSTANT_{at} = {at * n}" for at in range(60)
    )
