"""What the agent's artifacts claim, and whether it is so.

A claim is something of which one can look up whether it is true: a path of the world, a count or a quotation beside
one, a command of the run, a tool and an example of its use. The same claim made twice is one. What costs no knowledge
is no claim: the paths that the prompt names, files that the agent made itself (only that they are missing is held
against it), and lines that deny that something is there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from command_words import invocations
from digest import Digest
from run_values import ARTIFACTS, HOME, TOOLS, WORLD, Home, Known

MOST_CLAIMS, MOST_LINES, LINE_CHARS = 2000, 20_000, 4000
"""Of one artifact; the rest is not read."""
_PATH = re.compile(
    r"(?<![\w.~/-])/(?:world|home/agent)(?:/[^\s`'\"\u201c\u201d\u2018\u2019<>|()\[\]{}*?$\\,;:!/]+)*/?(?![\w-])"
)
_PATTERN_CHARS = frozenset("*?${<[\\")
_GIVEN = frozenset([WORLD, HOME, TOOLS, *(f"{HOME}/{name}" for name in ARTIFACTS)])
_COUNT = re.compile(
    r"(?<![\w.,-])(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})[ \t]+(?:data[ \t]+)?(lines?|rows?|records?|bytes?)\b"
)
_QUOTED = re.compile(r"\"([^\"\n]{4,300})\"|\u201c([^\u201d\n]{4,300})\u201d")
_CODE = re.compile(r"`([^`\n]{1,2000})`")
_DENIAL = re.compile(
    r"\b(?:no such|not exist|n[o']t exist|missing|not found|not there|absent|no file|nothing|gone|dead end"
    r"|leads nowhere)\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"[A-Z_]{2,}|\[.*\]|\.{3}|\u2026")
"""In a usage, which is no example."""
_TOOL_WORD = re.compile(r"(?<![\w.-])(?:/home/agent/|~/)?tools/[\w.+-]+(?:/[\w.+-]+)*")


@dataclass(frozen=True)
class Claim:
    text: str
    true: bool


@dataclass(frozen=True)
class World:
    """What claims about the world are held against. `texts` are the contents, where they can be had."""

    known: Known
    directories: frozenset[str]
    texts: Mapping[str, bytes] | None


def world_of(known: Known, texts: Mapping[str, bytes] | None) -> World:
    directories = {WORLD}
    for path in known.files:
        above = posixpath.dirname(path)
        while above.startswith(f"{WORLD}/") and above not in directories:
            directories.add(above)
            above = posixpath.dirname(above)
    return World(known, frozenset(directories), texts)


def claims_of(
    name: str, home: Home, world: World, run: Digest, proven: Iterable[tuple[str, tuple[str, ...]]] | None
) -> tuple[Claim, ...]:
    """Of the artifact of this name; none when it is not there or no regular file. `proven` are the tools, with their
    arguments, that ran and ended with 0; None where nobody saw that."""
    file = home.files.get(f"{HOME}/{name}")
    if file is None or file.content is None:
        return ()
    lines = [line[:LINE_CHARS] for line in file.content.decode(errors="replace").split("\n")[:MOST_LINES]]
    found: dict[str, bool] = {}
    for text, true in _TAKERS[name](lines, home, world, run, None if proven is None else frozenset(proven)):
        if len(found) >= MOST_CLAIMS and text not in found:
            break
        found.setdefault(text, true)
    return tuple(Claim(text, true) for text, true in found.items())


Found = Iterator[tuple[str, bool]]
Proven = frozenset[tuple[str, tuple[str, ...]]] | None


def _map(lines: list[str], home: Home, world: World, run: Digest, proven: Proven) -> Found:
    yield from _of_the_world(lines, world)
    for line in lines:
        for path in _paths(line, HOME):
            if path not in home.files and path not in home.others:
                yield f"{path} exists", False


def _plan(lines: list[str], home: Home, world: World, run: Digest, proven: Proven) -> Found:
    """Files of the home are plans here."""
    yield from _of_the_world(lines, world)


def _log(lines: list[str], home: Home, world: World, run: Digest, proven: Proven) -> Found:
    commands = {_plain(step.command) for step in run.steps}
    said = []
    fenced = False
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            if line.lstrip().startswith("$ "):
                command = _plain(line.lstrip()[2:])
                yield f"`{command}` was run", command in commands
        else:
            said.append(_CODE.sub(" ", line))
            for text in _CODE.findall(line):
                command = _plain(text)
                if " " in command or command in commands:
                    yield f"`{command}` was run", command in commands
    yield from _of_the_world(said, world)


def _tools(lines: list[str], home: Home, world: World, run: Digest, proven: Proven) -> Found:
    fenced = False
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if _DENIAL.search(line):
            continue
        for word in _TOOL_WORD.findall(line):
            path = f"{TOOLS}/{word.partition('tools/')[2].rstrip('.')}"
            file = home.files.get(path)
            yield f"{path} exists", file is not None and file.size > 0
        code = [line.strip().removeprefix("$ ")] if fenced or line.lstrip().startswith("$ ") else _CODE.findall(line)
        for example in code if proven is not None else ():
            for each in invocations(example):
                if each.words and not any(_PLACEHOLDER.fullmatch(word) for word in each.words):
                    yield f"`{_plain(example)}` works", (each.path, each.words) in (proven or ())


def _of_the_world(lines: list[str], world: World) -> Found:
    """Paths, and counts and quotations beside them. Of two counts of one thing that differ, neither is true."""
    counts: dict[tuple[str, str], set[int]] = {}
    for line in lines:
        if "/world" not in line or _DENIAL.search(line):
            continue
        places = [(at, path) for at, path in _places(line, WORLD)]
        for _, path in places:
            if path not in _GIVEN:
                yield f"{path} exists", path in world.known.files or path in world.directories
        if not places:
            continue
        for match in _COUNT.finditer(line):
            path, number = _beside(places, match.start()), int(match[1].replace(",", ""))
            if path in world.known.files:
                counts.setdefault((path, match[2].rstrip("s")), set()).add(number)
        for match in _QUOTED.finditer(line) if world.texts is not None else ():
            path, quoted = _beside(places, match.start()), match[1] or match[2]
            content = (world.texts or {}).get(path)
            if content is not None and not quoted.startswith("/"):
                yield f'{path} has "{quoted}"', quoted.encode(errors="replace") in content
    for (path, unit), numbers in counts.items():
        for number in sorted(numbers):
            yield f"{path} has {number} {unit}s", len(numbers) == 1 and _counted(world, path, unit, number)


def _counted(world: World, path: str, unit: str, number: int) -> bool:
    file = world.known.files[path]
    if unit == "byte":
        return number == file.bytes
    # The rows of a table may be counted with its head or without.
    return number == file.lines or (unit in ("row", "record") and number == file.lines - 1)


def _beside(places: list[tuple[int, str]], at: int) -> str:
    """The path that stands last before, else the first after."""
    before = [path for place, path in places if place < at]
    return before[-1] if before else places[0][1]


def _paths(line: str, below: str) -> list[str]:
    return [] if _DENIAL.search(line) else [path for _, path in _places(line, below) if path not in _GIVEN]


def _places(line: str, below: str) -> Iterator[tuple[int, str]]:
    for match in _PATH.finditer(line):
        path = match[0].rstrip("./")
        pattern = line[match.end() : match.end() + 1] in _PATTERN_CHARS and match.end() < len(line)
        if not pattern and (path == below or path.startswith(f"{below}/")):
            yield match.start(), path


def _plain(text: str) -> str:
    return " ".join(text.split())


_TAKERS = {"MAP.md": _map, "LOG.md": _log, "TOOLS.md": _tools, "PLAN.md": _plan}
