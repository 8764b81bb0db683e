"""The PM's policy for the acts of the model: a section of the settings, carried to the runner when it starts.

The reader of the settings asks each `problem_with`; the runner reads what the keep checked. What the rules mean is
decided in `infra/cell/policy`."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from infra.shared.text import cut, is_visible

ALLOW: Final = "allow"
ASK: Final = "ask"
DENY: Final = "deny"
READ: Final = "read"
WRITE: Final = "write"
EXECUTE: Final = "execute"
AUTH: Final = "auth"
MAX_BYTES = 16 * 1024
"""Of the whole policy as text: it lies in the environment of the runner."""
MAX_LENGTH = 200
"""Of a pattern, in characters."""
_CLOSED = re.compile(r"(?:[^\[]|\[(?:!.|[^!])[^\]]*\])*", re.DOTALL)
"""Each '[' has its ']'; the first character of a set may be the one that otherwise ends it."""


def problem_with_pattern(pattern: str) -> str:
    """Why nothing can be matched against it; empty when it can."""
    shown = ascii(cut(pattern, 80))
    if len(pattern) > MAX_LENGTH:
        return f"{shown} is {len(pattern)} characters long; at most {MAX_LENGTH} are allowed"
    if not is_visible(pattern):
        return f"{shown} holds a character that cannot be seen"
    return (
        "" if _CLOSED.fullmatch(pattern) else f"{shown} has a '[' without its ']'; for the character itself write [[]"
    )


def _problem_with_command(pattern: str) -> str:
    if pattern != " ".join(pattern.split()) or not pattern:
        return f"{cut(pattern, 80)!a} is empty or has more than single blanks; a command is matched with single ones"
    return problem_with_pattern(pattern)


def _problem_with_path(pattern: str) -> str:
    parts = pattern.strip("/").split("/")
    if pattern != pattern.strip() or any(part in ("", ".", "..") for part in parts):
        return f"{cut(pattern, 80)!a} is not a path from the checkout, such as infra/ or *.lock, nor an absolute one"
    return problem_with_pattern(pattern)


def _problem_with_domain(name: str) -> str:
    import ipaddress  # neither is needed when a runner starts

    from infra.shared.network import problem_with_host_name

    try:
        ipaddress.ip_network(name)
    except ValueError as error:
        if re.fullmatch(r"[0-9a-fA-F:.]+(/[0-9]+)?", name) and (":" in name or name[-1:].isdigit()):
            return f"{cut(name, 80)!a} is not an address or network ({str(error)[:200]})"
        return problem_with_host_name(name) or ""
    return ""


Do = Literal["allow", "ask", "deny"]
Tool = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z", description="the name of a tool, such as bash")]
Effect = Literal["read", "write", "execute", "auth"]
"""What a tool can change at most: nothing; the agent's own files; anything that a program with its rights can; which
version is active, or what main is."""
Command = Annotated[str, Meta(extra={"problem_with": _problem_with_command})]
Path = Annotated[str, Meta(extra={"problem_with": _problem_with_path})]
Domain = Annotated[str, Meta(extra={"problem_with": _problem_with_domain})]
_SOME = Meta(min_length=1)


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done with a call that meets every condition that is given; of each list, one is enough."""

    do: Do
    tools: Annotated[tuple[Tool, ...], _SOME] = ()
    effects: Annotated[tuple[Effect, ...], _SOME] = ()
    commands: Annotated[tuple[Command, ...], _SOME] = ()
    paths: Annotated[tuple[Path, ...], _SOME] = ()
    domains: Annotated[tuple[Domain, ...], _SOME] = ()
    why: Annotated[str, Meta(max_length=500)] = ""


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    default: Do = ALLOW
    """What to do with a tool call that no rule matches: allow, deny, or ask: it waits for `minifram approve`."""
    private_networks: Literal["allow", "deny"] = DENY
    """deny: refuse a call that names a private, link-local or other non-public address; loopback is allowed."""
    rules: Annotated[tuple[Rule, ...], Meta(max_length=100)] = ()
    """In order, the first that matches counts (SPEC_POLICY), such as [{do: ask, effects: [auth]}, {do: deny, commands:
    ['git push *'], why: I push}]; conditions: tools, effects, commands, paths, domains."""

    def __post_init__(self) -> None:
        """A rule whose only condition this version does not know would hold for every call."""
        bare = [number for number, rule in enumerate(self.rules, 1) if rule == Rule(rule.do, why=rule.why)]
        problems = [f"rules.{number} has no condition; set policy.default for all the rest" for number in bare]
        if (size := len(msgspec.json.encode(self))) > MAX_BYTES:
            problems.append(f"rules takes {size:,} bytes as JSON; at most {MAX_BYTES:,} reach the runner")
        if problems:
            raise ValueError("\n".join(problems))
