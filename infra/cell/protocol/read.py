"""What a reply of a model asks for: operations, each valid or refused by itself; words; or nothing at all.

The list is the whole reply, fills a fence of JSON, or begins a line. Framing is forgiven where it leaves no doubt;
content is never repaired. Where two readings are possible nothing is carried out, and the model is asked again. Time is
linear in the text."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from infra.cell.actions import ToolCall
from infra.cell.protocol.operations import BLOCKS, MESSAGE, MOST_OPERATIONS, OPERATIONS, PROTOCOL, call_of, form
from infra.cell.tools.tool import REFUSED, fitting

REPLY_BYTES = 10 << 20
_BLANK = "\ufeff\u200b\u200c\u200d\u2060\u00a0"
_TAG = r"(?:\w{1,20}:)?(?:antthinking|think|thinking|thoughts?|reasoning|analysis|scratchpad|reflection)"
_OPENS = rf"<{_TAG}\b[^<>\n]*>|\[think\]|◁think▷|<!--"
_CLOSES = rf"</{_TAG}[ \t]*>|\[/think\]|◁/think▷|-->"
"""The marks of reasoning that models are trained to write, for one whose server does not take it out."""
_REASONING = re.compile(rf"[\s{_BLANK}]*(?:{_OPENS}).*?(?:{_CLOSES})", re.DOTALL | re.IGNORECASE)
_TURNS = re.compile(rf"(?P<open>{_OPENS})|{_CLOSES}", re.IGNORECASE)
_BEGINS = re.compile(
    rf"^[ \t{_BLANK}]*(?:(?:[-*]|\d+[.)])[ \t]+)?(?:"
    r"(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*?)[ \t\r]*$"
    r"|(?P<bare>\[(?=\s*(?:\{|\Z))|\{(?=\s*(?:[\"'“\w}]|\Z))))",
    re.MULTILINE,
)
"""A line that begins a fence or a list, maybe in an entry of Markdown."""
_JSON = re.compile(r"(?:json\w*|javascript|js|operations?)?", re.IGNORECASE)
_BLOCK = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*block[ ]([^\n`]*)$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)
_WHOLE = re.compile(rf"[\s{_BLANK}]*(?!\[[^\[\]{{}}\"'`]*\](?:\(|:|[ ]\w))([\[{{])")
"""A bracket at the beginning that is no link and no box of a Markdown list."""
_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))(?:(\s*),(?=\s*[\]}]))?|([\w}\]]\s*),(?=\s*[\]}])', re.DOTALL)
"""A string, with the comma behind it that is one too many; or such a comma behind another value."""
_OURS = re.compile(
    r"""["'“]?\b(?:type|operations?|action|tool|arguments|protocol\w*|events)\b["'”]?\s*:"""
    r"""|["'“](?:createFile|readFile|editFile|deleteFile|shell|message)["'”]"""
)
_PIECE_BEHIND = re.compile(r'\A\s*[,\]}\[{]|"(?:type|operations)"\s*:')
_PIECE_BEFORE = re.compile(r'(?:[}\]"]\s{0,9},|\})\s{0,9}\Z|"(?:type|operations)"\s*:')
_OTHER_DIALECT = re.compile(
    r"</?tool_?call>|<invoke\s+name=|<function[=\s]|<parameter[=\s]|<arg_key>|^\*{3,} *Begin Patch"
    r"|^(?:shell|createFile|readFile|editFile|deleteFile|message)\("
    r"""|["'“]name["'”]\s{0,20}:\s{0,20}["'“][^"'”\n]{0,100}["'”]\s{0,20},\s{0,20}"""
    r"""["'“](?:arguments|input|parameters)["'”]\s{0,20}:""",
    re.MULTILINE,
)
_NO_WORDS = re.compile(r"""[`\s]*(?:null|true|false|-?\d[\d.eE+-]*|["'\]}]|"[^"\n]*\")?[`\s]*""")


def means_operations(text: str) -> bool:
    """It has words that stand in operations of ours or of another dialect."""
    return has_call(text) or _OURS.search(text) is not None


def has_call(text: str) -> bool:
    """It holds a call of a tool, as another dialect writes it."""
    return _OTHER_DIALECT.search(text) is not None


class Requested(NamedTuple):
    """What a reply asks for."""

    items: tuple[ToolCall, ...]
    """In the order of the list: calls of tools, of MESSAGE, and of REFUSED for what is no operation of ours."""
    prose: str = ""
    """What stands beside the list; all of it when there is none."""


def read(text: str, cut: bool = False) -> Requested:
    """`cut` when the provider says that the reply ended at the limit of tokens. Raises ValueError for a reply of which
    nothing is carried out, as it means operations in another form, or may not be whole: what was found, and what was
    expected."""
    if len(text) > REPLY_BYTES or len(text.encode(errors="surrogatepass")) > REPLY_BYTES:
        raise ValueError(f"the reply is longer than {REPLY_BYTES >> 20} MiB; expected a shorter list")
    if cut:
        raise ValueError("your reply was cut at the limit of tokens; expected a whole list")
    try:
        return _read(text)
    except RecursionError:
        raise ValueError("the list nests too deep; expected operations with plain fields") from None


def _read(text: str) -> Requested:
    at = 0
    while reasoning := _REASONING.match(text, at):
        at = reasoning.end()
    text = text[at:]
    if _NO_WORDS.fullmatch(text):
        raise ValueError("the reply is empty; expected a list of operations, or a report in words")
    start = _start(text)
    if start is None:
        if other := _OTHER_DIALECT.search(text):
            line = text[other.start() :].split("\n", 1)[0][:100]
            raise ValueError(f"the reply asks for an act in another form: {line!r}; expected a list of operations")
        return Requested((), text)
    block = _BLOCK.search(text, start)
    end = block.start() if block else len(text)
    value, rest = _json(text[start:end])
    blocks, beside = _blocks(text[end:])
    before, behind = text[:start], rest + beside
    last, first = [turn["open"] for turn in _TURNS.finditer(before)][-1:], _TURNS.search(behind)
    if any(last) or (first and not first["open"]):
        raise ValueError("the list stands in reasoning or in a comment; expected it behind that")
    if _PIECE_BEHIND.search(behind) or _PIECE_BEFORE.search(before):
        raise ValueError("beside the list stands a piece of another; expected one list: [{…}, {…}]")
    return Requested(_items(value, blocks), f"{before}\n{behind}".strip("`~ \t\r\n"))


def _start(text: str) -> int | None:
    """Where the list begins, if there is one. What stands in a fence of another language is quoted."""
    if whole := _WHOLE.match(text):
        return whole.start(1)
    at = 0
    while found := _BEGINS.search(text, at):
        if found["bare"]:
            return found.start("bare") if _OURS.search(text, found.start("bare")) else None
        closing = re.compile(rf"{_same(found['fence'])}\r?$", re.MULTILINE).search(text, found.end())
        end, at = closing.span() if closing else (len(text), len(text))
        inside = _WHOLE.match(text, found.end(), end) if _JSON.fullmatch(found["info"]) else None
        if inside and _OURS.search(text, inside.start(1), end):
            return inside.start(1)
    return None


def _same(fence: str) -> str:
    """The beginning of a line with a fence that closes this one."""
    return rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*"


def _blocks(text: str) -> tuple[dict[str, str], str]:
    """The blocks by their names, and what stands beside them. Raises ValueError where it is in doubt where one ends."""
    blocks, beside, at = dict[str, str](), "", 0
    while fence := _BLOCK.search(text, at):
        name = fence[2].strip()
        closing = re.compile(rf"{_same(fence[1])}\r?$", re.MULTILINE).search(text, fence.end())
        if closing is None:
            raise ValueError(f"the block {name[:100]!r} does not end; expected the fence that closes it")
        body = text[fence.end() + 1 : closing.start()]
        if name in blocks or re.compile(rf"{_same(fence[1])}[^\s`~]", re.MULTILINE).search(body):
            raise ValueError(f"the block {name[:100]!r} {_IN_DOUBT}")
        blocks[name], beside, at = body, beside + text[at : fence.start()], closing.end()
    beside += text[at:]
    if blocks and _FENCE.search(beside):  # it may be the end of a block
        raise ValueError(f"a block {_IN_DOUBT}")
    return blocks, beside


_IN_DOUBT = "stands twice, or a fence in it is as long as its own; expected it once, in a longer fence"


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


def _items(value: Any, blocks: dict[str, str]) -> tuple[ToolCall, ...]:
    if isinstance(value, dict) and "operations" in value:
        version = value.get("protocol", value.get("protocolVersion", PROTOCOL))
        extra = sorted(value.keys() - {"operations", "protocol", "protocolVersion"})
        if version != PROTOCOL or extra or not isinstance(value["operations"], list):
            found = f"protocol {version!r:.100}, keys {extra!r:.100}"
            raise ValueError(f"found {found}; expected protocol {PROTOCOL} and a list of operations alone")
        value = value["operations"]
    elements = value if isinstance(value, list) else [value]
    if len(elements) > MOST_OPERATIONS:
        raise ValueError(f"the list holds {len(elements)} operations; expected at most {MOST_OPERATIONS}")
    for element in elements:
        _place_texts(element, blocks)
    seen: set[str] = set()
    return tuple(_item(each, str(number), seen) for number, each in enumerate(elements, 1))


def _place_texts(element: Any, blocks: dict[str, str]) -> None:
    """In the place of the names of blocks. Raises ValueError for one that is not there: the reply may be cut."""
    for field in element.keys() & BLOCKS if isinstance(element, dict) else ():
        match element[field]:
            case {"block": str(name), **more} if not more:
                if name not in blocks:
                    shown = name[:100]
                    raise ValueError(f"the block {shown!r} is not there; expected '```block {shown}' behind the list")
                element[field] = blocks[name]


def _item(element: Any, number: str, seen: set[str]) -> ToolCall:
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
        fitting(OPERATIONS[kind], given)
        return call_of(kind, given, id)
    except ValueError as error:
        known = kind if isinstance(kind, str) and kind in OPERATIONS else "shell"
        hint = f"write it as {form(known)}" if known == kind else f"write one such as {form(known)}"
        answer = known if known == kind != MESSAGE else "userMessage"
        return ToolCall(id, REFUSED, {"type": answer, "message": str(error), "hint": hint})
    finally:
        seen.add(id)
