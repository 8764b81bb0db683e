"""Where the list of operations stands in a reply, and what else there is: prose, fences, blocks of text.

Framing is forgiven when it leaves no doubt: fences, prose around, a byte order mark, closed reasoning before it.
Where two readings are possible, nothing is taken: a list in reasoning, in a comment or in a sample of code is no list
to carry out, and a piece of another one beside it says that a part is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from infra.cell.protocol.json_text import DEPTH, Container, JsonProblem, TooDeep, container_at, value_of

REPLY_BYTES = 10 << 20

_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060\u00a0"
_ASIDE = "antthinking|think|thinking|thought|thoughts|reasoning|analysis|scratchpad|reflection"
_LEADING = re.compile(rf"[{_INVISIBLE} \t\r\n]*")
_TAG = rf"(?:\w{{1,20}}:)?(?:{_ASIDE})"
_REASONING = re.compile(rf"<({_TAG})\b[^<>\n]*>(?:(.*?)</\1[ \t]*>)?", re.DOTALL | re.IGNORECASE)
_OPENS = rf"<{_TAG}\b[^<>\n]*>|\[think\]|◁think▷|<\|begin_of_thought\|>"
_CLOSES = rf"</{_TAG}[ \t]*>|\[/think\]|◁/think▷|<\|end_of_thought\|>"
"""The marks of reasoning that models are trained to write, for one whose server does not take it out."""
_CHANNELS = r"<\|channel\|>[ \t]*(?:final|commentary)\b|<\|end\|>"
_TURNS_ASIDE = re.compile(
    rf"(?P<open>{_OPENS}|<\|channel\|>[ \t]*analysis\b|<!--)|{_CLOSES}|{_CHANNELS}|-->", re.IGNORECASE
)
_COMES_BACK = re.compile(_CLOSES, re.IGNORECASE)
_MARK = re.compile(
    rf"^[ \t{_INVISIBLE}]*(?:(?:[-*]|\d+[.)])[ \t]+)?"
    r"(?:(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n]*)|(?P<open>[\[{]))",
    re.MULTILINE,
)
_FENCE_ALONE = re.compile(r"(?:`{3,}|~{3,})[ \t]*(?:json\w*)?\s*", re.IGNORECASE)
FENCE_CHARS = 100
MOST_LISTS = 1000
"""Beyond that nobody looks: one may be meant, and each costs time."""
_BLOCK = re.compile(r"block[ \t]+(\S+)[ \t\r]*", re.IGNORECASE)
_LIKE = re.compile(r"\[\s*(?:\{|\Z)|\{\s*(?:[\"'“\w}]|\Z)")
_ON_THE_SAME_LINE = re.compile(r"[ \t,]*[\[{]")
_ONE_TOO_MANY = re.compile(r"[ \t]*[\]}]|\s*\]")
_GOES_ON = re.compile(r"\s*,\s*(?:\Z|[\[\]{},`~])")
_WENT_BEFORE = re.compile(r"(?:[}\]\"]\s*,|\})\s*\Z")
_ANOTHER = re.compile(r"\{\s*\"type\"\s*:\s*\"(?:createFile|readFile|editFile|deleteFile|shell)\"")
_IS_SAMPLE = re.compile(r"(?!(?:json\w*|javascript|js|operations?)\b)\S", re.IGNORECASE)
"""What stands behind the fence of a sample of something else."""
_CALL = (
    r"""["'“]name["'”]\s{0,20}:\s{0,20}["'“][^"'”\n]{0,100}["'”]\s{0,20},\s{0,20}"""
    r"""["'“](?:arguments|input|parameters)["'”]\s{0,20}:"""
)
"""A call of a tool, as JSON."""
_OURS = re.compile(
    r"""["'“]?\b(?:type|operations?|action|tool|arguments|protocol\w*|events)\b["'”]?\s*:"""
    r"""|["'“](?:createFile|readFile|editFile|deleteFile|shell|message)["'”]|""" + _CALL
)
_OTHER_DIALECT = re.compile(
    r"<tool_?call>|</tool_?call>|<invoke\s+name=|<function[=\s]|<parameter[=\s]|<arg_key>|^\*{3,} *Begin Patch"
    r"|^(?:shell|createFile|readFile|editFile|deleteFile|message)\(",
    re.MULTILINE,
)


def means_operations(text: str) -> bool:
    """It has words that stand in operations of ours or of another dialect."""
    return (_OURS.search(text) or _OTHER_DIALECT.search(text)) is not None


def has_call(text: str) -> bool:
    """It holds a call of a tool, as JSON."""
    return re.search(_CALL, text) is not None


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
    """By name; None for a block whose name stands twice, or whose end is in doubt."""
    prose: str
    """What stands before and behind the list."""
    notes: tuple[str, ...] = ()


def frame(text: str, cut: bool) -> Framed | Words | NotTaken:
    """`cut` when the provider says that the reply ended at the limit of tokens."""
    if len(text) > REPLY_BYTES or len(text.encode(errors="surrogatepass")) > REPLY_BYTES:
        return NotTaken(Why.FORM, f"the reply is longer than {REPLY_BYTES >> 20} MiB; expected a shorter list")
    if cut:
        return NotTaken(Why.CUT, "your reply was cut at the limit of tokens; expected a whole list")
    at = _after(_LEADING, text, 0)
    while reasoning := _REASONING.match(text, at):
        if reasoning[2] is None:
            if _OURS.search(text, at):
                return NotTaken(Why.FORM, f"<{reasoning[1]}> is not closed; expected the list behind it")
            return Words(text[at:])
        at = _after(_LEADING, text, reasoning.end())
    try:
        return _scan(text[at:])
    except TooDeep:
        return NotTaken(Why.CUT, f"the list nests more than {DEPTH} levels; expected operations with plain fields")


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


class _Blocks:
    """The blocks of a reply, as the scan comes upon them."""

    def __init__(self) -> None:
        self.texts: dict[str, str | None] = {}
        self.places: list[tuple[int, int]] = []
        self.is_cut = False
        self._last, self._fence = "", ""

    def take(self, name: str, text: str, start: int, fence: str) -> int:
        """One that begins at `start`; where the scan goes on."""
        body, end = _body(text, start, fence)
        self.is_cut = self.is_cut or end is None
        self.texts[name] = None if name in self.texts else body
        self.places.append((start, len(text) if end is None else end))
        self._last, self._fence = name, fence
        return self.places[-1][1]

    def doubt(self, fence: str) -> None:
        """A fence without a name, where none is open, may be the end of the block before it."""
        if self._last and fence.startswith(self._fence):
            self.texts[self._last] = None


def _scan(text: str) -> Framed | Words | NotTaken:
    lists: list[tuple[int, Container]] = []
    blocks = _Blocks()
    fence, info, inner, at, looks_for_lists = "", "", 0, 0, True
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark["fence"]:
            block = _BLOCK.fullmatch(mark["info"])
            named = mark["info"].strip()
            if block:
                at = blocks.take(block[1], text, at + 1, mark["fence"])
            elif fence and not named and mark["fence"].startswith(fence):
                if inner:
                    inner -= 1
                else:
                    fence = info = ""
            elif fence and named and _IS_SAMPLE.match(info) and mark["fence"].startswith(fence):
                inner += 1  # quoted, with its end; or the sample has none, and nobody knows what is in it
            elif not fence or (mark["fence"][0] == fence[0] and len(mark["fence"]) >= len(fence)):
                if not (fence or named):
                    blocks.doubt(mark["fence"])
                fence, info = mark["fence"], named
        elif looks_for_lists and not _IS_SAMPLE.match(info):
            start = mark.start("open")
            whole = start == 0 or (start < FENCE_CHARS and _FENCE_ALONE.fullmatch(text, 0, start) is not None)
            if not (whole or _LIKE.match(text, start)):
                continue
            found = container_at(text, start)
            # What is not closed behind a list may be the beginning of another one.
            if whole or (lists and not found.closed) or _OURS.search(text, start, found.end):
                lists.append((start, found))
            elif not found.closed:
                looks_for_lists = False  # nothing behind this place is ours
                continue
            at = found.end
            while (next_one := _ON_THE_SAME_LINE.match(text, at)) and found.closed:
                found = container_at(text, next_one.end() - 1)
                lists.append((next_one.end() - 1, found))
                at = found.end
                if len(lists) > MOST_LISTS:
                    break
        if len(lists) > MOST_LISTS:
            return NotTaken(Why.FORM, f"the reply holds more than {MOST_LISTS} lists; expected one list")
    if not lists:
        return _without_a_list(text)
    if blocks.is_cut and all(found.closed for _, found in lists):
        return NotTaken(Why.CUT, "the reply ends in the middle of a block; expected the fence that closes it")
    return _one(text, lists, blocks)


def _body(text: str, start: int, fence: str) -> tuple[str | None, int | None]:
    """A block's text, byte for byte, and where it ends; no text where its end is in doubt, because a fence that is
    opened in it may be what the next one closes."""
    same = rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}"
    end = re.compile(rf"{same}[ \t\r]*$", re.MULTILINE).search(text, start)
    if end is None:
        return None, None
    opened = re.compile(rf"{same}[ \t]*[^\s`~][^\n`]*$", re.MULTILINE).search(text, start, end.start())
    return None if opened else text[start : end.start()], end.end()


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


def _one(text: str, lists: list[tuple[int, Container]], blocks: _Blocks) -> Framed | NotTaken:
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
    others = sorted([*blocks.places, *((start, end) for start, end, _ in values)])
    doubt = _problem_beside(_without(text, 0, start, others), _without(text, end, len(text), others))
    if doubt:
        return doubt
    return Framed(value, blocks.texts, f"{text[:start]}\n{text[end:]}".strip(), notes)


def _problem_beside(before: str, behind: str) -> NotTaken | None:
    """Why what stands around the only list leaves in doubt whether it is all of it, and meant."""
    turns = [turn["open"] for turn in _TURNS_ASIDE.finditer(before)]
    if (turns and turns[-1]) or _COMES_BACK.search(behind):
        return NotTaken(Why.FORM, "the list stands in reasoning or in a comment; expected it behind that")
    if _GOES_ON.match(behind) or _WENT_BEFORE.search(before[-FENCE_CHARS:]):
        return NotTaken(
            Why.CUT, "what stands beside the list says that a part of it is missing; expected the whole list"
        )
    if _ANOTHER.search(before) or _ANOTHER.search(behind):
        return NotTaken(Why.CUT, "the reply holds a list and another operation beside it; expected one list")
    return None


def _without(text: str, start: int, end: int, places: list[tuple[int, int]]) -> str:
    """A part of the text, without what lies in these places."""
    kept = []
    for first, last in places:
        if start <= first and last <= end:
            kept.append(text[start:first])
            start = last
    return "".join([*kept, text[start:end]])


def _is_events(value: Any) -> bool:
    if isinstance(value, dict):
        return "events" in value and "operations" not in value
    return bool(value) and all(isinstance(each, dict) and {"operation", "status"} <= each.keys() for each in value)
