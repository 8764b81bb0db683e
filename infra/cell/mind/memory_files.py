"""Long-term memory and beliefs as files of the clone: read whole, changed by sections, written in one step."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, Final

from infra.cell.mind.beliefs import BELIEFS_FILE
from infra.cell.mind.claims import Belief, MemoryItem
from infra.cell.mind.items import Items
from infra.cell.mind.judgements import Held
from infra.cell.mind.long_term import LONG_TERM_FILE
from infra.cell.mind.problems import MindProblem
from infra.cell.mind.promote import Validation
from infra.cell.mind.promoted import MOST_BYTES, PATH, PromotionLine, PromotionLog, log_of
from infra.cell.mind.statements import key_of
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below

MOST_FILE_BYTES: Final = 16 << 20


class MemoryFiles:
    """Of the mind at `root`. What is changed here is on the disk after `save`."""

    def __init__(self, root: str, now: float) -> None:
        """Raises OSError for a file that cannot be read, or could not be written again without loss."""
        self._root, self._now = root, now
        self._texts = {path: _text(root, path) for path in (LONG_TERM_FILE.path, BELIEFS_FILE.path)}
        self._changed = set[str]()

    @property
    def items(self) -> tuple[MemoryItem, ...]:
        return self._items.found

    @property
    def beliefs(self) -> tuple[Belief, ...]:
        return self._beliefs.found

    @property
    def problems(self) -> tuple[MindProblem, ...]:
        return (*self._items.problems, *self._beliefs.problems)

    @cached_property
    def _items(self) -> Items[MemoryItem]:
        return LONG_TERM_FILE.parse(self._texts[LONG_TERM_FILE.path], self._now)

    @cached_property
    def _beliefs(self) -> Items[Belief]:
        return BELIEFS_FILE.parse(self._texts[BELIEFS_FILE.path], self._now)

    def keys(self) -> dict[str, str]:
        """Of the statements, by id."""
        items = {item.id: key_of(item.subject, item.statement) for item in self.items}
        return items | {belief.id: key_of(belief.subject, belief.claim) for belief in self.beliefs}

    def statements(self) -> dict[str, str]:
        """In one line, by id."""
        items = {item.id: f"{item.subject}: {item.statement}" for item in self.items}
        return items | {belief.id: f"{belief.subject}: {belief.claim}" for belief in self.beliefs}

    def add_item(self, item: MemoryItem) -> str:
        """Its id. Raises ValueError for what the file does not take."""
        text, added = LONG_TERM_FILE.add(self._texts[LONG_TERM_FILE.path], item)
        self._set(LONG_TERM_FILE.path, text)
        return added.id

    def add_belief(self, belief: Belief) -> str:
        """Its id. Raises ValueError for what the file does not take."""
        text, added = BELIEFS_FILE.add(self._texts[BELIEFS_FILE.path], belief)
        self._set(BELIEFS_FILE.path, text)
        return added.id

    def validate(self, validation: Validation) -> None:
        """Raises ValueError, KeyError."""
        day = validation.at[:10]
        if item := self._items.find(validation.id):
            self._edit_item(item._replace(last_validated=day))
        if belief := self._beliefs.find(validation.id):
            self._edit_belief(belief._replace(last_validated=day))

    def put(self, held: Held) -> None:
        """What coherence says of it. Raises ValueError, KeyError."""
        state: dict[str, Any] = {"status": held.status, "contradictions": held.contradictions}
        if item := self._items.find(held.id):
            self._edit_item(item._replace(statement=held.statement, **state))
        if belief := self._beliefs.find(held.id):
            confidence = belief.confidence if held.confidence is None else held.confidence
            self._edit_belief(belief._replace(claim=held.statement, confidence=confidence, **state))

    def save(self) -> None:
        """Raises OSError: then what was written before stays, and the next pass finds it."""
        for path in sorted(self._changed):
            os.makedirs(os.path.dirname(f"{self._root}/{path}"), exist_ok=True)
            RedactedFile(f"{self._root}/{path}").replace(self._texts[path])
        self._changed.clear()

    def _edit_item(self, item: MemoryItem) -> None:
        self._set(LONG_TERM_FILE.path, LONG_TERM_FILE.edit(self._texts[LONG_TERM_FILE.path], item))

    def _edit_belief(self, belief: Belief) -> None:
        self._set(BELIEFS_FILE.path, BELIEFS_FILE.edit(self._texts[BELIEFS_FILE.path], belief))

    def _set(self, path: str, text: str) -> None:
        if text != self._texts[path]:
            self._texts[path] = text
            self._changed.add(path)
            self.__dict__.pop("_items" if path == LONG_TERM_FILE.path else "_beliefs", None)


def read_log(root: str) -> PromotionLog:
    """What learning did before; nothing for a file that is missing or no file."""
    return log_of(Below(root).tail(PATH, MOST_BYTES))


def append_log(root: str, lines: tuple[PromotionLine, ...]) -> None:
    """Raises OSError."""
    path = f"{root}/{PATH}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not lines:
        return
    file = RedactedFile(path)
    if os.path.exists(path):
        file.end_torn_line()
    for line in lines:
        file.append_json({name: getattr(line, name) for name in line.__struct_fields__})


def _text(root: str, path: str) -> str:
    try:
        content = Below(root).whole(path, MOST_FILE_BYTES)
    except FileNotFoundError:
        return ""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise OSError(f"{path}: expected UTF-8 text, but {error}; restore it, it was left as it is") from error
