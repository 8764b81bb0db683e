"""Which hosts and addresses the web door may reach: the PM's settings and rules. Pure.

A rule that denies or asks matches a host by its name and by what it resolves to; one that allows, by the name alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infra.keep.web_door.refusal import denied
from infra.keep.web_door.target import PORTS, Target
from infra.shared.network import Address, host_matches, is_inner
from infra.shared.policy import ALLOW, ASK, DENY, Policy, Rule
from infra.shared.web import WebTool

EFFECT = "execute"
"""Of all of them: an address that is asked for may carry data out."""
PRIVATE, ALLOWED = "private_address", "allowed_domains"
_INSTEAD = "do without this address, or ask the PM in your report"
_FIRST_FREE_PORT = 1024


class Judge(NamedTuple):
    policy: Policy
    allowed_domains: tuple[str, ...] = ()
    search_origin: str = ""
    """Of web.search_url, which the PM named: `web_search` may go there wherever it is."""

    def let(self, target: Target, tool: WebTool, found: Sequence[Address] = (), asked: str = "") -> tuple[str, ...]:
        """Flags for the trace. Asked twice: before the name is looked up, and with all that it was `found` to mean.
        `asked`: the host that the agent named, which another one may come from by a redirect. Raises WebRefusal."""
        number, rule = self._rule(target.host, tool, found)
        flags = _flags(number)
        # By name alone it was another rule, so nobody was asked about the address.
        if rule.do == DENY or number != self._rule(target.host, tool, ())[0]:
            raise denied(f"the PM's policy denies {target.host} ({_why(number, rule)})", _INSTEAD, *flags)
        if rule.do == ASK and asked not in ("", target.host):
            words = f"{asked} redirects to {target.host}, which the PM's policy asks about ({_why(number, rule)})"
            hint = f"fetch a page of {target.origin} by itself, so that the PM is asked"
            raise denied(words, hint, *flags, "redirect")
        is_provider = tool == "web_search" and target.origin == self.search_origin
        if is_provider or (rule.do == ALLOW and _names(rule.domains, target.host)):
            return flags  # it may have a private address, and any port
        if self.allowed_domains and not host_matches(self.allowed_domains, target.host):
            words = f"{target.host} is not among web.allowed_domains"
            raise denied(words, f"read pages of {', '.join(self.allowed_domains[:10])}, or {_INSTEAD}", ALLOWED)
        if target.port < _FIRST_FREE_PORT and target.port not in PORTS.values():
            raise denied(f"port {target.port} of {target.host} is no port of the web", _INSTEAD, "port")
        self._let_addresses(target.host, found)
        return flags

    def package(self, host: str, found: Sequence[Address]) -> None:
        """For files of packages, which are no call of a tool: by the first rule about this host that holds for every
        tool. Raises WebRefusal."""
        number, rule = self._rule(host, None, found)
        if number and rule.do == DENY:
            raise denied(f"the PM's policy denies {host} ({_why(number, rule)})", _INSTEAD, *_flags(number))
        self._let_addresses(host, found)

    def _let_addresses(self, host: str, found: Sequence[Address]) -> None:
        inner = [] if self.policy.private_networks == ALLOW else [str(each) for each in found if is_inner(each)]
        if inner:
            words = f"{host} is at {inner[0]}, an address of a private network or of this machine"
            raise denied(f"{words} (policy.private_networks)", _INSTEAD, PRIVATE)

    def names(self, host: str) -> bool:
        """Whether the PM's settings name it, or a name above it, as one that may be reached."""
        rules = (rule for rule in self.policy.rules if rule.do == ALLOW and not rule.commands and not rule.paths)
        named = (*self.allowed_domains, *(domain for rule in rules for domain in rule.domains))
        return host_matches(named, host)

    def _rule(self, host: str, tool: WebTool | None, found: Sequence[Address]) -> tuple[int, Rule]:
        """The first rule that matches the host, with 0 for the default. Without a tool, of those about hosts alone."""
        for number, rule in enumerate(self.policy.rules, 1):
            if rule.commands or rule.paths or (rule.effects and not (tool and EFFECT in rule.effects)):
                continue
            if (rule.tools and tool not in rule.tools) or not (rule.domains or tool):
                continue
            hosts = (host,) if rule.do == ALLOW else (host, *map(str, found))
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
    networks = tuple(each for each in domains if ":" in each or each.partition("/")[0].replace(".", "").isdigit())
    return host in domains or host_matches(networks, host)
