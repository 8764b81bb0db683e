"""What a command did, as far as its words prove it: which tools it ran, and whether it did more than print."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from run_values import HOME, TOOLS, WORLD
from shell_line import Line, Simple, Unclear, Word
from shell_words import read_line, with_inner


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRINTERS = _names("""echo printf true false : sleep seq yes date cal uuidgen mktemp test [ [[ cd pwd export set unset
    local declare read exit wait clear tput umask shuf""")
"""Programs whose output follows from their words, from the clock or from chance."""
FILTERS = _names("""cat head tail sort uniq tr rev tac base64 base32 md5sum sha1sum sha256sum sha512sum wc cut grep sed
    awk gawk tee xxd od fold fmt nl column paste expand factor bc dc""")
"""After a printer in a pipeline, and without a file, they print what was printed."""
CHANCE = (
    *("$RANDOM", "$SRANDOM", "$EPOCH", "$SECONDS", "$BASHPID", "$$", "${RANDOM", "${SRANDOM", "${EPOCH", "${SECONDS"),
    *("/dev/random", "/dev/urandom", "/proc/uptime", "/proc/sys/kernel/random", "/proc/loadavg"),
)
"""Words that make any line a new one."""
_OPENS_NOTHING = _names("echo printf true false : test [ [[ cd export sleep mkdir chmod date pwd seq")
_OPENS_ITS_WORDS = _names("cat head tail sort uniq wc tr cut rev nl column md5sum sha256sum")
_MEDDLERS = _names("""alias hash enable eval trap set shopt unset declare typeset exec source . builtin command unalias
    complete ln mv mount exit return logout break continue kill""")
"""They can make a word mean something else, or end the line before its end."""
_ELSEWHERE = ("PATH=", "BASH_ENV=", "ENV=", "LD_", "PYTHON", "PERL")
"""What has a program be another, or begin with another."""
_FIRST = re.compile(r"\s*([\w.-]+)(?=[ \t\n]|$)")
_SEVERAL = frozenset(";&|\n()`$#{}!=")
"""Without any of these, a line is one simple command."""
_STARTING = _names("if while until for time then do else")
_SYSTEM = frozenset(["/bin", "/usr/bin", "/usr/local/bin"])
_EXECUTING = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
_SAFE_TARGETS = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr"])
_INTERPRETERS = {
    **dict.fromkeys(("bash", "sh", "dash"), "xeuvl"),
    **dict.fromkeys(("python3", "python", "python3.11", "python3.12", "python3.13"), "uBOEsIqSv"),
    **dict.fromkeys(("perl", "node", "ruby", "source", "."), ""),
}
"""Which options of one letter leave it that the first other word is the program to be run."""
_WRAPPERS = {
    "env": (0, "iv0", "u"),
    "nice": (0, "0123456789", "n"),
    "nohup": (0, "", ""),
    "command": (0, "p", ""),
    "stdbuf": (0, "", "ioe"),
    "timeout": (1, "v", "ks"),
    "xargs": (0, "0rtx", "nILPds"),
}
"""Programs that run the program in their words: how many words of their own stand before it, and which options of one
letter, alone or with a word, leave it so. With any other, such as `env -S` or `command -v`, that cannot be told."""


@dataclass(frozen=True)
class ToolRun:
    """A tool that a command ran."""

    path: str
    words: tuple[str, ...]
    """Its arguments as they are written."""
    invocation: str | None
    """A line of bash that runs it again, wherever the same world is; None when its words alone do not say."""


def tool_runs(command: str, exit_code: int | None) -> tuple[ToolRun, ...]:
    """The tools that the command ran for certain, if the host saw that it opened their files.

    That is so of a tool that was started for certain; and of one that may have been started when nothing else in the
    line can have opened its file."""
    if exit_code != 0:
        return ()
    try:
        line, *inner = with_inner(command)
    except Unclear:
        return ()
    found = list(_found(line))
    running = {place for place, _ in found}
    if any(word in command for word in _ELSEWHERE) or any(
        simple.words and (simple.words[0].value is None or simple.words[0].glob or _program(simple) in _MEDDLERS)
        for place, simple in enumerate(line.simples)
        if place not in running
    ):
        return ()
    started = _started(line)
    alone = (
        len({run.path for _, run in found}) == 1
        and all(_opens_no_tool(simple, place in running) for place, simple in enumerate(line.simples))
        and all(_opens_no_tool(simple, False) for each in inner for simple in each.simples)
    )
    return tuple(run for place, run in found if place in started or alone)


def invocations(text: str) -> tuple[ToolRun, ...]:
    """The tools that a line would run, whether or not it ever was run."""
    try:
        return tuple(run for _, run in _found(read_line(text)))
    except Unclear:
        return ()


def only_prints(command: str) -> bool:
    """Whether all that the command can have said follows from its own words, the clock or chance; also so when that
    cannot be told."""
    first = _FIRST.match(command)
    if first is not None and first[1] not in PRINTERS and first[1] not in _STARTING:
        return False  # as most commands do, told without reading them
    try:
        return all(_line_prints(line) for line in with_inner(command))
    except Unclear:
        return True


def leaves_to_chance(command: str) -> bool:
    return any(word in command for word in CHANCE)


def does_more_than_print(command: str, word: str) -> bool:
    """Whether `word` stands in a simple command that does more than print, or that prints into a file."""
    first = _FIRST.match(command)
    if first is not None and first[1] not in PRINTERS and not _SEVERAL.intersection(command):
        return word in command  # as most commands are, told without reading them
    try:
        lines = list(with_inner(command))
    except Unclear:
        return False
    for line in lines:
        for simple in line.simples:
            stands = any(
                word in one.raw for one in (*simple.words, *simple.assigned, *(to for _, to in simple.redirects))
            )
            prints = _program(simple) in PRINTERS or not simple.words
            writes = any(">" in how and (to.value or "") not in _SAFE_TARGETS for how, to in simple.redirects)
            if stands and (not prints or writes):
                return True
    return False


def _line_prints(line: Line) -> bool:
    printed = False
    for simple in line.simples:
        program = _program(simple)
        reads = any(how.endswith("<") for how, _ in simple.redirects)
        if program in PRINTERS or not simple.words:
            printed = not reads
        elif simple.joined == "|" and printed and program in FILTERS and not reads:
            printed = not any("/" in word.raw for word in simple.words[1:])
        else:
            return False
        if not printed:
            return False
    return True


def _program(simple: Simple) -> str:
    return _name(simple.words[0]) if simple.words else ""


def _name(word: Word) -> str:
    """Of a program; one that lies elsewhere than the system's keeps its path, so that it is none that is known."""
    directory, name = posixpath.split(word.value or "")
    return name if directory in ("", *_SYSTEM) else word.value or ""


def _found(line: Line) -> Iterator[tuple[int, ToolRun]]:
    """The place of the simple command, and the tool that it names to be run."""
    cwd: str | None = HOME
    for place, simple in enumerate(line.simples):
        tool = _tool_of(simple.words, cwd)
        if tool is not None:
            at, path = tool
            before = line.simples[place - 1] if place and simple.joined == "|" else None
            words = tuple(word.raw if word.value is None else word.value for word in simple.words[at + 1 :])
            yield place, ToolRun(path, words, _invocation(simple, before, cwd))
        if _program(simple) == "cd":
            target = simple.words[1] if len(simple.words) == 2 else None
            straight = not simple.inside and simple.joined in ("", ";", "&&")
            cwd = _joined(target.value, cwd) if target is not None and straight and not target.glob else None


def _tool_of(words: tuple[Word, ...], cwd: str | None) -> tuple[int, str] | None:
    """Which word is the tool that the simple command runs, and the tool's path."""
    at = 0
    while at < len(words):
        name = _name(words[at])
        if "/" in (words[at].value or ""):
            tool = _tool(words[at], cwd)
            if tool is not None:
                return at, tool
        if name in _INTERPRETERS:
            at = _after_options(words, at + 1, _INTERPRETERS[name])
            tool = _tool(words[at], cwd) if 0 <= at < len(words) else None
            return None if tool is None else (at, tool)
        if name == "find":
            places = [place for place in range(at, len(words)) if words[place].raw in _EXECUTING]
            at = places[0] + 1 if len(places) == 1 else len(words)
        elif name in _WRAPPERS:
            at = _after_own_words(words, at + 1, name)
        else:
            return None
    return None


def _tool(word: Word, cwd: str | None) -> str | None:
    path = None if word.value is None or word.glob else _joined(word.value, cwd)
    return path if path is not None and path.startswith(f"{TOOLS}/") else None


def _joined(value: str | None, cwd: str | None) -> str | None:
    if not value or (cwd is None and not value.startswith("/")):
        return None
    return posixpath.normpath(posixpath.join(cwd or "/", value))


def _after_options(words: tuple[Word, ...], at: int, letters: str) -> int:
    while at < len(words) and words[at].raw.startswith("-"):
        if len(words[at].raw) < 2 or not set(words[at].raw[1:]) <= set(letters):
            return -1
        at += 1
    return at


def _after_own_words(words: tuple[Word, ...], at: int, name: str) -> int:
    """The place of the program that a wrapper runs; the number of words when that cannot be told."""
    own, alone, with_word = _WRAPPERS[name]
    while at < len(words):
        value = words[at].value or ""
        if value.startswith("-"):
            letters = value[1:]
            if not letters or not (set(letters) <= set(alone) or letters[0] in with_word):
                return len(words)
            at += 2 if len(letters) == 1 and letters in with_word else 1
        elif name == "env" and value.partition("=")[0].isidentifier() and "=" in value:
            if value.startswith(_ELSEWHERE):
                return len(words)
            at += 1
        else:
            break
    return at + own


def _started(line: Line) -> frozenset[int]:
    """The places of the simple commands that were started for certain, given that the whole line ended with 0: the
    first pipeline of each list, and all of the last list when it is joined by && alone."""
    places: set[int] = set()
    for place, simple in enumerate(line.simples):
        piped = simple.joined == "|" and place - 1 in places
        if not simple.inside and (simple.joined in ("", ";", "&") or piped):
            places.add(place)
    last: set[int] = set()
    for place in range(len(line.simples) - 1, -1, -1):
        simple = line.simples[place]
        if simple.inside or simple.joined == "||" or line.background:
            last.clear()
            break
        last.add(place)
        if simple.joined not in ("&&", "|"):
            break
    return frozenset(
        place for place in places | last if _program(line.simples[place]) not in ("find", "xargs")
    )  # which may run it no time


def _opens_no_tool(simple: Simple, is_the_run: bool) -> bool:
    """Whether nothing of a simple command, but for the tool that it runs, can open a file of the tools."""
    for how, target in simple.redirects:
        if not (target.raw.isdecimal() and how.endswith("&")) and not _lies_outside(target):
            return False
    if is_the_run or not simple.words:
        return True
    program = _program(simple)
    if program in _OPENS_NOTHING:
        return True
    return program in _OPENS_ITS_WORDS and all(_opens_itself_only(word) for word in simple.words[1:])


def _opens_itself_only(word: Word) -> bool:
    if word.value is None:
        return False
    return word.raw.startswith("-") or word.raw.isdecimal() or _lies_outside(word)


def _lies_outside(word: Word) -> bool:
    """In the world, where the agent can make no link, or at one of the places that hold nothing."""
    if word.value is None:
        return False
    if word.value in _SAFE_TARGETS:
        return True
    return word.value.startswith(f"{WORLD}/") and ".." not in word.value and "{" not in word.raw


def _invocation(simple: Simple, before: Simple | None, cwd: str | None) -> str | None:
    """Only what takes its data from its words, from a file of the world or from `cat` of such files."""
    words = simple.words
    if cwd is None or any(word.value is None for word in words) or _program(simple) in ("find", "xargs"):
        return None
    text = " ".join(word.raw for word in (*simple.assigned, *words))
    for how, target in simple.redirects:
        if how == "<" and _lies_outside(target):
            text += f" < {target.raw}"
        elif "<" in how:
            return None
    if before is not None:
        fed = before.words[1:]
        plain = _program(before) == "cat" and before.joined != "|" and not before.redirects
        if not plain or not fed or not all(_lies_outside(word) for word in fed):
            return None
        text = f"{' '.join(word.raw for word in before.words)} | {text}"
    return f"cd {cwd} && {text}" if cwd != HOME else text
