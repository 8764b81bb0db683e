"""Which hosts and addresses the web door may reach: the PM's settings and rules. Pure.

A rule that denies or asks matches a host by its name and by what it resolves to; one that allows, by the name alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from infra.keep.web_door.refusal import denied
from infra.keep.web_door.target import PORTS, Target
from infra.shared.addresses import Address, is_inner
from infra.shared.host_rules import host_matches
from infra.shared.policy import ALLOW, ASK, DENY, Policy, Rule

Tool = Literal["fetch_page", "web_search"]
EFFECT = "read"
"""Of both tools."""
PRIVATE, ALLOWED = "private_address", "allowed_domains"
_INSTEAD = "do without this address, or ask the PM in your report"
_FIRST_FREE_PORT = 1024


class Permit(NamedTuple):
    """A host that may be asked."""

    flags: tuple[str, ...] = ()
    is_named: bool = False
    """The PM named this very host: it may have a private address, and any port."""


class Judge(NamedTuple):
    policy: Policy
    allowed_domains: tuple[str, ...] = ()
    search_origin: str = ""
    """Of web.search_url, which the PM named: `web_search` may go there wherever it is."""

    def host(self, target: Target, tool: Tool, asked: str = "") -> Permit:
        """Before the name is looked up. `asked`: the host that the agent named, when this one comes from a redirect.
        Raises WebRefusal."""
        number, rule = self._rule(target.host, tool, ())
        if rule.do == DENY:
            raise denied(f"the PM's policy denies {target.host} ({_why(number, rule)})", _INSTEAD, *_flags(number))
        if rule.do == ASK and asked not in ("", target.host):
            words = f"{asked} redirects to {target.host}, which the PM's policy asks about ({_why(number, rule)})"
            raise denied(
                words,
                f"fetch a page of {target.origin} by itself, so that the PM is asked",
                *_flags(number),
                "redirect",
            )
        is_provider = tool == "web_search" and target.origin == self.search_origin
        if is_provider or (rule.do == ALLOW and _names(rule.domains, target.host)):
            return Permit(_flags(number), True)
        if self.allowed_domains and not host_matches(self.allowed_domains, target.host):
            words = f"{target.host} is not among web.allowed_domains"
            raise denied(words, f"read pages of {', '.join(self.allowed_domains[:10])}, or {_INSTEAD}", ALLOWED)
        if target.port < _FIRST_FREE_PORT and target.port not in PORTS.values():
            raise denied(f"port {target.port} of {target.host} is no port of the web", _INSTEAD, "port")
        return Permit(_flags(number))

    def addresses(self, target: Target, found: tuple[Address, ...], tool: Tool, permit: Permit) -> None:
        """All that the name was found to mean. Raises WebRefusal when one of them may not be reached."""
        before, _ = self._rule(target.host, tool, ())
        number, rule = self._rule(target.host, tool, tuple(map(str, found)))
        if number != before:  # by name it was not denied, and nobody asked about the address
            words = f"the PM's policy denies the address of {target.host} ({_why(number, rule)})"
            raise denied(words, _INSTEAD, *_flags(number))
        if self.policy.private_networks == ALLOW or permit.is_named:
            return
        for address in found:
            if is_inner(address):
                shown = target.host if target.host == str(address) else f"{target.host} is at {address}, which"
                words = f"{shown} is an address of a private network or of this machine (policy.private_networks)"
                raise denied(words, _INSTEAD, PRIVATE)

    def package(self, host: str, found: Sequence[Address]) -> None:
        """For files of packages, which are no call of a tool: by the first rule about this host that holds for every
        tool. Raises WebRefusal."""
        number, rule = self._rule(host, None, tuple(map(str, found)))
        if number and rule.do == DENY:
            raise denied(f"the PM's policy denies {host} ({_why(number, rule)})", _INSTEAD, *_flags(number))
        for address in found:
            if is_inner(address) and self.policy.private_networks != ALLOW:
                raise denied(f"{host} is at {address}, an address of a private network", _INSTEAD, PRIVATE)

    def names(self, host: str) -> bool:
        """Whether the PM's settings name it, or a name above it, as one that may be reached."""
        rules = (rule for rule in self.policy.rules if rule.do == ALLOW and not rule.commands and not rule.paths)
        named = (*self.allowed_domains, *(domain for rule in rules for domain in rule.domains))
        return host_matches(named, host)

    def _rule(self, host: str, tool: Tool | None, at: tuple[str, ...]) -> tuple[int, Rule]:
        """The first rule that matches the host, with 0 for the default. Without a tool, of those about hosts alone."""
        for number, rule in enumerate(self.policy.rules, 1):
            if rule.commands or rule.paths or (rule.effects and not (tool and EFFECT in rule.effects)):
                continue
            if (rule.tools and tool not in rule.tools) or not (rule.domains or tool):
                continue
            hosts = (host,) if rule.do == ALLOW else (host, *at)
            if not rule.domains or any(host_matches(rule.domains, each) for each in hosts):
                return number, rule
        return 0, Rule(self.policy.default)


def _flags(number: int) -> tuple[str, ...]:
    return (f"rule {number}",) if number else ()


def _why(number: int, rule: Rule) -> str:
    where = f"rule {number} of policy.rules" if number else "policy.default"
    return f"{where}: {rule.why}" if rule.why else where


def _names(domains: tuple[str, ...], host: str) -> bool:
    """The very name, not one above it, or the network of an address: who has a name below may be anybody."""
    return host in domains or any(host_matches((domain,), host) for domain in domains if _is_network(domain))


def _is_network(domain: str) -> bool:
    return ":" in domain or domain.partition("/")[0].replace(".", "").isdigit()
