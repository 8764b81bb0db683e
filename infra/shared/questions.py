"""The questions that the keep holds open: one file each in `<var>/questions`, written before the PM is shown anything.
Which call an answer is for stands here alone; the page only shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from infra.shared.approvals import ID_DIGITS, call_hash

SCHEMA = "minifram.question/1"
MOST_BYTES = 1 << 20
"""Of one file; a request has a fraction of that."""
MOST_OPEN = 100
_NAME = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}\.json")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the agent wants to make, and what the PM writes to let it."""

    schema: str = SCHEMA
    id: str
    """Drawn by the keep: no two questions have the same, and nobody can choose one."""
    call: str
    """SHA-256 of tool and arguments, whole."""
    tool: str
    input: dict[str, Any]
    why: str
    """Why it must be asked about, as the runner says."""
    branch: str
    commit: str
    """Where the runner ran, as it says."""
    asked_at: str
    report: str
    """Id of the report that shows it."""
    told: bool = False
    """That report is on the page, or was."""

    def is_about(self, tool: str, given: Mapping[str, Any]) -> bool:
        """Whether this very call was asked about: the one place where calls are compared."""
        return self.call == call_hash(tool, given)


def is_file_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def file_name(id: str) -> str:
    return f"{id}.json"


def encode(question: Question) -> bytes:
    """As ASCII, because arguments may hold half of a surrogate pair."""
    return json.dumps(msgspec.structs.asdict(question)).encode() + b"\n"


def decode(content: bytes, name: str) -> Question:
    """The question in the file of this name. Raises ValueError."""
    try:
        question = msgspec.convert(json.loads(content), Question)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} holds no question: {error}") from None
    if question.schema != SCHEMA or file_name(question.id) != name:
        raise ValueError(f"{name} holds {question.schema!r} of {question.id!r}; expected {SCHEMA!r} of that name")
    if not question.is_about(question.tool, question.input):
        raise ValueError(f"{name} holds a call and the hash of another one")
    return question
