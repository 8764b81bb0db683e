"""The settings of `notify`: how the PM is told of what happens, and of which kinds of it (SPEC_NOTIFY)."""

from __future__ import annotations

from typing import Literal, get_args
from urllib.parse import urlsplit

from infra.shared.addresses import readings
from infra.shared.section import Section

Kind = Literal["approval", "stopped", "pinned", "budget", "seal", "done"]
KINDS: tuple[str, ...] = get_args(Kind)


class NotifySettings(Section, frozen=True):
    """Sent from your machine, never from the container."""

    command: str | None = None
    """A shell command that gets each notification as JSON on its standard input; it has 30 s. It runs as you, outside
    any sandbox."""
    webhook: str | None = None
    """An https address to which each notification is posted as JSON. `minifram up` makes this file readable by you
    alone when it is set, because such an address is often a key by itself."""
    on: tuple[Kind, ...] = ("approval", "stopped", "pinned", "budget", "seal", "done")
    """approval: a call waits for your answer; stopped: a run stopped, or the agent does not run though it should;
    pinned: a version was blocked, or another runs in place of main; budget: one is nearly or wholly used up; seal: the
    container could not be sealed; done: a directive was ticked."""
    text: bool = False
    """true: the text of reports, the arguments of calls and the reasons of failures are sent too."""

    @property
    def channels(self) -> tuple[str, ...]:
        """What is configured of `command` and `webhook`; nothing when no kind is to be told."""
        named = {"command": self.command, "webhook": self.webhook}
        return tuple(name for name, value in named.items() if value) if self.on else ()


def problems_with_notify(notify: NotifySettings) -> tuple[str, ...]:
    found = []
    if notify.command is not None and (not notify.command.strip() or "\0" in notify.command):
        found.append("notify.command is empty or has a zero byte; expected a shell command such as 'mail -s agent me'")
    if notify.webhook is not None and (problem := _problem_with_webhook(notify.webhook)):
        found.append(f"notify.webhook {problem}")
    return tuple(found)


def _problem_with_webhook(url: str) -> str | None:
    """Never with the address itself, which may be a key."""
    expected = "expected an address such as 'https://ntfy.sh/my-topic'"
    if not url.isascii() or not url.isprintable() or " " in url:
        return f"holds spaces, control characters or non-ASCII; {expected}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"is not an address ({error}); {expected}"
    if parts.scheme not in ("https", "http") or not host:
        return f"is not an address of https; {expected}"
    if parts.username is not None or parts.fragment:
        return f"holds a user name or a '#', which are not sent; use notify.command for such a receiver; {expected}"
    if parts.scheme == "http" and not is_this_machine(host):
        return f"would be sent unencrypted to another machine; {expected}, or use notify.command"
    return None


def is_this_machine(host: str) -> bool:
    addresses = readings(host)
    return host == "localhost" or (bool(addresses) and all(address.is_loopback for address in addresses))
