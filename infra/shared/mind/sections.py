"""A Markdown file of the mind: sections below headings of the second level, and fields in YAML, below such a heading or
between two lines `---`. What cannot be read stays as it is, byte for byte, and is named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec
import yaml

from infra.shared.yaml_words import words_of

_HEADING = re.compile(r"## +(\S.*?)[ \t\r]*")
_ID = re.compile(r"[A-Z]{1,12}-[0-9]{1,9}")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_FIELD = re.compile(r"([ \t]*(?:- +)?)([A-Za-z_][\w-]*:)(?:[ \t]+(.*?))?[ \t\r]*")
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?\n|)---[ \t]*\r?(?:\n|\Z)", re.DOTALL)
_NOTHING: Final[tuple[Any, ...]] = ("", "None", None, [], ["None"], (), {})
T = TypeVar("T", bound=msgspec.Struct)


class Section(NamedTuple):
    """What stands under a heading; the first of a file, without a heading, is what stands above them."""

    heading: str
    text: str
    """With its heading: the sections one behind the other are the file."""
    line: int
    """Of the heading, from 1."""

    @property
    def id(self) -> str:
        """`B-000123` of a heading that begins so, else the heading itself."""
        first = self.heading.partition(" ")[0]
        return first if _ID.fullmatch(first) else self.heading

    @property
    def body(self) -> str:
        """What stands below the heading."""
        return self.text.partition("\n")[2] if self.heading else self.text


class Problem(NamedTuple):
    """What is wrong in a file of the mind: it does not count, and the rest does."""

    path: str
    line: int
    """From 1."""
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def sections(text: str) -> tuple[Section, ...]:
    """A heading in a fenced block is none, but one with an id is: a fence that nobody closed hides nothing."""
    starts, fence, at = [(0, "", 1)], "", 0
    for number, line in enumerate(text.split("\n"), 1):
        heading, mark = _HEADING.fullmatch(line), _FENCE.match(line)
        if heading and (not fence or _ID.match(heading[1])):
            starts.append((at, heading[1], number))
            fence = ""
        elif fence and mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = ""
        elif mark and not fence:
            fence = mark[1]
        at += len(line) + 1
    ends = [*(start for start, _, _ in starts[1:]), len(text)]
    return tuple(Section(words, text[start:end], line) for (start, words, line), end in zip(starts, ends, strict=True))


def fields(text: str) -> dict[str, Any]:
    """YAML of words, lists and mappings; a value of one line is the words that stand there. Raises ValueError."""
    found = words_of("\n".join(_quoted(text.split("\n"))))
    if not isinstance(found, dict):
        raise ValueError("expected fields, each a line `Name: value`")
    return found


def _quoted(lines: Sequence[str]) -> Iterator[str]:
    """The lines with each plain value of one line in quotes, so that YAML makes nothing else of a colon or a hash."""
    column = -1
    for line, after in pairwise((*lines, "")):
        if column < 0 or (line.strip() and _indent(line) <= column):  # else the value above goes on
            field = _FIELD.fullmatch(line)
            column = len(field[1]) if field and field[3] else -1
            if field and field[3] and field[3][0] not in "\"'[{|>" and not (after.strip() and _indent(after) > column):
                yield f"{field[1]}{field[2]} {json.dumps(field[3], ensure_ascii=False)}"
                continue
        yield line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def entries(path: str, text: str, kind: type[T]) -> tuple[tuple[T, ...], tuple[Problem, ...]]:
    """The sections that can be read as one of `kind`, whose `id` is that of the heading; what is wrong with the
    others."""
    found, problems = dict[str, T](), list[Problem]()
    for each in sections(text)[1:]:
        try:
            if each.id in found:
                raise ValueError("a second section of this id does not count; give it another")
            found[each.id] = made({"Id": each.id} | fields(each.body), kind)
        except ValueError as error:
            problems.append(Problem(path, each.line, f"{each.id[:60]}: {error}"))
    return tuple(found.values()), tuple(problems)


def front_matter(text: str, kind: type[T]) -> tuple[T, str]:
    """What stands between two lines `---` at the beginning, and all below. Raises ValueError."""
    front = _FRONT.match(text)
    if front is None:
        raise ValueError("expected fields between two lines `---` at its beginning")
    return made(fields(front[1]), kind), text[front.end() :]


def made(raw: dict[str, Any], kind: type[T]) -> T:
    """Of the fields; an empty one, or one with the word None, is not there. Raises ValueError for the first fault."""
    given = {name: value for name, value in raw.items() if value not in _NOTHING}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        words, _, where = str(error).partition(" - at `$.")
        name = where.rstrip("`")
        type = next((field.type for field in msgspec.structs.fields(kind) if field.encode_name == name), None)
        expected = f"expected {', '.join(get_args(type))}" if get_origin(type) is Literal else words
        raise ValueError(
            f"{name} is {str(given.get(name))[:60]!r}: {expected}" if name in given else str(error)
        ) from None


class _Plainly(yaml.SafeDumper):
    """Dates and numbers as they stand: what each is, the type says that it is read as."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Plainly.yaml_implicit_resolvers = {}
_Plainly.add_representer(float, lambda dumper, value: dumper.represent_str(str(value)))


def as_fields(value: msgspec.Struct) -> str:
    """As lines of YAML; what is empty, and the id, which the heading has, is left out."""
    plain = {name: each for name, each in msgspec.to_builtins(value).items() if name != "Id" and each not in _NOTHING}
    return yaml.dump(plain, Dumper=_Plainly, sort_keys=False, allow_unicode=True, width=10**6)


def with_entry(text: str, entry: T) -> str:
    """As `with_section`. Raises ValueError for what could not be read again."""
    id, written = str(getattr(entry, "id")), as_fields(entry)  # noqa: B009 - of whatever type
    if made({"Id": id} | fields(written), type(entry)) != entry:
        raise ValueError(f"{id} holds characters that no file of the mind can hold")
    return with_section(text, id, written)


def with_section(text: str, id: str, body: str) -> str:
    """In the place of the section with this id, whose heading stays, else at the end; all other sections stay byte for
    byte."""
    every = sections(text)
    old = next((each for each in every[1:] if each.id == id), None)
    if old is None:
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}## {id}\n{body}"
    gap = old.text[len(old.text.rstrip()) + 1 :]
    new = f"{old.text.partition(chr(10))[0]}\n{body}{gap}"
    return "".join(new if each is old else each.text for each in every)
