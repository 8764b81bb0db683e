"""How things look on the PM's screen: text that others wrote made harmless, durations for people, colour where
it is wanted, and values as JSON. Pure but for `Screen`, which writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple, TextIO

from infra.shared.text import counted as counted
from infra.shared.text import cut
from infra.shared.visible import spelled, spelled_name

Say = Callable[[str], None]
"""Takes a line of progress."""
LINE_CHARS = 4000
"""Of a line of somebody else's text. A longer one is not text for people, and pushes what stands around it away."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z")
_OURS = re.compile(r"(\x1b\[(?:0|1|2|31|32|36)m)")
_COMMAND = re.compile(r"(?<=['`])minifram [a-z]+(?![^'`\n]* --agent)")


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


def with_agent(text: str, option: str) -> str:
    """`text` with `option` (` --agent NAME`) in each quoted command of ours that names no agent: pasted, it is for
    the agent that the text is about."""
    return _COMMAND.sub(lambda found: found[0] + option, text) if option else text


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


def one_name(name: str, width: int = 100) -> str:
    """A name on one line, with nothing in it that identifiers do not hold, cut to `width`."""
    return one_line(spelled_name(_COLOUR.sub("", name.strip())), width)


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
    try:
        return datetime.fromisoformat(moment).timestamp() if _MOMENT.fullmatch(moment) else None
    except ValueError:
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
        # git keeps bytes that are no UTF-8 as lone surrogates, which no JSON reader takes
        try:
            return value.encode(errors="surrogateescape").decode(errors="replace")
        except UnicodeEncodeError:  # JSON of others' may hold any surrogate
            return value.encode(errors="surrogatepass").decode(errors="replace")
    return value


def as_json(schema: str, value: Any) -> str:
    """One line of JSON: `{"schema": "minifram.<schema>/1", …}`."""
    fields = plain(value)
    former = {old: fields[new] for new, old in _FORMER.items() if new in fields}
    return json.dumps({"schema": f"minifram.{schema}/1"} | fields | former)


_FORMER = {"level": "rung", "status": "standing"}
"""What the version before calls a key of a result: said beside it."""


class Verbatim(str):
    """A line that somebody else wrote: no command in it is ours."""


class Screen(NamedTuple):
    """Results go to `out`, progress and advice to `err`; neither lets through what could steer a terminal.

    Text that others wrote is made harmless where it is put together; this is the net under that. Commands in our own
    text stand in quotes and without `--agent`: here they get it."""

    out: TextIO
    err: TextIO
    colour: bool
    schema: str = ""
    """Of the JSON that was asked for; empty when the result is for people."""
    option: str = ""
    """What names the agent on a command line (`context.as_option`)."""

    def show(self, value: Any, lines: str | Iterable[str], schema: str = "", verbatim: bool = False) -> None:
        """The result: `value` as JSON where that was asked for, else the lines, which are not made before. Lines that
        others wrote are `verbatim`."""
        if self.schema:
            self._print(as_json(schema or self.schema, value), self.out)
            return
        for line in [lines] if isinstance(lines, str) else lines:
            is_ours = not verbatim and not isinstance(line, Verbatim)
            self._print(with_agent(line, self.option) if is_ours else line, self.out)

    def fail(self, code: int, text: str) -> None:
        """Why the command ends: for people, and where JSON was asked for as that too."""
        text = with_agent(text, self.option)
        if self.schema:
            self._print(as_json("error", {"code": code, "error": text}), self.out)
        self._print(f"minifram: {text}", self.err)

    def advise(self, text: str) -> None:
        """What a person may want to do next; a program that reads JSON does not."""
        if not self.schema:
            self.progress(text)

    def progress(self, text: str) -> None:
        self._print(with_agent(text, self.option), self.err)

    def _print(self, text: str, stream: TextIO) -> None:
        print(harmless_but_for_colours(text) if self.colour else harmless(text), file=stream, flush=True)

    def strong(self, text: str) -> str:
        return self._painted("1", text)

    def good(self, text: str) -> str:
        return self._painted("32", text)

    def bad(self, text: str) -> str:
        return self._painted("31", text)

    def faint(self, text: str) -> str:
        return self._painted("2", text)

    def mark(self, text: str) -> str:
        return self._painted("36", text)

    def _painted(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text
