"""Files that list items by id, as `memory/beliefs.md` and `memory/long_term.md` do: which sections can be read as one,
what is wrong with the others, and how an item is added, edited and taken out without touching another byte.

An id is never given twice: the head of the file holds `Next: B-000124`, and no id below it is free."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from infra.cell.mind.fields import SectionFields, fields_of, with_fields
from infra.cell.mind.problems import MindProblem, few
from infra.shared.clock import timestamp
from infra.shared.mind.sections import Document, MindSection, document_of

MOST_NUMBER = 999_999_999
"""A number beyond this is a slip, and no mark for the next."""
_CONFLICT = re.compile(r"<{7}( |$)|={7}$|>{7}( |$)")
NEVER = "never"
FOREVER, LAST_DAY = 253402300799.0, "9999-12-31"
"""By then no date lies in the future."""


class Identified(Protocol):
    """An item: a named tuple with an id."""

    @property
    def id(self) -> str: ...

    def _replace(self, *, id: str) -> Self: ...


T = TypeVar("T", bound=Identified)


class WrongItem(ValueError):
    """A section cannot be read as an item, or holds something that does not count."""

    def __init__(self, what: str, line: int = 0) -> None:
        """`line`: in the section, from 0."""
        super().__init__(what)
        self.line = line


class ItemRead(NamedTuple, Generic[T]):
    """A section as an item."""

    item: T
    doubts: tuple[WrongItem, ...] = ()
    """What in it does not count."""


class Items(NamedTuple, Generic[T]):
    document: Document
    """The whole file, byte for byte."""
    found: tuple[T, ...]
    problems: tuple[MindProblem, ...]
    """At most `problems.MOST_NAMED`, and one that counts the rest."""

    def find(self, id: str) -> T | None:
        return next((item for item in self.found if item.id == id), None)


class ItemFile(Generic[T]):
    """How the items of one file are read and written. Pure; it holds no items."""

    def __init__(
        self,
        path: str,
        title: str,
        prefix: str,
        read: Callable[[MindSection, SectionFields, str], ItemRead[T]],
        fields: Callable[[T], Mapping[str, str]],
        heading: Callable[[T], str],
    ) -> None:
        """`read` makes an item of a section, given today, or raises WrongItem; `fields` are an item's, as text
        in the order of the file, empty where one is left out; `heading` is what stands behind `## `."""
        self.path = path
        self._title, self._prefix = title, prefix
        self._read, self._fields, self._heading = read, fields, heading
        self._mark = re.compile(rf"^Next:[ \t]*{prefix}-([0-9]{{1,12}})[ \t\r]*$", re.MULTILINE)
        self._id = re.compile(rf"{prefix}-([0-9]{{1,12}})")

    def parse(self, text: str, now: float) -> Items[T]:
        """Never raises: what cannot be read as an item is a problem, and stays in the document."""
        document = document_of(text)
        found, problems, numbers = list[T](), list[MindProblem](), set[int]()
        today = timestamp(now)[:10]
        if "\0" in text:
            problems.append(self._problem(0, "holds NUL bytes; expected text. Restore it (`minifram mind restore`)"))
        conflicts = list(conflicted(text))
        line = document.head.count("\n") + 1
        problems += [
            self._problem(at, "a conflict marker of git; keep one side, take the markers out") for at in conflicts
        ]
        for section in document.sections:
            after = line + section.text.count("\n") + (not section.text.endswith("\n"))
            try:
                number = self._number(section, numbers)
                if any(line <= at < after for at in conflicts):
                    raise WrongItem("does not count while a conflict marker of git stands in it")
                numbers.add(number)
                fields = self._fields_in(section)
                read = self._read(section, fields, today)
                found.append(read.item)
                doubts = (*read.doubts, *_without_name(fields))
                problems += [self._problem(line + doubt.line, f"{section.id}: {doubt}") for doubt in doubts]
            except WrongItem as wrong:
                problems.append(self._problem(line + wrong.line, f"{section.id[:60]}: {wrong}"))
            line = after
        return Items(document, tuple(found), few(problems))

    def write(self, item: T) -> str:
        """The item as a section of its own."""
        return f"## {self._heading(item)}\n" + "".join(self._fields(item).values())

    def add(self, text: str, item: T) -> tuple[str, T]:
        """At the end, under the next id, whatever the item's own is. Raises ValueError when nothing can be added."""
        document = document_of(text)
        id = self.next_id(document)
        item = item._replace(id=id)
        head = self._marked(document.head, int(id.rpartition("-")[2]) + 1, bool(document.sections))
        added = document._replace(head=head).with_section(MindSection(self._heading(item), self.write(item)))
        self._check(added.whole(), item)
        return added.whole(), item

    def edit(self, text: str, item: T) -> str:
        """In the section with its id, the fields that are others now. Raises KeyError when there is none that can be
        read as an item, ValueError for an item that cannot be written."""
        document = document_of(text)
        section = document.find(item.id)
        before = self.parse(section.text, FOREVER).find(item.id) if section else None
        if section is None or before is None:
            raise KeyError(f"{self.path} has no {item.id} that can be read; see what is wrong with it")
        changed = with_fields(section.text, self._fields(before), self._fields(item))
        if self._heading(before) != self._heading(item):
            changed = f"## {self._heading(item)}\n{changed.partition(chr(10))[2]}"
        whole = document.with_section(section._replace(text=changed)).whole()
        self._check(whole, item)
        return whole

    def remove(self, text: str, id: str) -> str:
        """Without the section; its id stays used. Raises KeyError."""
        document = document_of(text)
        if document.find(id) is None:
            raise KeyError(f"{self.path} has no {id}")
        head = self._marked(document.head, self._next(document), len(document.sections) > 1)
        return document.without(id)._replace(head=head).whole()

    def next_id(self, document: Document) -> str:
        """Below it none is free."""
        return f"{self._prefix}-{self._next(document):06d}"

    def mark_of(self, head: str) -> int:
        """The number that the head of a file says is next; 0 when it says none."""
        return max((number for each in self._mark.findall(head) if (number := int(each)) <= MOST_NUMBER), default=0)

    def _next(self, document: Document) -> int:
        ids = (self._id.fullmatch(section.id) for section in document.sections)
        numbers = (int(id[1]) for id in ids if id)
        return max(self.mark_of(document.head), 1, *(number + 1 for number in numbers if number < MOST_NUMBER))

    def _marked(self, head: str, number: int, is_above: bool) -> str:
        """`is_above`: sections follow."""
        line = f"Next: {self._prefix}-{number:06d}"
        found = self._mark.search(head)
        if found:
            return head[: found.start()] + line + head[found.end() :]
        if not head.strip():
            head = f"# {self._title}\n\n"
        gap = "" if head.endswith("\n\n") else "\n" if head.endswith("\n") else "\n\n"
        return f"{head}{gap}{line}\n" + ("\n" if is_above else "")

    def _check(self, whole: str, item: T) -> None:
        """Raises ValueError when the item would not be read from the file as it is."""
        section = document_of(whole).find(item.id)
        if section is None:
            raise ValueError(f"{self.path}: nothing can be added below a fenced block (```) that does not end; end it")
        read = self.parse(section.text, FOREVER)
        if read.found != (item,) and [*map(self.write, read.found)] != [self.write(item)]:
            why = f": {read.problems[0].what}" if read.problems else ""
            raise ValueError(f"{item.id} cannot be written to {self.path}{why}")

    def _fields_in(self, section: MindSection) -> SectionFields:
        fields = fields_of(section.text)
        for field in fields.twice():
            raise WrongItem(f"{field.name} stands here twice; leave one", field.line)
        return fields

    def _number(self, section: MindSection, numbers: set[int]) -> int:
        id = self._id.fullmatch(section.id)
        if id is None:
            raise WrongItem(
                f"no item; expected a heading such as `## {self._prefix}-000001`. It stays and does not count"
            )
        if int(id[1]) in numbers:
            raise WrongItem(
                f"a second section of this id does not count; give it the id that {self.path} names as next"
            )
        return int(id[1])

    def _problem(self, line: int, what: str) -> MindProblem:
        return MindProblem(self.path, line, what)


def _without_name(fields: SectionFields) -> Iterator[WrongItem]:
    for at, line in enumerate(fields.head.split("\n")):
        if at and line.strip():
            yield WrongItem("text above the first field belongs to none and does not count; write it as Notes", at)
            return


def conflicted(text: str) -> Iterator[int]:
    """Lines, from 1, of git's conflict markers."""
    if "<<<<<<<" not in text and ">>>>>>>" not in text:
        return
    began = 0
    for at, line in enumerate(text.split("\n"), 1):
        marker = _CONFLICT.match(line.rstrip("\r"))
        if marker and line.startswith("<"):
            began = at
            yield at
        elif marker and line.startswith(">"):
            yield at
            began = 0
        elif began and marker:
            yield at


def day(field_words: str, today: str, line: int) -> tuple[str, tuple[WrongItem, ...]]:
    """A date or a moment as it stands, empty for none; and what is doubtful about it: one in the future does not
    count. Raises WrongItem."""
    import datetime

    words = field_words
    if not words or words.casefold() in (NEVER, "none"):
        return "", ()
    try:
        if not words.isascii() or len(words) > 40:
            raise ValueError
        at = datetime.date.fromisoformat(words) if len(words) == 10 else datetime.datetime.fromisoformat(words).date()
    except ValueError:
        raise WrongItem(f"{words[:40]!r} is no date; expected one such as 2026-01-31, or {NEVER}", line) from None
    # A day more than today: who wrote it may live further to the east.
    if today < LAST_DAY and at > datetime.date.fromisoformat(today) + datetime.timedelta(days=1):
        return "", (WrongItem(f"{words} lies in the future and does not count; correct it", line),)
    return words, ()
