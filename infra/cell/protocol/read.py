"""What a reply of a model asks for: operations, each valid or refused by itself; words; or nothing at all.

The list is the whole reply, the one fence in it that holds it, or what begins a line of it. Framing is forgiven where
it leaves no doubt; content is never repaired. Where two readings are possible nothing is carried out, and the model is
asked again. Time is linear in the text."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec

from infra.cell.actions import ToolCall
from infra.cell.protocol.operations import BLOCKS, MESSAGE, MOST_OPERATIONS, OPERATIONS, PROTOCOL, call_of
from infra.cell.tools.tool import REFUSED, fitting

REPLY_BYTES = 10 << 20
_BLANK = "\ufeff\u200b\u200c\u200d\u2060\u00a0"
_TAG = r"(?:\w{1,20}:)?(?:antthinking|think|thinking|thoughts?|reasoning|analysis|scratchpad|reflection)"
_OPENS = rf"<{_TAG}\b[^<>\n]*>|\[think\]|◁think▷|<\|begin_of_thought\|>|<\|channel\|>[ \t]*analysis\b|<!--"
_CLOSES = rf"</{_TAG}[ \t]*>|\[/think\]|◁/think▷|<\|end_of_thought\|>"
"""The marks of reasoning that models are trained to write, for one whose server does not take it out."""
_TURNS = re.compile(
    rf"(?P<open>{_OPENS})|{_CLOSES}|<\|channel\|>[ \t]*(?:final|commentary)\b|<\|end\|>|-->", re.IGNORECASE
)
_BEHIND = re.compile(_CLOSES, re.IGNORECASE)
_REASONING = re.compile(rf"[\s{_BLANK}]*<({_TAG})\b[^<>\n]*>(?:(.*?)</\1[ \t]*>)?", re.DOTALL | re.IGNORECASE)
_MARK = rf"^[ \t{_BLANK}]*(?:(?:[-*]|\d+[.)])[ \t]+)?"
_FENCE = re.compile(rf"{_MARK}(`{{3,}}|~{{3,}})[ \t]*([^\n`]*?)[ \t\r]*$", re.MULTILINE)
_BARE = re.compile(rf"{_MARK}(\[(?=\s*(?:\{{|\Z))|\{{(?=\s*(?:[\"'“\w}}]|\Z)))", re.MULTILINE)
_JSON = re.compile(r"(?:json\w*|javascript|js|operations?)?", re.IGNORECASE)
_BLOCK = re.compile(r"^[ \t]*[`~]{3,}[ \t]*block ", re.MULTILINE)
_WHOLE = re.compile(rf"[\s{_BLANK}]*(?!\[[^\[\]{{}}\"'`]*\](?:\(|:|[ ]\w))([\[{{])")
"""A bracket at the beginning that is no link and no box of a Markdown list."""
_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))(?:(\s*),(?=\s*[\]}]))?|([\w}\]]\s*),(?=\s*[\]}])', re.DOTALL)
"""A string, with the comma behind it that is one too many; or such a comma behind another value."""
_OURS = re.compile(
    r"""["'“]?\b(?:type|operations?|action|tool|arguments|protocol\w*|events)\b["'”]?\s*:"""
    r"""|["'“](?:createFile|readFile|editFile|deleteFile|shell|message)["'”]"""
)
_CALL = re.compile(
    r"""["'“]name["'”]\s{0,20}:\s{0,20}["'“][^"'”\n]{0,100}["'”]\s{0,20},\s{0,20}"""
    r"""["'“](?:arguments|input|parameters)["'”]\s{0,20}:"""
)
_PIECE = re.compile(r'"(?:type|operations)"\s*:')
_GOES_ON = re.compile(r"\s*[,\]}\[{]")
_WENT_BEFORE = re.compile(r"(?:[}\]\"]\s*,|\})\s*\Z")
_OTHER_DIALECT = re.compile(
    r"</?tool_?call>|<invoke\s+name=|<function[=\s]|<parameter[=\s]|<arg_key>|^\*{3,} *Begin Patch"
    r"|^(?:shell|createFile|readFile|editFile|deleteFile|message)\(",
    re.MULTILINE,
)
_NO_WORDS = re.compile(r"""[`\s]*(?:null|true|false|-?\d[\d.eE+-]*|["'\]}]|"[^"\n]*\")?[`\s]*""")


def means_operations(text: str) -> bool:
    """It has words that stand in operations of ours or of another dialect."""
    return any(pattern.search(text) for pattern in (_OURS, _CALL, _OTHER_DIALECT))


def has_call(text: str) -> bool:
    """It holds a call of a tool, as JSON."""
    return _CALL.search(text) is not None


class NotTaken(NamedTuple):
    """A reply of which nothing is carried out: it means operations in another form, or may not be whole."""

    message: str
    """What was found, and what was expected."""


class Words(NamedTuple):
    """A reply without operations."""

    text: str


class Requested(NamedTuple):
    """What a reply asks for."""

    items: tuple[ToolCall, ...]
    """In the order of the list: calls of tools, of MESSAGE, and of REFUSED for what is no operation of ours."""
    prose: str = ""
    """What stands beside the list."""


def read(text: str, cut: bool = False) -> Requested | Words | NotTaken:
    """`cut` when the provider says that the reply ended at the limit of tokens."""
    if len(text) > REPLY_BYTES or len(text.encode(errors="surrogatepass")) > REPLY_BYTES:
        return NotTaken(f"the reply is longer than {REPLY_BYTES >> 20} MiB; expected a shorter list")
    if cut:
        return NotTaken("your reply was cut at the limit of tokens; expected a whole list")
    try:
        return _read(text)
    except RecursionError:
        return NotTaken("the list nests too deep; expected operations with plain fields")
    except ValueError as error:
        return NotTaken(str(error))


def _read(text: str) -> Requested | Words:
    """Raises ValueError for what is not taken."""
    at = 0
    while reasoning := _REASONING.match(text, at):
        if reasoning[2] is None:
            if means_operations(text[at:]):
                raise ValueError(f"<{reasoning[1]}> is not closed; expected the list behind it")
            break
        at = reasoning.end()
    text = text[at:]
    if _NO_WORDS.fullmatch(text):
        raise ValueError("the reply is empty; expected a list of operations, or a report in words")
    parts = _parts(text)
    if parts.listed is None:
        if other := _OTHER_DIALECT.search(text) or _CALL.search(text):
            line = text[other.start() :].split("\n", 1)[0][:100]
            raise ValueError(f"the reply asks for an act in another form: {line!r}; expected a list of operations")
        return Words(text)
    value, rest = _json(parts.listed)
    behind = rest + parts.behind
    if parts.is_cut:
        raise ValueError("the reply ends in the middle of a block; expected the fence that closes it")
    turns = [turn["open"] for turn in _TURNS.finditer(parts.before)]
    if (turns and turns[-1]) or _BEHIND.search(behind):
        raise ValueError("the list stands in reasoning or in a comment; expected it behind that")
    is_behind = _GOES_ON.match(behind) or _PIECE.search(behind)
    if is_behind or _WENT_BEFORE.search(parts.before[-100:]) or _PIECE.search(parts.before):
        raise ValueError("beside the list stands a piece of another; expected one list: [{…}, {…}]")
    return Requested(_items(value, parts.blocks), f"{parts.before}\n{behind}".strip("`~ \t\r\n"))


class _Parts(NamedTuple):
    blocks: dict[str, str | None]
    """None for one whose name stands twice, or whose end is in doubt."""
    is_cut: bool
    """A block has no end."""
    before: str
    listed: str | None
    """What begins with the list. It may hold fences, so it goes on to the next block or the end."""
    behind: str


def _parts(text: str) -> _Parts:
    blocks: dict[str, str | None] = {}
    beside, before, listed, is_cut, since, at, last = "", "", None, False, 0, 0, ("", "`")
    bare, may_be_ours = _WHOLE.match(text), True
    while True:
        fence = _FENCE.search(text, at)
        if bare is None and may_be_ours:
            bare = _BARE.search(text, at, fence.start() if fence else len(text))
            may_be_ours = bare is None or _OURS.search(text, bare.start(1)) is not None
            bare = bare if may_be_ours else None
        if fence is None and bare is None:
            return _Parts(blocks, is_cut, before, listed, beside + text[since:])
        if bare is None and fence:
            mark, start, name = fence[1], fence.end() + 1, _name(fence)
            same = rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*"
            closing = re.compile(rf"{same}\r?$", re.MULTILINE).search(text, start)
            end, at = (closing.start(), closing.end()) if closing else (len(text), len(text))
            if name:
                in_doubt = name in blocks or re.compile(rf"{same}[^\s`~]", re.MULTILINE).search(text, start, end)
                blocks[name], is_cut, last = None if in_doubt else text[start:end], is_cut or not closing, (name, mark)
                beside, since = beside + text[since : fence.start()], at
            elif not fence[2] and last[0] and mark.startswith(last[1]):
                blocks[last[0]] = None  # a fence without a name may be the end of the block before it
            if not name and _JSON.fullmatch(fence[2]) and _OURS.search(text, start, end):
                bare = _WHOLE.match(text, start, end)
        if bare:
            if listed is not None:
                raise ValueError("the reply holds several lists; expected one list")
            block = _BLOCK.search(text, bare.start(1))
            at = block.start() if block else len(text)
            before, beside, listed = beside + text[since : bare.start(1)], "", text[bare.start(1) : at]
            since, bare = at, None


def _name(fence: re.Match[str]) -> str:
    """Of a block; empty for another fence."""
    return fence[2][6:].strip() if fence[2].lower().startswith("block ") else ""


def _json(text: str) -> tuple[Any, str]:
    """The value at the beginning, and what stands behind it. A comma before a closing bracket is forgiven."""
    plain = _COMMA.sub(lambda found: "".join(filter(None, found.groups())), text)
    try:
        decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant, strict=False)
        value, end = decoder.raw_decode(plain)
    except json.JSONDecodeError as error:
        line, shown = plain[: error.pos].count("\n") + 1, plain[error.pos :].strip()[:30].split("\n")[0]
        raise ValueError(f"the list is no JSON, or cut: {error.msg} in line {line} of the list, at {shown!r}") from None
    return value, plain[end:]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else found | {"a key that stands twice": True}


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON; expected a number, or null")


def _items(value: Any, blocks: dict[str, str | None]) -> tuple[ToolCall, ...]:
    if isinstance(value, dict) and "operations" in value:
        version = next((value[key] for key in ("protocol", "protocolVersion", "version") if key in value), PROTOCOL)
        if version not in (PROTOCOL, str(PROTOCOL)) or isinstance(version, bool):
            raise ValueError(f"protocol {version!r} is not known; expected {PROTOCOL}")
        extra = sorted(value.keys() - {"operations", "protocol", "protocolVersion", "version", "events"})
        if extra or not isinstance(value["operations"], list):
            what = f"unknown key {extra[0][:100]!r} beside the list" if extra else "operations is no list"
            raise ValueError(f"{what}; expected protocol and a list of operations")
        value = value["operations"]
    elements = value if isinstance(value, list) else [value]
    if len(elements) > MOST_OPERATIONS:
        raise ValueError(f"the list holds {len(elements)} operations; expected at most {MOST_OPERATIONS}")
    objects = [element for element in elements if isinstance(element, dict)]
    if elements and not objects:
        raise ValueError("the list holds no operations; expected operations, each an object")
    if objects and all({"operation", "status"} <= each.keys() for each in objects):
        raise ValueError("the reply holds events and no operations; only the runtime writes events")
    # Where no other block is left over, the reply may have been cut before the one that is wanted.
    fields = (each for element in objects for each in element.values() if isinstance(each, dict))
    wanted = {name for each in fields if isinstance(name := each.get("block"), str)}
    if wanted - blocks.keys() and blocks.keys() <= wanted:
        name = min(wanted - blocks.keys())[:100]
        raise ValueError(f"{name!r} is not there; expected a fence '```block {name}' behind the list")
    seen: set[str] = set()
    return tuple(_item(each, str(number), blocks, seen) for number, each in enumerate(elements, 1))


def _item(element: Any, number: str, blocks: dict[str, str | None], seen: set[str]) -> ToolCall:
    said = element if isinstance(element, dict) else {}
    given = {key: value for key, value in said.items() if key not in ("type", "id") and value is not None}
    name, kind = said.get("id"), said.get("type")
    id = name if isinstance(name, str) and 0 < len(name) <= 200 else number
    try:
        if id in seen:
            raise ValueError(f"id {id[:100]!r} stands twice in the list; expected each id once")
        if not isinstance(kind, str) or kind not in OPERATIONS:
            raise ValueError(f"type is {kind!r:.100}; expected one of {', '.join(OPERATIONS)}")
        if name not in (None, id):
            raise ValueError("id: expected a string of 1 to 200 characters")
        for key in given.keys() & BLOCKS:
            given[key] = _text(given[key], blocks)
        fitting(OPERATIONS[kind], given)
        return call_of(kind, given, id)
    except ValueError as error:
        known = kind if isinstance(kind, str) and kind in OPERATIONS else "shell"
        hint = f"write it as {form(known)}" if known == kind else f"write one such as {form(known)}"
        answer = known if known == kind != MESSAGE else "userMessage"
        return ToolCall(id, REFUSED, {"type": answer, "message": str(error), "hint": hint})
    finally:
        seen.add(id)


def _text(given: Any, blocks: dict[str, str | None]) -> Any:
    """The text of a block, where one is named. Raises ValueError."""
    if not isinstance(given, dict) or given.keys() != {"block"} or not isinstance(given["block"], str):
        return given
    name, shown = given["block"], given["block"][:100]
    if name not in blocks:
        raise ValueError(f"it wants the block {shown!r}; expected a fence '```block {shown}' after the list")
    if (text := blocks[name]) is None:
        raise ValueError(
            f"the block {shown!r} stands twice, or a fence in it is as long as its own; "
            "expected it once, in a longer fence"
        )
    return text


def form(kind: str) -> str:
    """How an operation of this type is written."""
    fields = msgspec.structs.fields(OPERATIONS[kind])
    words = [f'"type": "{kind}"']
    words += [f'"{each.name}": {_EXAMPLES.get(each.name, _ANY_TEXT)}' for each in fields if each.required]
    optional = [each.name for each in fields if not each.required]
    return "{" + ", ".join(words) + "}" + (f" (optional: {', '.join(optional)})" if optional else "")


_EXAMPLES, _ANY_TEXT = {"path": '"src/a.py"'}, '"…"'
