"""What the policy says of one call, from what can be seen in it. Pure."""

from __future__ import annotations

import shlex
from functools import cached_property
from typing import Any, NamedTuple

from infra.cell.policy.commands import Script, read
from infra.cell.policy.hosts import Hosts, hosts_in
from infra.cell.policy.patterns import command_allowed, command_forbidden, path_matches
from infra.shared.addresses import is_private, readings
from infra.shared.host_rules import host_matches
from infra.shared.policy import ALLOW, DENY, Policy, Rule

PRIVATE = "private_address"
FILE_TOOLS = frozenset(("read_file", "write_file", "edit_file", "delete_file"))
"""What they are given becomes a file's name or its content, and no connection."""
_ALSO = {"edit_file": "write_file", "delete_file": "write_file"}
"""A rule that names the second forbids, or asks about, the first as well; it allows an edit, and no deletion."""


class File(NamedTuple):
    """The names of a file as patterns meet them: absolute, and from the checkout when it lies there."""

    real: tuple[str, ...] = ()
    """With all links followed."""
    seeming: tuple[str, ...] = ()


_NO_FILE = File()


class Call:
    """What can be seen in a call; the costly things are looked at when a rule asks for them."""

    def __init__(self, tool: str, effect: str, given: dict[str, Any], file: File = _NO_FILE) -> None:
        self.tool = tool
        self.effect = effect
        self.file = file
        command = given.get("command") if effect == "execute" else None
        self.command = command if isinstance(command, str) else None
        cwd = given.get("cwd") if effect == "execute" else None
        self.cwd = cwd if isinstance(cwd, str) and cwd not in ("", ".") else None
        path = given.get("path") if tool in FILE_TOOLS else None
        self.path = path if isinstance(path, str) else None
        """As it was given."""
        self._given = given

    @cached_property
    def script(self) -> Script | None:
        return None if self.command is None else read(self.command)

    @cached_property
    def whole_script(self) -> Script | None:
        """With the change to another directory, where the same words may be other programs."""
        if self.command is None or self.cwd is None:
            return self.script
        return read(f"cd {shlex.quote(self.cwd)} && {self.command}")

    @cached_property
    def hosts(self) -> Hosts:
        return hosts_in(self._given, self.script)


class Decision(NamedTuple):
    do: str
    why: str
    flags: tuple[str, ...]


def decide(policy: Policy, call: Call) -> Decision:
    """The first rule that matches, else the default; but a private address is denied where no rule names it."""
    number, rule = next(
        ((number, rule) for number, rule in enumerate(policy.rules, 1) if matches(rule, call)),
        (0, Rule(policy.default)),
    )
    flags = (f"rule {number}",) if number else ()
    if rule.do != DENY and policy.private_networks == DENY and call.tool not in FILE_TOOLS:
        private = _private(call.hosts, rule.domains)
        if private:
            return Decision(DENY, f"{private} is an address of a private network (policy.private_networks)", (PRIVATE,))
    where = f"rule {number} of policy.rules" if number else "policy.default"
    return Decision(rule.do, f"{where}: {rule.why}" if rule.why else where, flags)


def matches(rule: Rule, call: Call) -> bool:
    """Every condition that is given is met."""
    return (
        (not rule.tools or call.tool in rule.tools or _is_also_meant(rule, call.tool))
        and (not rule.effects or call.effect in rule.effects)
        and (not rule.commands or _command_matches(rule, call))
        and (not rule.paths or _path_matches(rule, call))
        and (not rule.domains or _domain_matches(rule, call))
    )


def _is_also_meant(rule: Rule, tool: str) -> bool:
    return _ALSO.get(tool) in rule.tools and (rule.do != ALLOW or tool != "delete_file")


def _command_matches(rule: Rule, call: Call) -> bool:
    if call.command is None or call.script is None or call.whole_script is None:
        return False
    if rule.do == ALLOW:
        return command_allowed(rule.commands, call.whole_script)
    return command_forbidden(rule.commands, call.command, call.whole_script)


def _path_matches(rule: Rule, call: Call) -> bool:
    if rule.do == ALLOW:
        return any(path_matches(rule.paths, path, fold=False) for path in call.file.real)
    return any(path_matches(rule.paths, path, fold=True) for path in (*call.file.real, *call.file.seeming))


def _domain_matches(rule: Rule, call: Call) -> bool:
    named = [host_matches(rule.domains, host) for host in call.hosts.names]
    if rule.do == ALLOW:
        return call.hosts.whole and bool(named) and all(named)
    return any(named) or not call.hosts.whole


def _private(hosts: Hosts, named: tuple[str, ...]) -> str:
    """A private address that the rule does not name; empty for none."""
    for host in sorted(hosts.names):
        if any(map(is_private, readings(host))) and not host_matches(named, host):
            return host[:80]
    return "" if hosts.whole else "what could not be looked through"
