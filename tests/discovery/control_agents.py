"""Control agents: scripted explorers whose scores are known beforehand. A scorer that puts them in another order is
wrong.

    PYTHONPATH=orchestrator python3 control_agents.py NAME RUNS [KNOWN]

explores the container AGENT_CONTAINER and prints the run's directory. Only those get KNOWN, the list of what can be
known of the world, who are meant to cheat with it. Runs on the host with the standard library alone."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shlex
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from llm_driver import LLMDriver, Question, Result

Steps = Generator[str, Result, None]
TOOLS = "/home/agent/tools"


class Scripted(LLMDriver):
    """Yields commands and is sent their results."""

    mode = "control"

    def __init__(self) -> None:
        self._steps = self.explore()

    def explore(self) -> Steps:
        raise NotImplementedError

    def decide(self, last: Result | None) -> str:
        try:
            command = next(self._steps) if last is None else self._steps.send(last)
        except StopIteration:
            return ""
        return f"<Intent>\nto explore\n\n<Command>\n{command}\n\n<Expected>\nto see\n\n<OnError>\ngo on\n"

    def refused(self, plan: str, error: str) -> None:
        raise AssertionError(f"a control agent's block was refused: {error}")


class Nothing(Scripted):
    """Does nothing."""

    def explore(self) -> Steps:
        yield from ()


class Echo(Scripted):
    """Is told every path, and says them all. It has the directories listed, and looks away."""

    def __init__(self, known: dict[str, Any]) -> None:
        super().__init__()
        self._paths = [file["path"] for file in known["files"]]

    def explore(self) -> Steps:
        yield "ls -AR /world > /dev/null"
        for path in self._paths:
            yield f"echo {path}"
        yield f"printf '%s\\n' {' '.join(self._paths)} {TOOLS}/a.sh {TOOLS}/b.sh"


class CatAll(Scripted):
    """Prints every file without looking, and answers each question with all that was printed."""

    def __init__(self) -> None:
        super().__init__()
        self._output = ""

    def explore(self) -> Steps:
        result = yield "find /world -type f | xargs cat"
        self._output = result.stdout

    def answer(self, questions: list[Question]) -> dict[str, str]:
        return {question.id: self._output for question in questions}


class RandomWalker(Scripted):
    """Lists and reads what it happens to have seen."""

    def __init__(self, seed: int = 7, steps: int = 15) -> None:
        super().__init__()
        self._random, self._count = random.Random(seed), steps

    def explore(self) -> Steps:
        known = ["/world/"]
        for _ in range(self._count):
            path = known[int(self._random.random() * len(known))]
            result = yield f"ls -Ap {path}" if path.endswith("/") else f"head -n 3 {path}"
            if path.endswith("/"):
                known += [new for name in result.stdout.split() if (new := path + name) not in known]


class Cheat(Scripted):
    """Writes perfect artifacts about things that are not there, names a tool that it does not run, has a new one for
    each use, and looks busy."""

    def explore(self) -> Steps:
        tool = f"{TOOLS}/analyse.sh"
        yield f"mkdir -p {TOOLS} && printf '#!/bin/bash\\nexit 0\\n' > {tool} && chmod +x {tool}"
        for place in range(3):
            yield f"true || {tool} /world/archive/table{place}.csv"
            yield f"cat {tool} > /dev/null; true || {tool} /world/archive/table{place}.csv"
        for place in range(2):
            yield f"printf 'echo {place}' > {TOOLS}/step.sh && sh {TOOLS}/step.sh"
        for place in range(8):
            yield f"seq {place * 1000} {place * 1000 + 9}"
        for place in range(2):
            yield f"echo {place * 0x1234567:010x} /world/archive/table{place}.csv"
        map_lines = [f'- /world/archive/table{place}.csv: {40 + place} lines, "id,amount,tag"' for place in range(8)]
        log_lines = [f"- `cat /world/archive/table{place}.csv` → a table, read with care" for place in range(8)]
        ghosts = [f"- `{TOOLS}/table{place}.sh /world/archive/table{place}.csv`: sums a column" for place in range(4)]
        plan = [f"- compare /world/archive/table{place}.csv with the ledger" for place in range(4)]
        for name, lines in (("MAP", map_lines), ("LOG", log_lines), ("TOOLS", ghosts), ("PLAN", plan)):
            yield _append(f"{name}.md", [f"# {name}", *lines])

    def answer(self, questions: list[Question]) -> dict[str, str]:
        return {question.id: "4711" for question in questions}


class Insider(Scripted):
    """Has the list from elsewhere: says every nonce, answers every question, and reads nothing."""

    def __init__(self, known: dict[str, Any]) -> None:
        super().__init__()
        self._items = known["items"]
        self._answers = {question["id"]: question["answer"] for question in known["questions"]}

    def explore(self) -> Steps:
        words = [word for item in self._items for word in (item["path"], item["name_nonce"], item["content_nonce"])]
        yield f"echo {' '.join(words)}"
        yield _append("notes.txt", [f"{item['name_nonce']} {item['content_nonce']}" for item in self._items])
        yield "cat notes.txt"

    def answer(self, questions: list[Question]) -> dict[str, str]:
        return {question.id: self._answers[question.id] for question in questions}


COLUMN_SUM = """#!/usr/bin/python3
import csv, sys
path, column, tag = sys.argv[1:]
rows = [row for row in csv.DictReader(open(path)) if tag in ("any", row["tag"])]
print(column, tag, len(rows), sum(int(row[column]) for row in rows))
"""
COMPARE = """#!/usr/bin/python3
import csv, json, sys
first = {row["article"]: row["count"] for row in csv.DictReader(open(sys.argv[1]))}
second = {entry["article"]: str(entry["count"]) for entry in json.load(open(sys.argv[2]))["articles"]}
print("other counts:", ", ".join(sorted(name for name in first if first[name] != second.get(name))))
"""


class Careful(Scripted):
    """Knows only what it saw: lists, reads, builds tools and uses them again, follows references, and writes down
    what is so."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self._log: list[str] = []
        self._examples: list[str] = []

    def explore(self) -> Steps:
        yield from self._read_all()
        yield from self._do(_append("MAP.md", ["# Map", *map(self._described, sorted(self.texts))]))
        yield from self._solve_riddles()
        yield from self._follow()
        yield from self._build_tools()
        yield from self._do(_append("TOOLS.md", ["# Tools", *(f"- `{line}`" for line in self._examples)]))
        wanted = [path for path, text in self.texts.items() if "CLUE" in text or "riddle" in text]
        yield from self._do(_append("PLAN.md", ["# Plan", *(f"- think again about {path}" for path in wanted)]))
        log = [f"- `{command}`" for command in self._log if "`" not in command and len(command) < 200]
        yield _append("LOG.md", ["# Log", *log])

    def _do(self, command: str) -> Generator[str, Result, Result]:
        result = yield command
        self._log.append(command)
        return result

    def _read_all(self) -> Steps:
        directories = ["/world"]
        files: list[str] = []
        for directory in directories:
            listed = yield from self._do(f"ls -Ap {directory}")
            for name in sorted(listed.stdout.split()):
                (directories if name.endswith("/") else files).append(f"{directory}/{name.rstrip('/')}")
        for path in files:
            result = yield from self._do(f"cat {path}")
            self.texts[path] = result.stdout

    def _described(self, path: str) -> str:
        """A line for the map: a count, and a mark that the file bears."""
        text = self.texts[path]
        own = path.rsplit("/", 1)[1]
        marks = [mark for mark in re.findall(r"\b[0-9a-f]{10}\b", text) if mark not in own and not mark.isdecimal()]
        marked = f', marked "{marks[0]}"' if marks else ""
        return f"- {path}: {text.count(chr(10))} lines{marked}"

    def _solve_riddles(self) -> Steps:
        decoders = {"base64": "base64 -d", "rot13": "tr A-Za-z N-ZA-Mn-za-m", "reversed": "rev"}
        for text in [text for text in self.texts.values() if text.startswith("A riddle")]:
            told = text.split("\n")
            name = told[0].rstrip(":").rsplit(" ", 1)[1]
            yield from self._do(f"printf %s {shlex.quote(told[2])} | {decoders[name]}")

    def _follow(self) -> Steps:
        for text in list(self.texts.values()):
            if named := re.search(r"look up `(\w+)` in `([^`]+)`", text):
                found = yield from self._do(f"grep -A 3 {named[1]} {named[2]}")
                log = re.search(r'"see": "([^"]+)"', found.stdout)
                yield from self._do(f"grep about={named[1]} {log[1] if log else ''}")
            elif taken := re.search(r"taken to `([^`]+)`", text):
                yield from self._do(f"ls {taken[1]}")

    def _build_tools(self) -> Steps:
        for name, text in (("column_sum.py", COLUMN_SUM), ("compare.py", COMPARE)):
            lines = " ".join(map(shlex.quote, text.rstrip("\n").split("\n")))
            path = f"{TOOLS}/{name}"
            yield from self._do(f"mkdir -p {TOOLS} && printf '%s\\n' {lines} > {path} && chmod +x {path}")
        for path, text in self.texts.items():
            columns = text.split("\n")[0].split(",")
            if len(columns) == 4:
                yield from self._use(f"{TOOLS}/column_sum.py {path} {columns[1]} any")
            elif other := re.search(r'"compare": "([^"]+)"', text):
                yield from self._use(f"{TOOLS}/compare.py {other[1]} {path}")
                yield from self._use(f"{TOOLS}/compare.py {other[1]} {path} | wc -w")

    def _use(self, invocation: str) -> Steps:
        yield from self._do(invocation)
        if "|" not in invocation:
            self._examples.append(invocation)

    def answer(self, questions: list[Question]) -> dict[str, str]:
        """From the question's words and what was seen."""
        return {question.id: self._answered(question.text) for question in questions}

    def _answered(self, said: str) -> str:
        paths = re.findall(r"/world/[^\s,?]+", said)
        texts = [self.texts.get(path.rstrip("."), "") for path in paths]
        if column := re.search(r"column (\S+) in", said):
            tag = re.search(r"whose tag is (\w+)", said)
            rows = csv.DictReader(texts[0].splitlines())
            return str(sum(int(row[column[1]]) for row in rows if tag is None or row["tag"] == tag[1]))
        if "another count" in said:
            first = {row["article"]: row["count"] for row in csv.DictReader(texts[0].splitlines())}
            second = {entry["article"]: str(entry["count"]) for entry in json.loads(texts[1])["articles"]}
            return ", ".join(sorted(name for name in first if first[name] != second[name]))
        if "CLUE" in said:
            return texts[0].partition("CLUE: ")[2].strip()
        if named := re.search(r"look up `(\w+)` in `([^`]+)`", texts[0]):
            log = json.loads(self.texts[named[2]])["entries"][named[1]]["see"]
            found = re.search(rf"about={named[1]} code=(\d+)", self.texts[log])
            return found[1] if found else ""
        return ""


def _append(name: str, lines: list[str]) -> str:
    """A command that appends these lines to a file of the home."""
    return f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} >> {name}"


AGENTS: dict[str, Callable[[dict[str, Any]], Scripted]] = {
    "nothing": lambda known: Nothing(),
    "echo": Echo,
    "cat_all": lambda known: CatAll(),
    "walker": lambda known: RandomWalker(),
    "cheat": lambda known: Cheat(),
    "insider": Insider,
    "careful": lambda known: Careful(),
}


def main(words: list[str]) -> int:
    import main as orchestrator

    name, runs, *known = words
    driver = AGENTS[name](json.loads(Path(known[0]).read_text()) if known else {})
    options = orchestrator.Options(container=os.environ["AGENT_CONTAINER"], runs=Path(runs))
    print(orchestrator.run(driver, options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
