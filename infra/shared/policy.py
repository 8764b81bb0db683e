"""The PM's policy for the acts of the model: its rules as values, what is no rule, and the text in which it goes from
the keep to the runner.

What the rules mean is decided in `infra/cell/policy`; here they are only checked and carried."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from infra.shared.host_names import problem_with_host_name
from infra.shared.text import cut
from infra.shared.visible import is_visible

ALLOW, ASK, DENY = "allow", "ask", "deny"
DOINGS = (ALLOW, ASK, DENY)
READ, EXECUTE, AUTH = "read", "execute", "auth"
EFFECTS = (READ, "write", EXECUTE, AUTH)
MAX_RULES = 100
MAX_BYTES = 16 * 1024
"""Of the whole policy as text: it lies in the environment of the runner."""
MAX_LENGTH = 200
"""Of a pattern, in characters."""
MAX_WHY = 500
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Rule(NamedTuple):
    """What is done with a call that meets every condition that is given; of each list, one is enough."""

    do: str
    tools: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    why: str = ""


class Policy(NamedTuple):
    """The first rule that matches counts, else `default`."""

    default: str = ALLOW
    private_networks: str = DENY
    rules: tuple[Rule, ...] = ()


def to_text(policy: Policy) -> str:
    """One JSON value, short: what is not given is not written."""
    rules = [{key: value for key, value in rule._asdict().items() if value} for rule in policy.rules]
    return json.dumps(policy._asdict() | {"rules": rules}, separators=(",", ":"))


def from_text(text: str) -> Policy:
    """Read what `to_text` wrote; the empty text is the default policy. Raises ValueError that says what is wrong."""
    if not text:
        return Policy()
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the policy is not JSON ({error})") from None
    if not isinstance(raw, dict) or raw.keys() != set(Policy._fields):
        raise ValueError(f"the policy has other keys than {', '.join(Policy._fields)}")
    if raw["default"] not in DOINGS or raw["private_networks"] not in (ALLOW, DENY):
        raise ValueError("the policy's default or private_networks is not a word that is known here")
    for problem in problems_with_rules(raw["rules"]):
        raise ValueError(f"the policy's {problem}")
    return Policy(raw["default"], raw["private_networks"], tuple(map(_rule, raw["rules"])))


def _rule(raw: dict[str, Any]) -> Rule:
    lists: dict[str, Any] = {key: tuple(raw[key]) for key in _CONDITIONS if key in raw}
    return Rule(do=raw["do"], why=raw.get("why", ""), **lists)


def problem_with_size(policy: Policy) -> str | None:
    size = len(to_text(policy))
    if size > MAX_BYTES:
        return f"the rules take {size:,} bytes as JSON; at most {MAX_BYTES:,} reach the runner: shorten or join some"
    return None


def problems_with_rules(raw: Any) -> Iterator[str]:
    """All that is wrong with a list of rules as YAML or JSON gives it, each problem with the number of its rule."""
    if not isinstance(raw, list):
        yield f"rules must be a list of rules, such as [{{do: ask, effects: [auth]}}]; found {type(raw).__name__}"
        return
    if len(raw) > MAX_RULES:
        yield f"rules has {len(raw)} rules; at most {MAX_RULES}"
    for number, rule in enumerate(raw, 1):
        for problem in _problems_with_rule(rule):
            yield f"rules: rule {number}: {problem}"


def _problems_with_rule(rule: Any) -> Iterator[str]:
    if not isinstance(rule, dict):
        yield f"must be a mapping such as {{do: ask, effects: [auth]}}; found {_shown(rule)}"
        return
    for key in rule:
        if key not in Rule._fields:
            yield f"unknown key {_shown(key)}; known here: {', '.join(Rule._fields)}"
    if "do" not in rule:
        yield f"do is missing; expected one of {', '.join(DOINGS)}"
    elif rule["do"] not in DOINGS:
        yield f"do is {_shown(rule['do'])}; expected one of {', '.join(DOINGS)}"
    why = rule.get("why", "")
    if not isinstance(why, str) or len(why) > MAX_WHY:
        yield f"why is {_shown(why)}; expected words, at most {MAX_WHY} characters"
    if not any(key in rule for key in _CONDITIONS):
        yield f"has no condition; give one of {', '.join(_CONDITIONS)}, or set policy.default for all the rest"
    for key, problem_with in _CONDITIONS.items():
        if key in rule:
            yield from (f"{key}: {problem}" for problem in _problems_with_list(rule[key], problem_with))


def _problems_with_list(raw: Any, problem_with: Callable[[str], str | None]) -> Iterator[str]:
    if not isinstance(raw, list | tuple) or not raw:
        yield f"expected a list with at least one word; found {_shown(raw)}"
        return
    for item in raw:
        problem = problem_with(item) if isinstance(item, str) else f"{_shown(item)} is not a word; put it into quotes"
        if problem:
            yield problem


def _problem_with_tool(name: str) -> str | None:
    return None if _TOOL.fullmatch(name) else f"{_shown(name)} is not a name of a tool, such as bash or write_file"


def _problem_with_effect(name: str) -> str | None:
    return None if name in EFFECTS else f"{_shown(name)} is not a class of effect; expected {', '.join(EFFECTS)}"


def _problem_with_command(pattern: str) -> str | None:
    if pattern != " ".join(pattern.split()) or not pattern:
        return f"{_shown(pattern)} is empty or has more than single blanks; a command is matched with single ones"
    return _problem_with_pattern(pattern)


def _problem_with_path(pattern: str) -> str | None:
    parts = pattern.strip("/").split("/")
    if not pattern.strip("/") or pattern != pattern.strip() or any(part in ("", ".", "..") for part in parts):
        return f"{_shown(pattern)} is not a path from the checkout, such as infra/ or *.lock, nor an absolute one"
    return _problem_with_pattern(pattern)


def _problem_with_pattern(pattern: str) -> str | None:
    if len(pattern) > MAX_LENGTH:
        return f"{_shown(pattern)} is {len(pattern)} characters long; at most {MAX_LENGTH} are allowed"
    if not is_visible(pattern):
        return f"{_shown(pattern)} holds a character that cannot be seen"
    at = pattern.find("[")
    while at >= 0:
        # The first character of a set may be the one that otherwise ends it.
        end = pattern.find("]", at + (3 if pattern[at + 1 : at + 2] == "!" else 2))
        if end < 0:
            return f"{_shown(pattern)} has a '[' without its ']'; for the character itself write [[]"
        at = pattern.find("[", end)
    return None


def _problem_with_domain(name: str) -> str | None:
    import ipaddress  # costs some milliseconds, and few policies name a domain

    try:
        ipaddress.ip_network(name)
    except ValueError as error:
        if re.fullmatch(r"[0-9a-fA-F:.]+(/[0-9]+)?", name) and (":" in name or name[-1:].isdigit()):
            return f"{_shown(name)} is not an address or network ({str(error)[:200]})"
        return problem_with_host_name(name)
    return None


def _shown(value: Any) -> str:
    text = ascii(value)
    return cut(text, 80)


_CONDITIONS: dict[str, Callable[[str], str | None]] = {
    "tools": _problem_with_tool,
    "effects": _problem_with_effect,
    "commands": _problem_with_command,
    "paths": _problem_with_path,
    "domains": _problem_with_domain,
}
