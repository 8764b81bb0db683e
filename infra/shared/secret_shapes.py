"""What in a text is a secret: values that are known, and what has the shape of a provider's key.

A shape alone is no secret: what stands where the random part should be is looked at too, so that names, placeholders
and counted-up test keys pass. Nothing is found that is encoded, compressed, encrypted or put together from pieces
(SPEC_PUSHES.md). Pure, and linear in the text; the expressions are compiled when a text first has need of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from infra.shared.text import cut

LEAST_KNOWN = 8
"""Shorter values are ignored: they would be found everywhere."""
MARK = "[secret]"


class Found(NamedTuple):
    kind: str
    """What it is, in words that fit behind "holds"."""
    start: int
    end: int


def find_secrets(text: bytes, known: tuple[bytes, ...] = ()) -> list[Found]:
    """All secrets in order; none overlaps another. `known` are exact values, such as the keep's own keys."""
    return _in_order(text, known, every=False)


def redacted(text: str, known: tuple[bytes, ...] = ()) -> str:
    """The text with a mark in place of every secret, and of every password that an address or a header holds: what is
    shown need not be so sure as what refuses a push."""
    raw = text.encode(errors="surrogatepass")
    shown = redacted_bytes(raw, known)
    return text if shown is raw else shown.decode(errors="surrogatepass")


def redacted_bytes(raw: bytes, known: tuple[bytes, ...] = ()) -> bytes:
    parts, at = list[bytes](), 0
    for hit in _in_order(raw, known, every=True):
        parts += [raw[at : hit.start], MARK.encode()]
        at = hit.end
    return b"".join([*parts, raw[at:]]) if parts else raw


def redacted_and_cut(text: str, most: int, known: tuple[bytes, ...] = ()) -> str:
    """At most `most` characters of the text, for every place that shows a part of what somebody else wrote: a secret
    that is cut first is not recognised any more, and its beginning is shown."""
    return cut(redacted(text, known), most)


def redacted_value(value: Any) -> Any:
    """A JSON value with all its texts redacted, names as well, and what stands under the name of a secret. Names that
    come out the same are numbered: of a call that the PM is to approve, no argument may hide another."""
    match value:
        case str():
            return redacted(value)
        case dict():
            shown: dict[str, Any] = {}
            for at, (key, inner) in enumerate(value.items(), 1):
                name = redacted(str(key))
                while name in shown:
                    name = f"{name} {at}"
                shown[name] = _hidden(key, inner) if _names_a_secret(str(key)) else redacted_value(inner)
            return shown
        case list() | tuple():
            return [redacted_value(inner) for inner in value]
    return value


@lru_cache(maxsize=1024)
def _names_a_secret(name: str) -> bool:
    """`api_key`, `X-Auth-Token`, `dbPassword`; not `input_tokens` nor `max_tokens`."""
    plain = "".join(re.findall("[a-z0-9]+", name.lower()[-40:]))
    return plain.endswith(_SECRET_NAMES) or plain in ("pwd", "pass", "cookie")


_SECRET_NAMES = (
    *("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "secret", "password", "passwd", "passphrase"),
    *("token", "credential", "credentials", "authorization", "setcookie"),
)


def _hidden(name: str, value: Any) -> Any:
    """Numbers under `…token` count something; a schema or another part of an object is looked into as usual."""
    match value:
        case str() if value and not (value.isdecimal() and name.lower().endswith("token")):
            return MARK
        case list() | tuple():
            return [_hidden(name, inner) for inner in value]
        case int() | float() if not isinstance(value, bool) and not name.lower().endswith("token"):
            return MARK
    return redacted_value(value)


def _in_order(text: bytes, known: tuple[bytes, ...], every: bool) -> list[Found]:
    lowered = text.lower()
    found = [hit for value in known if len(value) >= LEAST_KNOWN for hit in _exact(text, value)]
    # Most texts are short, and have none.
    for shape in dict.fromkeys([shape for anchor, shape in _ANCHORS if anchor in (lowered if shape.beside else text)]):
        if every or shape.refuses:
            found += _shaped(text, lowered if shape.beside else text, shape)
    ordered: list[Found] = []
    for hit in sorted(found, key=lambda hit: (hit.start, -hit.end)):
        if not ordered or hit.start >= ordered[-1].end:
            ordered.append(hit)
        elif hit.end > ordered[-1].end:
            ordered[-1] = ordered[-1]._replace(end=hit.end)
    return ordered


def _exact(text: bytes, value: bytes) -> Iterator[Found]:
    at = text.find(value)
    while at >= 0:
        yield Found("a secret of the PM's", at, at + len(value))
        at = text.find(value, at + len(value))


def _shaped(text: bytes, searched: bytes, shape: _Shape) -> Iterator[Found]:
    for anchor in shape.anchors:
        at = searched.find(anchor)
        while at >= 0:
            match = _compiled(shape.expression).match(text, at)
            if match is None:
                at = searched.find(anchor, at + len(anchor))
                continue
            group = match.lastindex or 0
            if shape.is_random(match[group].decode("latin-1")):
                yield Found(f"what looks like {shape.kind}", *match.span(group if shape.beside else 0))
            at = searched.find(anchor, match.end())


@cache
def _compiled(expression: bytes) -> re.Pattern[bytes]:
    return re.compile(expression)


# What is random enough to be a key, and what stands in the place of one.


def _is_random(body: str) -> bool:
    """No run of neighbours (`abc1234`, `a1b2c3`), no few characters again and again, no word that owns up."""
    if len(set(body)) < 6 or any(word in body.lower() for word in _OWNS_UP):
        return False
    return all(_neighbours(body, apart) < 0.6 * (len(body) - apart) for apart in (1, 2))


_OWNS_UP = ("example", "placeholder", "redacted", "changeme", "dummy", "sample", "notareal", "not-a-real")


def _neighbours(body: str, apart: int) -> int:
    return sum(abs(ord(one) - ord(other)) <= 1 for one, other in zip(body, body[apart:], strict=False))


def _is_random_beside_words(body: str) -> bool:
    """The same of what is left when words and numbers are taken out, which must be enough to be a key."""
    if any(word in body.lower() for word in _OWNS_UP):
        return False
    left = "".join(part for part in re.split("[^A-Za-z0-9]+", body) if not re.fullmatch(_WORD, part))
    return len(left) >= 16 and _is_random(left)


_WORD = "[A-Za-z]?[a-z]*[0-9]{0,4}|[A-Z]+[0-9]{0,4}|[0-9]+"


def _is_random_under_a_name(value: str) -> bool:
    """The same where nothing but the name beside it says that it is a key: no identifier of a program either."""
    plain = "".join(re.findall("[A-Za-z0-9]+", value))
    classes = "".join("d" if one.isdigit() else "u" if one.isupper() else "l" for one in plain)
    changes = sum(one != other for one, other in pairwise(classes))
    return (
        len(re.findall("d+", classes)) >= 2
        and changes >= 0.15 * len(plain)
        and len(set(plain)) >= 8
        and _is_random_beside_words(value)
    )


def _is_no_placeholder(value: str) -> bool:
    lowered = value.lower()
    named = re.fullmatch(r"(?:my|your|the)?[-_]?(?:pass(?:word|wd)?|pw|pwd|secret|token|key)|x+|\*+|\.+", lowered)
    return not named and not any(word in lowered for word in (*_OWNS_UP, "your-", "your_", "[secret]"))


def _is_no_code(value: str) -> bool:
    """A type or the name of a value; what else stands behind a password's name is one."""
    return _is_no_placeholder(value) and not _CODE.fullmatch(value)


_CODE = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"
    r"|(?i:str|bytes|string|text|none|null|true|false|bool|int|any|optional|undefined)"
)


# What has a shape of its own. Each expression is tried where its anchor stands, and begins with it.


class _Shape(NamedTuple):
    kind: str
    anchors: tuple[bytes, ...]
    expression: bytes
    """Its group is the random part. Bounded, and without ways back (`}+`), or a long text could take for ever."""
    is_random: Callable[[str], bool] = _is_random
    beside: bool = False
    """The anchor is the name beside the secret, in small or capital letters; its group alone is the secret."""
    refuses: bool = True
    """A push that holds it is refused; else it is only left out of what is shown."""


_ALONE = rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
"""Not within a word; `\\n` in a string and `%3D` in an address are no words."""
_NAMES = (
    *(b"api_key", b"api-key", b"apikey", b"access_key", b"access-key", b"accesskey", b"secret", b"password", b"passwd"),
    *(b"access_token", b"accesstoken", b"auth_token", b"authtoken", b"refresh_token", b"refreshtoken", b"bot_token"),
    *(b"private_key", b"privatekey"),
)
_VALUE = rb"""(?: \\{0,7}["'`] ([a-z0-9_\-+/=.~!@\#%^&*]{20,512}+) \\{0,7}["'`]
  | ([a-z0-9_\-+/=.~]{20,512}+) (?= [\s,;&"'`\\)}\]<] | \Z ) )"""

_SHAPES: tuple[_Shape, ...] = (
    _Shape(
        "a private key",
        (b"-----BEGIN ",),
        rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        # Atomic: the ways to cut `a: a: a:` into headers are without number.
        rb"""(?:[\s"',+]|\\{1,8}[nr])*+(?>(?:[A-Za-z-]{1,30}: [^\r\n\\]{0,200}(?:\s|\\{1,8}[nr]){1,8}){0,8})"""
        # Without its end it ends with its last letter: a quote behind it is not the key's.
        rb"""((?:[A-Za-z0-9+/=]|[\s"',+]|\\{1,8}[nr]){40,65536})(?:-----END[A-Z0-9 ]{1,60}-----|(?<=[A-Za-z0-9+/=]))""",
        lambda body: len(set(body)) >= 12,
    ),
    _Shape("a key of Anthropic", (b"sk-ant-",), rb"sk-ant-([A-Za-z0-9_-]{24,500})", _is_random_beside_words),
    _Shape(
        "a key of OpenAI or the like",
        (b"sk-",),
        _ALONE + rb"sk-(?!ant-)([A-Za-z0-9_-]{20,500})",
        _is_random_beside_words,
    ),
    _Shape(
        "a GitHub token",
        (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
        _ALONE + rb"gh[pousr]_([A-Za-z0-9]{36,255})",
    ),
    _Shape("a GitHub token", (b"github_pat_",), rb"github_pat_([A-Za-z0-9]{22}_[A-Za-z0-9]{59})"),
    _Shape("a GitLab token", (b"glpat-",), rb"glpat-([A-Za-z0-9_-]{20,200})"),
    _Shape(
        "the id of an AWS key",
        (b"AKIA", b"ASIA", b"ABIA", b"ACCA"),
        _ALONE + rb"A(?:KI|SI|BI|CC)A([A-Z2-7]{16})(?![A-Za-z0-9])",
    ),
    _Shape("a key of Google", (b"AIza",), _ALONE + rb"AIza([A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
    _Shape("a Google client secret", (b"GOCSPX-",), rb"GOCSPX-([A-Za-z0-9_-]{28})"),
    _Shape("a Slack token", (b"xox",), _ALONE + rb"xox[abeoprs]-([A-Za-z0-9-]{24,300})", _is_random_beside_words),
    _Shape(
        "a Slack webhook",
        (b"hooks.slack.com/services/",),
        rb"hooks\.slack\.com/services/T[A-Z0-9]{5,20}/B[A-Z0-9]{5,20}/([A-Za-z0-9]{24})",
    ),
    _Shape("a key of Stripe", (b"sk_live_", b"rk_live_"), rb"[sr]k_live_([A-Za-z0-9]{24,250})"),
    _Shape("an npm token", (b"npm_",), _ALONE + rb"npm_([A-Za-z0-9]{36})(?![A-Za-z0-9])"),
    _Shape("a PyPI token", (b"pypi-AgE",), rb"pypi-AgE([A-Za-z0-9_-]{60,500})"),
    _Shape("a Hugging Face token", (b"hf_",), _ALONE + rb"hf_(?![a-z]{34})([A-Za-z]{34})(?![A-Za-z0-9_])"),
    _Shape("a key of SendGrid", (b"SG.",), _ALONE + rb"SG\.([A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})"),
    _Shape("a DigitalOcean token", (b"dop_v1_",), rb"dop_v1_([a-f0-9]{64})"),
    _Shape("a key of Groq", (b"gsk_",), _ALONE + rb"gsk_([A-Za-z0-9]{52})"),
    _Shape("a Telegram bot's token", (b":AA",), rb"(?<=[0-9]{8}):AA([A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])"),
    _Shape(
        "a signed web token (JWT)",
        (b"eyJ",),
        _ALONE + rb"eyJ[A-Za-z0-9_-]{8,2000}+\.eyJ[A-Za-z0-9_-]{8,8000}+\.([A-Za-z0-9_-]{20,2000})",
    ),
    _Shape(
        "a password in an address",
        (b"://",),
        rb"""://[^\s/:@"'<>]{0,100}+:([^\s/:@"'<>]{12,200}+)@""",
        _is_random_under_a_name,
        beside=True,
    ),
    _Shape(
        "a secret beside its name",
        _NAMES,
        rb"(?ix) (?<!:) (?:"
        + b"|".join(_NAMES)
        + rb""")
        (?:[_-]?(?:access[_-]?)?(?:key|token))? (?:[_-]?(?:base|value))?
        (?:\\{0,7}["'`])? \]? [ \t]{0,4}
        (?: : [ \t]{0,2} [a-z][a-z0-9_.\[\]|]{0,30} [ \t]{0,2} (?==) )?  # a type, as in `api_key: str =`
        (?: => | [:=]=? ) [ \t]{0,4} """
        + _VALUE,
        _is_random_under_a_name,
        beside=True,
    ),
    _Shape("a bearer's token", (b"bearer ",), rb"(?ix) bearer[ ]{1,4} " + _VALUE, _is_random_under_a_name, beside=True),
    _Shape(
        "a password in an address",
        (b"://",),
        rb"""://[^\s/:@"'<>]{0,100}+:([^\s/:@"'<>\[\]{}$]{3,200}+)@""",
        _is_no_placeholder,
        beside=True,
        refuses=False,
    ),
    _Shape(
        "a password beside its name",
        (b"passw", b"passphrase"),
        rb"""(?ix) pass(?:word|wd|phrase) (?:\\{0,7}["'`])? [ \t]{0,4} [:=] (?![:=]) [ \t]{0,4}
        (?: \\{0,7}["'`] ([^"'`\\\n]{3,200}+) \\{0,7}["'`] | ([^\s"'`,;<>()\[\]{}$&|\\]{3,200}+) (?! [(\[{] ) )""",
        _is_no_code,
        beside=True,
        refuses=False,
    ),
    _Shape(
        "what a header authorises with",
        (b"authorization",),
        rb"""(?ix) authorization \\{0,7}["'`]? [ \t]{0,4} [:=] [ \t]{0,4} \\{0,7}["'`]?
        (?: (?:basic|bearer|token|digest|apikey|bot) [ ]{1,4} ) ([a-z0-9_\-+/=.~]{8,2000}+)""",
        _is_no_placeholder,
        beside=True,
        refuses=False,
    ),
)
_ANCHORS = [(anchor, shape) for shape in _SHAPES for anchor in shape.anchors]
