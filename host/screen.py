"""How things look on the PM's screen: text that others wrote made harmless, durations for people, colour where
it is wanted, and values as JSON. Pure but for `Screen`, which writes."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TextIO

from infra.shared.exit_codes import Exit
from infra.shared.text import counted as counted
from infra.shared.text import cut, spelled

Say = Callable[[str], None]
"""Takes a line of progress."""
LINE_CHARS = 4000
"""Of a line of somebody else's text. A longer one is not text for people, and pushes what stands around it away."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SURROGATE = re.compile("[\ud800-\udfff]")
_OURS = re.compile(r"(\x1b\[(?:0|1|2|31|32|36)m)")


def harmless(text: str) -> str:
    """`text` with every character that could steer a terminal, show nothing, or hide or reorder what it shows, spelled
    out; colours are dropped.

    So no character is there that is not shown. Which of two that look alike is there, such as a Latin and a Cyrillic
    letter or two kinds of space, cannot be seen."""
    return spelled(_COLOUR.sub("", text), kept="\t\n")


def harmless_but_for_colours(text: str) -> str:
    """The same for what is printed as it is, with the colours that `Screen` paints left in."""
    parts = _OURS.split(text)
    return "".join(part if place % 2 else spelled(part, kept="\t\n") for place, part in enumerate(parts))


def harmless_lines(text: str) -> list[str]:
    """The lines of `text`, harmless, each cut to what a person reads, and how many characters are missing."""
    return [
        line[:LINE_CHARS] + (f" … (cut: {counted(more, 'more character')})" if more > 0 else "")
        for line in harmless(text).split("\n")
        for more in [len(line) - LINE_CHARS]
    ]


def one_line(text: str, width: int = 100) -> str:
    """The first line of `text`, harmless, cut to `width`."""
    return cut(harmless(text.strip().split("\n", 1)[0]).replace("\t", " "), width)


def duration(seconds: float) -> str:
    """`3 s`, `4 min`, `2 h 5 min`, `3 d 4 h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    large, size, small, part = ("h", 3600, "min", 60) if whole < 86400 else ("d", 86400, "h", 3600)
    rest = whole % size // part
    return f"{whole // size} {large}" + (f" {rest} {small}" if rest else "")


def seconds_of(moment: str) -> float | None:
    """Seconds since the epoch of a time as `clock.timestamp` writes it; None for anything else."""
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(moment).timestamp() if moment.endswith("Z") else None
    return None


def since(moment: str, now: float) -> str:
    """How long ago `moment` was; empty when it is no time."""
    then = seconds_of(moment)
    return "" if then is None else duration(now - then)


def plain(value: Any) -> Any:
    """`value` as JSON knows it: named tuples and structs become objects."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if fields := getattr(value, "__struct_fields__", ()):
        return {key: plain(getattr(value, key)) for key in fields}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        # Bytes that are no UTF-8, as git and JSON of others' may hold, which no JSON reader takes.
        return _SURROGATE.sub("\ufffd", value)
    return value


def as_json(schema: str, value: Any) -> str:
    """One line of JSON: `{"schema": "minifram.<schema>/1", …}`."""
    return json.dumps({"schema": f"minifram.{schema}/1"} | plain(value))


class Shown(NamedTuple):
    """What a command ends with. A command that follows something yields one for each thing that comes."""

    value: Any = {}  # noqa: RUF012 - never written to
    """For --json: a mapping, or what `plain` makes one."""
    lines: str | Iterable[str] = ()
    """For people; not made where JSON was asked for."""
    advice: str = ""
    """What a person may want to do next, on stderr."""
    code: Exit = Exit.OK
    schema: str = ""
    """Of `value`, where it is not named after the command."""


def _painted(code: str, text: str) -> str:
    """Painted; printing takes the colours out where they are not wanted."""
    return f"\x1b[{code}m{text}\x1b[0m"


strong, good, bad = partial(_painted, "1"), partial(_painted, "32"), partial(_painted, "31")
faint, mark = partial(_painted, "2"), partial(_painted, "36")


class Screen(NamedTuple):
    """Results go to `out`, progress and advice to `err`; neither lets through what could steer a terminal.

    Text that others wrote is made harmless where it is put together; this is the net under that."""

    out: TextIO
    err: TextIO
    colour: bool
    schema: str = ""
    """The name of the JSON that was asked for; empty when the result is for people."""

    def print(self, shown: Shown) -> None:
        """The result of a command."""
        if self.schema:
            self._print(as_json(shown.schema or self.schema, shown.value), self.out)
            return
        for line in [shown.lines] if isinstance(shown.lines, str) else shown.lines:
            self._print(line, self.out)
        if shown.advice:
            self._print(shown.advice, self.err)

    def fail(self, code: int, text: str) -> None:
        """Why the command ends: for people, and where JSON was asked for as that too."""
        if self.schema:
            self._print(as_json("error", {"code": code, "error": text}), self.out)
        self._print(f"minifram: {text}", self.err)

    def progress(self, text: str) -> None:
        self._print(text, self.err)

    def _print(self, text: str, stream: TextIO) -> None:
        print(harmless_but_for_colours(text) if self.colour else harmless(text), file=stream, flush=True)
