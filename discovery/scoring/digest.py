"""Reduces the events of a run, one by one, to what its figures are made of: outputs are looked at once and not kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from command_words import leaves_to_chance
from run_values import HOME, TOOLS, WORLD, Command

MOST_LINES = 1_000_000
"""Different lines that are remembered; beyond them no line counts as new, and figures can only be too low."""
KEPT_CHARS = 65_536
"""Of a command. A longer one is cut, and its output is no evidence of anything."""
MOST_PATHS = 1_000_000
_NAME = r"[^\s:;,'\"`<>|&()\[\]{}*?$\\]+"
# The slash stands first, as a search for one character is fast; what stands before it is looked at after.
_PATH = re.compile(rf"/(?<![\w.~/-]/)(?:home/agent|world)/{_NAME}")
_TOOL = re.compile(rf"/(?<![\w.~/-]/)home/agent/tools/{_NAME}")


class Words:
    """Words to look for in many texts. Those of letters and digits are found as whole words and cost nothing each; of
    others, at most `MOST_OTHERS` are looked for."""

    MOST_OTHERS = 64

    def __init__(self, words: Iterable[str]) -> None:
        wanted = {word for word in words if word}
        self._plain = {word.encode(): word for word in wanted if word.isascii() and word.isalnum()}
        self._keys = frozenset(self._plain)
        self._others = sorted(wanted - set(self._plain.values()))[: self.MOST_OTHERS]

    def found_in(self, text: str) -> frozenset[str]:
        found: list[str] = [word for word in self._others if word in text]
        if self._keys:
            words = text.encode(errors="replace").translate(_APART).split()
            found += map(self._plain.__getitem__, self._keys.intersection(words))
        return frozenset(found) if found else _NOTHING


_APART = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))
"""Blanks for all that is neither a letter nor a digit of ASCII."""
_NOTHING: frozenset[str] = frozenset()


class Step(NamedTuple):
    """A command event without its outputs."""

    number: int
    command: str
    exit_code: int | None
    latency_s: float | None
    usd: float | None
    found: frozenset[str]
    """Names that stand in its output for the first time since they could, and not in its command."""
    typed: frozenset[str]
    """Words of contents that stand in its command."""
    new_line: str | None
    """A line of its output that no output had before, and that does not stand in the command."""


@dataclass(frozen=True)
class Digest:
    steps: tuple[Step, ...]
    paths: frozenset[str]
    """Below /world and /home/agent, in any stdout."""
    tools: tuple[str, ...]
    """Below /home/agent/tools, in any command or output, in order."""
    full: bool = False
    """More lines or paths came than are remembered."""


def digest(events: Iterable[Command], names: Mapping[str, int] | None = None, contents: Iterable[str] = ()) -> Digest:
    """In time that grows with the length of the events alone. `names` are looked for in outputs, each from the step on
    that it says; `contents` in commands."""
    lines, since, typed = _Lines(), dict(names or {}), Words(contents)
    wanted = Words(since)
    paths: dict[str, str] = {}
    tools: dict[str, str] = {}
    steps = []
    full = False
    for event in events:
        full = full or max(len(paths), len(tools)) > MOST_PATHS
        if not full:
            _collect(event, paths, tools)
        output = f"{event.stdout}\n{event.stderr}" if event.stderr else event.stdout
        new_line = lines.first_new(output, event.command)
        found: frozenset[str] = frozenset()
        if len(event.command) > KEPT_CHARS:
            new_line = None
        elif since and (shown := wanted.found_in(output)):
            due = [word for word in shown if since.get(word, event.number + 1) <= event.number]
            found = frozenset(due) - wanted.found_in(event.command)
            for word in found:
                del since[word]
        command = event.command[:KEPT_CHARS]
        steps.append(
            Step(
                event.number,
                command,
                event.exit_code,
                event.latency_s,
                event.usd,
                found,
                typed.found_in(command),
                None if new_line is None or leaves_to_chance(command) else new_line,
            )
        )
    of_tools = dict.fromkeys(path for path in tools.values() if path)
    return Digest(tuple(steps), frozenset(filter(None, paths.values())), tuple(of_tools), full or lines.full)


def _collect(event: Command, paths: dict[str, str], tools: dict[str, str]) -> None:
    """Each path as it stands there, with what is left of it: most come again and again."""
    if "/world/" in event.stdout or "/home/agent/" in event.stdout:
        new = set(_PATH.findall(event.stdout)).difference(paths)
        paths.update(zip(new, map(_end, new), strict=True))
    for text in (event.command, event.stdout, event.stderr):
        if "/home/agent/tools/" in text:
            found = [path for path in _TOOL.findall(text) if path not in tools]
            tools.update(zip(found, map(_end, found), strict=True))


def _end(path: str) -> str:
    """A path without the point or the slash that it ends with in a text; "" when nothing of it is left."""
    cut = path.rstrip("./!")
    return "" if cut in (HOME, TOOLS, WORLD) else cut


_EMPTY = hash("")


class _Lines:
    """The lines of all outputs so far."""

    TRIES = 200
    """How many lines of an output are looked for in its command."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.full = False

    def first_new(self, output: str, command: str) -> str | None:
        """The first line that is new and does not stand in the command; all lines are old from now on."""
        hashes = set(map(hash, map(str.strip, output.split("\n"))))
        hashes.discard(_EMPTY)
        found = None
        if not self.full and not hashes <= self._seen:
            tries = 0
            for each in output.split("\n"):
                line = each.strip()
                if line and hash(line) not in self._seen:
                    tries += 1
                    if line not in command:
                        found = line[:200]
                    if found or tries > self.TRIES:
                        break
        if len(self._seen) + len(hashes) > MOST_LINES:
            self.full = True
        else:
            self._seen |= hashes
        return found
