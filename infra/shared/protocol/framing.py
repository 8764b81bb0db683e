"""Where the list of operations stands in a reply, and what else there is: prose, fences, blocks of text.

Framing is forgiven when it leaves no doubt: fences, prose around, a byte order mark, closed reasoning before it.
Where two readings are possible, nothing is taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from infra.shared.protocol.json_text import DEPTH, Container, JsonProblem, TooDeep, container_at, value_of

REPLY_BYTES = 10 << 20

_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060\u00a0"
_REASONING = re.compile(r"<(think|thinking|reasoning)>(?:(.*?)</\1>)?", re.DOTALL)
_MARK = re.compile(
    rf"^[ \t{_INVISIBLE}]*(?:(?:[-*>]|\d+[.)])[ \t]+)?"
    r"(?:(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n]*)|(?P<open>[\[{]))",
    re.MULTILINE,
)
_FENCE_ALONE = re.compile(r"(?:`{3,}|~{3,})[ \t]*(?:json\w*)?\s*", re.IGNORECASE)
FENCE_CHARS = 100
_BLOCK = re.compile(r"block[ \t]+(\S+)[ \t\r]*", re.IGNORECASE)
_LIKE = re.compile(r"\[\s*(?:\{|\Z)|\{\s*(?:[\"'“\w}]|\Z)")
_ON_THE_SAME_LINE = re.compile(r"[ \t,]*[\[{]")
_ONE_TOO_MANY = re.compile(r"[ \t]*[\]}]")
_OURS = re.compile(
    r"""["'“]?\b(?:type|operations?|action|tool|arguments|protocol\w*|events)\b["'”]?\s*:"""
    r"""|["'“](?:createFile|readFile|editFile|deleteFile|shell|message)["'”]"""
)
_OTHER_DIALECT = re.compile(
    r"<tool_?call>|</tool_?call>|<invoke\s+name=|<function[=\s]|<parameter[=\s]|<arg_key>|^\*{3,} *Begin Patch"
    r"|^(?:shell|createFile|readFile|editFile|deleteFile|message)\(",
    re.MULTILINE,
)


def means_operations(text: str) -> bool:
    """It has words that stand in operations of ours or of another dialect."""
    return (_OURS.search(text) or _OTHER_DIALECT.search(text)) is not None


class Why(Enum):
    """What kind of reply was not taken."""

    CUT = "cut"
    """It may have been cut, so even what stands there whole may not be what was meant."""
    FORM = "form"
    """It means operations, in another form than ours."""


class NotTaken(NamedTuple):
    """A reply of which nothing is carried out."""

    why: Why
    message: str
    """What was found, and what was expected."""


class Words(NamedTuple):
    """A reply without operations."""

    text: str


class Framed(NamedTuple):
    """One list or object, and the blocks of text beside it."""

    value: Any
    blocks: Mapping[str, str | None]
    """By name; None for a block that is not closed, or whose name stands twice."""
    prose: str
    """What stands before and behind the list."""
    notes: tuple[str, ...] = ()


def frame(text: str, cut: bool) -> Framed | Words | NotTaken:
    """`cut` when the provider says that the reply ended at the limit of tokens."""
    if len(text) > REPLY_BYTES or len(text.encode(errors="surrogatepass")) > REPLY_BYTES:
        return NotTaken(Why.FORM, f"the reply is longer than {REPLY_BYTES >> 20} MiB; expected a shorter list")
    if cut:
        return NotTaken(Why.CUT, "your reply was cut at the limit of tokens; expected a whole list")
    text = text.lstrip(_INVISIBLE + " \t\r\n")
    while reasoning := _REASONING.match(text):
        if reasoning[2] is None:
            if _OURS.search(text):
                return NotTaken(Why.FORM, f"<{reasoning[1]}> is not closed; expected the list behind it")
            return Words(text)
        text = text[reasoning.end() :].lstrip(_INVISIBLE + " \t\r\n")
    try:
        return _scan(text)
    except TooDeep:
        return NotTaken(Why.CUT, f"the list nests more than {DEPTH} levels; expected operations with plain fields")


def _scan(text: str) -> Framed | Words | NotTaken:
    lists: list[tuple[int, Container]] = []
    blocks: dict[str, str | None] = {}
    fence, at, looks_for_lists = "", 0, True
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark["fence"]:
            block = _BLOCK.fullmatch(mark["info"])
            if block:
                body, at = _body(text, at + 1, mark["fence"])
                blocks[block[1]] = None if block[1] in blocks else body
            elif fence and not mark["info"].strip() and mark["fence"].startswith(fence):
                fence = ""
            else:
                fence = mark["fence"]
        elif looks_for_lists:
            start = mark.start("open")
            whole = start == 0 or (start < FENCE_CHARS and _FENCE_ALONE.fullmatch(text, 0, start) is not None)
            if not (whole or _LIKE.match(text, start)):
                continue
            found = container_at(text, start)
            if whole or _OURS.search(text, start, found.end):
                lists.append((start, found))
            elif not found.closed:
                looks_for_lists = False  # nothing behind this place is ours
                continue
            at = found.end
            while (next_one := _ON_THE_SAME_LINE.match(text, at)) and found.closed:
                found = container_at(text, next_one.end() - 1)
                lists.append((next_one.end() - 1, found))
                at = found.end
    if not lists:
        return _without_a_list(text)
    return _one(text, lists, blocks)


def _body(text: str, start: int, fence: str) -> tuple[str | None, int]:
    """A block's text, byte for byte, and where the scan goes on."""
    end = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t\r]*$", re.MULTILINE).search(text, start)
    return (None, len(text)) if end is None else (text[start : end.start()], end.end())


def _without_a_list(text: str) -> Words | NotTaken:
    bare = text.strip().strip("`").strip()
    if not bare:
        return NotTaken(Why.CUT, "the reply is empty; expected a list of operations, or a report in words")
    if re.fullmatch(r"""null|true|false|-?\d[\d.eE+-]*|["'\]}]|"[^"\n]*\"""", bare):
        return NotTaken(Why.CUT, f"the reply is {bare[:40]}; expected a list of operations, or a report in words")
    other = _OTHER_DIALECT.search(text)
    if other:
        line = text[other.start() :].split("\n", 1)[0][:100]
        return NotTaken(Why.FORM, f"the reply asks for an act in another form: {line!r}; expected a list of operations")
    return Words(text)


def _one(text: str, lists: list[tuple[int, Container]], blocks: dict[str, str | None]) -> Framed | NotTaken:
    """The value of the only list. Events that a model made up are dropped."""
    values = []
    for start, found in lists:
        if not found.closed:
            # A closing fence behind it says that the model thought it whole: a bracket was forgotten.
            if re.search(r"^[ \t]*(?:`{3,}|~{3,})[ \t\r]*$", found.text, re.MULTILINE):
                return NotTaken(Why.FORM, "the list is not closed; expected ']' at its end")
            return NotTaken(Why.CUT, "the reply ends in the middle of the list")
        if found.problem:
            return NotTaken(Why.FORM, f"the list is no JSON: {found.problem}")
        if _ONE_TOO_MANY.match(text, found.end):
            return NotTaken(Why.FORM, "a bracket stands behind the end of the list; expected nothing")
        try:
            values.append((start, found.end, value_of(found.text)))
        except JsonProblem as problem:
            if "at '..." in str(problem):
                return NotTaken(Why.CUT, "the list holds '...' for what it leaves out; expected the whole list")
            return NotTaken(Why.FORM, f"the list is no JSON: {problem}")
    kept = [each for each in values if not _is_events(each[2])]
    notes = ("what you wrote as events was dropped: only the runtime writes events",) if len(kept) < len(values) else ()
    if not kept:
        return NotTaken(Why.FORM, "the reply holds events and no operations; only the runtime writes events")
    if len(kept) > 1:
        if all(isinstance(value, dict) and "operations" not in value for _, _, value in kept):
            return NotTaken(Why.FORM, f"the reply holds {len(kept)} objects; expected one list: [{{…}}, {{…}}]")
        return NotTaken(Why.CUT, f"the reply holds {len(kept)} lists; expected one list")
    start, end, value = kept[0]
    return Framed(value, blocks, f"{text[:start]}\n{text[end:]}".strip(), notes)


def _is_events(value: Any) -> bool:
    if isinstance(value, dict):
        return "events" in value and "operations" not in value
    return bool(value) and all(isinstance(each, dict) and {"operation", "status"} <= each.keys() for each in value)
