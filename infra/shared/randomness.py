"""What is random enough to be a key, and what stands in the place of one."""

from __future__ import annotations

import re
from itertools import pairwise


def is_random(body: str) -> bool:
    """No run of neighbours (`abc1234`, `a1b2c3`), no few characters again and again, no word that owns up."""
    if len(set(body)) < 6 or any(word in body.lower() for word in _OWNS_UP):
        return False
    return all(_neighbours(body, apart) < 0.6 * (len(body) - apart) for apart in (1, 2))


_OWNS_UP = ("example", "placeholder", "redacted", "changeme", "dummy", "sample", "notareal", "not-a-real")


def _neighbours(body: str, apart: int) -> int:
    return sum(abs(ord(one) - ord(other)) <= 1 for one, other in zip(body, body[apart:], strict=False))


def is_random_beside_words(body: str) -> bool:
    """The same of what is left when words and numbers are taken out, which must be enough to be a key."""
    if any(word in body.lower() for word in _OWNS_UP):
        return False
    left = "".join(part for part in re.split("[^A-Za-z0-9]+", body) if not re.fullmatch(_WORD, part))
    return len(left) >= 16 and is_random(left)


_WORD = "[A-Za-z]?[a-z]*[0-9]{0,4}|[A-Z]+[0-9]{0,4}|[0-9]+"


def is_random_under_a_name(value: str) -> bool:
    """The same where nothing but the name beside it says that it is a key: no identifier of a program either."""
    plain = "".join(re.findall("[A-Za-z0-9]+", value))
    classes = "".join("d" if one.isdigit() else "u" if one.isupper() else "l" for one in plain)
    changes = sum(one != other for one, other in pairwise(classes))
    return (
        len(re.findall("d+", classes)) >= 2
        and changes >= 0.15 * len(plain)
        and len(set(plain)) >= 8
        and is_random_beside_words(value)
    )


def is_no_placeholder(value: str) -> bool:
    lowered = value.lower()
    named = re.fullmatch(r"(?:my|your|the)?[-_]?(?:pass(?:word|wd)?|pw|pwd|secret|token|key)|x+|\*+|\.+", lowered)
    return not named and not any(word in lowered for word in (*_OWNS_UP, "your-", "your_", "[secret]"))


def is_no_code(value: str) -> bool:
    """A type or the name of a value; what else stands behind a password's name is one."""
    return is_no_placeholder(value) and not _CODE.fullmatch(value)


_CODE = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"
    r"|(?i:str|bytes|string|text|none|null|true|false|bool|int|any|optional|undefined)"
)
