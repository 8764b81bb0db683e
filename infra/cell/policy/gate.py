"""The gate of a runner: what the PM's policy says of one call, from what can be seen in it; and the PM, where that says
so. `decide` is pure; the gate looks where a path leads and, through `ask`, at the page.

In patterns `*` stands for any characters, `/` among them, `?` for one, `[ab]` and `[!ab]` for one of a set. In doubt a
rule that forbids or asks matches, and one that allows does not: small and capital letters are the same for the first
alone.

Of a text for bash, plain commands are understood: words, quoted or not, joined by `&&`, `||`, `;`, `|`, `&` and new
lines, with redirections to files. Everything else leaves the text in doubt: a shell can hide a command from any
grammar, so there is none here."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from infra.cell.actions import DENIED, NOTE
from infra.cell.tools.tool import Gate, Tool, Verdict
from infra.shared.network import address_of, as_resolved, host_matches, is_private
from infra.shared.policy import ALLOW, ASK, DENY, EXECUTE, READ, Policy, Rule

PRIVATE = "private_address"
INSTEAD = "Do something else, or say in your report why it is needed"
FILE_TOOLS = frozenset(("read_file", "write_file", "edit_file", "delete_file"))
"""What they are given becomes a file's name or its content, and no connection."""
CHANGES = frozenset(("edit_file", "delete_file"))
"""A rule that names `write_file`, and forbids or asks, means these as well."""
MAX_CHARS = 16 * 1024
"""A longer text is in doubt; a long script belongs in a file."""
MAX_WORDS = 200
"""Of one command; each may be the program that another starts."""
_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t]+)
  | (?P<join>&&|\|\||\|&|[;|\n]|&(?!>))
  | (?P<redirection>(?:[0-9]+|&)?(?:>>|>\||[<>]&(?!\s*-\S)|[<>])(?![<>(]))
  | (?P<word>(?![\#!])(?:[^\s;|&<>()'"`$\\{}]|\{\}|'[^']*'|"[^"$`\\]*")+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NO_PROGRAM = re.compile(r"\w+\+?=|.*[*?\[\]~]|\Z", re.DOTALL)
"""An assignment, or what bash may expand to another name."""
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "eval"))
_IN_URL = re.compile(r"://(?:[^\s/?#]{0,1000}@)?(\[[^\]\s]*\]|[^\s/?#:@\[\]\"'`<>|\\;,(){}&=$!*^+]+)")
_OF_NETWORK = re.compile(
    r"(?:.*/)?(?:aria2c|curl|dig|ftp|lftp|mtr|mysql|nc|ncat|netcat|nmap|nslookup|openssl|ping|psql|redis-cli|rsync|scp|"
    r"sftp|socat|ssh|telnet|traceroute|wget)"
)
"""Behind one of these each word with a dot, and each address, may be a host; elsewhere it is a version or a file."""
_DOTTED = re.compile(r"[\w-]+(?:\.[\w-]+)+")


GHOST = "ghost_extract"
Names = tuple[str, ...]
"""Of a file as patterns meet them: absolute, and from the checkout when it lies there."""
Ask = Callable[[str, Mapping[str, Any], str], Verdict]
"""What the PM says of a call of this tool with these arguments, which is asked for the given reason."""


class Command(NamedTuple):
    words: tuple[str, ...]
    """Without quotes."""
    files: tuple[str, ...] = ()
    """Of each redirection operator and file as one word."""


class Call:
    """What can be seen in a call."""

    def __init__(self, tool: str, effect: str, given: Mapping[str, Any], file: Sequence[Names] = ()) -> None:
        """`file`: its names as the path is written, and with all links followed."""
        self.tool, self.effect, self.file = tool, effect, file
        self.command = ""
        self.script: tuple[Command, ...] | None = None
        """None in doubt."""
        if effect == EXECUTE and isinstance(given.get("command"), str):
            self.command, cwd = given["command"], given.get("cwd")
            # In another directory the same words may be other programs.
            there = f"cd {shlex.quote(cwd)} && " if isinstance(cwd, str) and cwd not in ("", ".") else ""
            self.script = read(there + self.command)
        self.hosts = hosts_in(given, self.script)


class Decision(NamedTuple):
    do: str
    why: str
    flags: tuple[str, ...]


def decide(policy: Policy, call: Call) -> Decision:
    """The first rule that matches, else the default; but a private address is denied where no rule names it."""
    matching = ((number, rule) for number, rule in enumerate(policy.rules, 1) if _matches(rule, call))
    number, rule = next(matching, (0, Rule(policy.default)))
    if rule.do != DENY and policy.private_networks == DENY and call.tool not in FILE_TOOLS:
        for host in sorted(call.hosts):
            if (address := address_of(host)) and is_private(address) and not host_matches(rule.domains, host):
                why = f"{host[:80]} is an address of a private network (policy.private_networks)"
                return Decision(DENY, why, (PRIVATE,))
    where = f"rule {number} of policy.rules" if number else "policy.default"
    return Decision(rule.do, f"{where}: {rule.why}" if rule.why else where, (f"rule {number}",) if number else ())


def _matches(rule: Rule, call: Call) -> bool:
    """Every condition that is given is met."""
    also = rule.do != ALLOW and call.tool in CHANGES and "write_file" in rule.tools
    return (
        (not rule.tools or call.tool in rule.tools or also)
        and (not rule.effects or call.effect in rule.effects)
        and (not rule.commands or _command_matches(rule, call))
        and (not rule.paths or _holds(rule, (_path_matches(rule, names) for names in call.file)))
        and (not rule.domains or _holds(rule, (host_matches(rule.domains, host) for host in call.hosts)))
    )


def _holds(rule: Rule, matches: Iterable[bool]) -> bool:
    """Of all that the call names one is enough to forbid; to allow, each must match, and there must be one."""
    found = list(matches)
    return bool(found) and all(found) if rule.do == ALLOW else any(found)


def _command_matches(rule: Rule, call: Call) -> bool:
    if call.script is None:
        return bool(call.command) and rule.do != ALLOW
    if rule.do == ALLOW:
        found = [" ".join((*command.words, *command.files)) for command in call.script]
    else:
        found = [" ".join(call.command.split()), *(form for command in call.script for form in forms(command))]
    return _holds(rule, (_is_like(rule, rule.commands, each) for each in found))


def _path_matches(rule: Rule, names: Names) -> bool:
    """A pattern matches the path or a directory above it."""
    patterns = [pattern.removesuffix("/") for pattern in rule.paths]
    above = [path[: end.start()] for path in names for end in re.finditer(r"/|\Z", path)]
    return any(_is_like(rule, patterns, each) for each in above)


def _is_like(rule: Rule, patterns: Iterable[str], text: str) -> bool:
    if rule.do != ALLOW:
        patterns, text = (pattern.casefold() for pattern in patterns), text.casefold()
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def nobody(tool: str, given: Mapping[str, Any], why: str) -> Verdict:
    """The word of a PM who waits for nothing: on what the agent does of itself, and on what it does for others."""
    return Verdict(False, f"the PM would be asked ({why}), and is not asked for this work", DENIED, (DENIED,))


def gate_of(policy: Policy, checkout: str, ask: Ask) -> Gate:
    def gate(tool: Tool, given: Mapping[str, Any]) -> Verdict:
        decisions = [decide(policy, call) for call in _calls(checkout, tool, given)]
        decision = max(reversed(decisions), key=lambda each: (ALLOW, ASK, DENY).index(each.do))
        if decision.do == ALLOW:
            return Verdict(True, flags=decision.flags)
        if decision.do == ASK:
            verdict = ask(tool.name, given, decision.why)
            return verdict._replace(flags=(*decision.flags, *verdict.flags))
        words = f"the PM's policy denies this ({decision.why}). {INSTEAD}"
        return Verdict(False, words, DENIED, (*decision.flags, DENIED))

    return gate


def _calls(checkout: str, tool: Tool, given: Mapping[str, Any]) -> Sequence[Call]:
    """What the policy looks at. A note's words are words, whatever hosts they name, and its check is a command; who may
    read a page's picture as well does what the tool for that does."""
    if tool.name == NOTE:
        check = given.get("check", "").strip()
        return (Call(NOTE, READ, {}), *([Call("bash", EXECUTE, {"command": check})] if check else []))
    file = file_at(checkout, given["path"]) if tool.name in FILE_TOOLS else ()
    ghost = [Call(GHOST, EXECUTE, given)] if given.get("allow_ghost") else []
    return (Call(tool.name, tool.side_effect_class, given, file), *ghost)


def file_at(checkout: str, given: str) -> tuple[Names, ...]:
    """Where a path of the model's seems to lead, and where it leads."""
    path = os.path.join(os.path.abspath(checkout), given)
    return tuple(_names(look(path), look(checkout)) for look in (os.path.abspath, os.path.realpath))


def _names(path: str, root: str) -> Names:
    inside = os.path.relpath(path, root)
    return (path,) if inside.partition("/")[0] == os.pardir else (inside, path)


def read(text: str) -> tuple[Command, ...] | None:
    """The plain commands of a text for bash; None for a text in doubt."""
    commands: list[tuple[list[str], list[str]]] = [([], [])]
    operator = ""
    for token in _TOKEN.finditer(text[: MAX_CHARS + 1]):
        words, files = commands[-1]
        word = _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token[0])
        if token.lastgroup == "word" and operator:
            files.append(operator + word)
            operator = ""
        elif token.lastgroup == "word":
            words.append(word)
        elif token.lastgroup == "join" and not operator:
            commands.append(([], []))
        elif token.lastgroup == "redirection" and not operator:
            operator = token[0]
        elif token.lastgroup != "blank":
            return None
    found = tuple(Command(tuple(words), tuple(files)) for words, files in commands if words or files)
    return found if not operator and len(text) <= MAX_CHARS and all(map(_is_plain, found)) else None


def forms(command: Command) -> Iterator[str]:
    """What a rule that forbids looks at: the command as it stands, and from each word on, programs by their last name,
    since a program may start another (`sudo`, `xargs`)."""
    yield " ".join(command.words)
    for at, word in enumerate(command.words):  # one word may be a whole command: `env -S 'rm /x'`
        yield " ".join((re.sub(r"\A\S*/", "", word), *command.words[at + 1 :]))


def hosts_in(given: Mapping[str, Any], script: tuple[Command, ...] | None = None) -> frozenset[str]:
    """The hosts in the arguments, as they would be looked up: small letters, no dot at the end."""
    found = {host for value in given.values() for host in _IN_URL.findall(str(value))}
    text = re.sub(r"\\\n|[\"'\\$]", "", str(given.get("command", "")))
    guessed = (piece.split() for piece in re.split(r"[;|&\n()<>`]+", text))
    for words in guessed if script is None else (command.words for command in script):
        first = next((at for at, word in enumerate(words) if _OF_NETWORK.fullmatch(word)), len(words))
        for word in words[first + 1 :]:
            authority = re.split(r"[/?#]", word, maxsplit=1)[0]
            found.update(_DOTTED.findall(authority))
            found.update([authority] if ":" in authority and address_of(authority) else [])
    return frozenset(as_resolved(host).strip("[]").removesuffix(".") for host in found) - {""}


def _is_plain(command: Command) -> bool:
    words = command.words
    is_program = not words or not _NO_PROGRAM.match(words[0])
    return is_program and len(words) <= MAX_WORDS and _SHELLS.isdisjoint(word.rpartition("/")[2] for word in words)
