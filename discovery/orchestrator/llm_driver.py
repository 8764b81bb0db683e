"""Who explores: a person by standard input, or a model.

Extension point: another driver is a subclass of `LLMDriver`, given to `main.run`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TextIO

import blocks
import lines

SHOWN_BLOCK = f"Pre-exec block. {{end}}\n\n{blocks.FORM}\n"
SHOWN_NOTE = "Post-exec block: <Observation>, <Inference>, <Next>. {skip}"
_PLACE = {name: place for place, name in enumerate((*blocks.PRE, *blocks.POST))}


@dataclass(frozen=True)
class Result:
    """What became of a command."""

    step: int
    """From 1."""
    command: str
    stdout: str
    stderr: str
    exit_code: int
    """124 when the time limit ended it, 130 when the run was interrupted."""
    latency_s: float
    timed_out: bool = False
    stdout_bytes: int = 0
    """How many there were; `stdout` holds the first and the last half of the bound."""
    stderr_bytes: int = 0
    restarted: bool = False
    """The container had to be started again."""


class Question(NamedTuple):
    """Asked after the run."""

    id: str
    text: str


class ModeError(Exception):
    """LLM_MODE cannot be used as it is: why, and what to set."""


class LLMDriver:
    """A stub that ends the run at once, and the interface of all drivers."""

    mode = "none"
    model: str | None = None
    ended_by = ""
    """Why `decide` gave nothing."""
    usd: float | None = None
    """Spent so far in the run; None when it costs nothing. `tokens` the same."""
    tokens: int | None = None

    def decide(self, last: Result | None) -> str:
        """The next pre-exec block; empty ends the run. `last` is the last command's result. Raises BlockError."""
        return ""

    def refused(self, plan: str, error: str) -> None:
        """The block that `decide` gave was not carried out, for this reason; `decide` is asked again."""

    def note(self, result: Result) -> str:
        """The post-exec block for an executed command, or empty."""
        return ""

    def answer(self, questions: list[Question]) -> dict[str, str]:
        """Answers by the id of their question; a question without one is left out."""
        return {}


class ManualDriver(LLMDriver):
    """A person at a terminal, or whatever writes to the pipe.

    A pre-exec block ends with the blank line after the text of <OnError>, with a line that holds only '.', with the
    first line of a block of the other kind, or with the end of input; a post-exec block the same after <Next>."""

    mode = "manual"

    def __init__(self, descriptor: int | None = None, out: TextIO | None = None) -> None:
        self._lines = lines.Lines(sys.stdin.fileno() if descriptor is None else descriptor)
        self._out = out or sys.stdout
        self._explained = self._was_cut = False

    def decide(self, last: Result | None) -> str:
        if not self._explained:
            self._say(SHOWN_BLOCK.format(end=self._hint("<OnError>", "An empty block ends the run.")))
            self._explained = True
        self._ask("block> ")
        block = self._block(blocks.PRE, "onerror")
        if self._was_cut:
            raise blocks.BlockError(
                f"a line of {lines.TERMINAL_BYTES:,} bytes or more is cut by the terminal. Give long commands through "
                f"a pipe: python3 main.py < FILE\nThe right form:\n\n{blocks.FORM}"
            )
        self.ended_by = "end of input" if self._lines.ended else "empty input"
        return block or ""

    def refused(self, plan: str, error: str) -> None:
        self._say(f"refused: {error}\n")

    def note(self, result: Result) -> str:
        self._say(_shown(result))
        if self._lines.is_terminal:
            self._say(SHOWN_NOTE.format(skip=self._hint("<Next>", "It is optional: an empty line skips it.")))
        self._ask("note> ")
        return self._block(blocks.POST, "next") or ""

    def answer(self, questions: list[Question]) -> dict[str, str]:
        self._say(f"{len(questions)} questions about the world, each answered by one line; an empty line skips one.\n")
        answers: dict[str, str] = {}
        for number, question in enumerate(questions, 1):
            self._say(f"{number}. {question.text}")
            self._ask("answer> ")
            line = self._lines.next()
            if line is None:
                break
            if line.strip():
                answers[question.id] = line.strip()
        return answers

    def _block(self, kind: tuple[str, ...], last_section: str) -> str | None:
        """The lines of a block; None when there is none."""
        reading = _Reading(kind, last_section)
        self._was_cut = False
        while not reading.is_done:
            line = self._lines.next()
            if line is None:
                break
            if self._lines.is_terminal and len(line.encode()) >= lines.TERMINAL_BYTES:
                self._was_cut = True
            if not reading.lines and not line.strip():
                if self._lines.is_terminal and not self._lines.waiting():
                    return None
                continue  # blank lines between blocks
            if reading.is_of_another(line):
                self._lines.push(line)
                break
            reading.take(line)
        if self._lines.is_terminal:
            self._drain_blank()
        return reading.text or None

    def _drain_blank(self) -> None:
        """Blank lines at the end of what was pasted belong to it: they are no answer to the next prompt."""
        while self._lines.waiting():
            line = self._lines.next()
            if line is None:
                return
            if line.strip():
                self._lines.push(line)
                return

    def _hint(self, section: str, more: str) -> str:
        return f"It ends with an empty line after {section}, or with a line that holds only '.'. {more}"

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def _ask(self, prompt: str) -> None:
        if self._lines.is_terminal:
            print(prompt, end="", file=self._out, flush=True)


class _Reading:
    """A block while it is read."""

    def __init__(self, kind: tuple[str, ...], last_section: str) -> None:
        self.kind = kind
        self.last_section = last_section
        self.lines: list[str] = []
        self.is_done = False
        self._size = 0
        self._seen: set[str] = set()
        self._section = ""
        self._filled = False  # the section has text

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")

    def is_of_another(self, line: str) -> bool:
        """Whether a block that follows begins with this line."""
        tag = blocks.tag(line)
        if not tag or tag.closes:
            return False
        if tag.name not in self.kind:
            # A block of the other kind alone is read whole: the parser says what was expected.
            return self.kind is blocks.POST or "command" in self._seen
        return tag.name == self.kind[0] and self.last_section in self._seen

    def take(self, line: str) -> None:
        if line.strip() == ".":
            self.is_done = True
            return
        self._size += len(line) + 1
        if self._size <= blocks.BLOCK_CHARACTERS + len(line) + 1:  # one line over the bound, so that it is refused
            self.lines.append(line)
        tag = blocks.tag(line)
        if tag:
            self._section, self._filled = ("" if tag.closes else tag.name), bool(tag.rest.strip())
            self._seen.add(tag.name)
            last = self.last_section if self.kind is blocks.POST or not self._is_post() else "next"
            self.is_done = tag.closes and tag.name == last
        elif line.strip():
            self._filled = self._filled or not blocks.is_fence(line)
        elif not self._seen:
            self.is_done = True  # no block at all
        else:
            last = "next" if self._is_post() else self.last_section
            self.is_done = self._filled and self._section == last

    def _is_post(self) -> bool:
        return bool(self._seen) and self._seen <= set(blocks.POST)


def _shown(result: Result) -> str:
    """A result for a terminal: control characters of the container become pictures of them."""
    parts = []
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        if text:
            parts.append(f"--- {name}\n{visible(text)}")
    how = "ended at the time limit, " if result.timed_out else ""
    again = "; the container was started again" if result.restarted else ""
    parts.append(f"--- step {result.step}: {how}exit code {result.exit_code}, {result.latency_s:.3f} s{again}")
    return "\n".join(part.removesuffix("\n") for part in parts) + "\n"


_PICTURES = {code: chr(0x2400 + code) for code in range(32) if code not in (9, 10)} | {127: "\u2421"}
_PICTURES |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
_PICTURES |= dict.fromkeys([0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")  # order


def visible(text: str) -> str:
    """`text` without what would steer a terminal."""
    return text.translate(_PICTURES)


def _manual(prompt: str, environ: Mapping[str, str]) -> LLMDriver:
    return ManualDriver()


def _minifram(prompt: str, environ: Mapping[str, str]) -> LLMDriver:
    module = importlib.import_module("minifram_driver")  # only this mode needs it
    try:
        driver: LLMDriver = module.MiniframDriver(prompt, module.settings_from(environ))
        driver.open()  # type: ignore[attr-defined]
    except (ValueError, module.DoorFailure) as error:
        raise ModeError(str(error)) from None
    return driver


MODES: dict[str, Callable[[str, Mapping[str, str]], LLMDriver]] = {"manual": _manual, "minifram": _minifram}
"""By the value of LLM_MODE: makes the driver from the prompt and the environment. Extension point: a further mode."""
