"""`minifram egress`: what a contained agent asked of the network. Names come from the resolver's log in the keep's
state, the rules' counts from the container itself (only the PM's podman can read those once it is sealed), the pages
from the trace of the web door. All of it was chosen by the agent, or by a page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from host.cli import command
from host.errors import conflict
from host.home import AgentPaths, Context
from host.running import PODMAN, is_running
from host.screen import Say, Shown, counted, faint, one_line, strong
from infra.keep.settings.check import read_settings
from infra.keep.web_door.trace import TraceLine
from infra.shared.safe_files import Below

if TYPE_CHECKING:
    from host.container.podman import Podman

LOG_BYTES = 8 << 20
"""The end of each log that is counted."""
SHOWN = 20
LET_THROUGH = frozenset({"cell_out", "keep_out", "web_out", "dns_out", "dns_in", "tcp_in", "last_words", "canary"})
"""Counters of what was not rejected, and of what the keep itself sends to be rejected."""
UNPRINTABLE, LONGEST_NAME = "<name unprintable>", 253
"""dnsmasq does not show a name with odd bytes in it; honest names have none. It counts as long as a name can be."""
_QUESTION = re.compile(r"dnsmasq\[\d+\]: query\[[^\]]*\] (.*) from \S+\s*")


class Asked(NamedTuple):
    questions: int = 0
    bytes: int = 0
    """Of the labels in front of the two last ones: what a tunnel could have carried."""


class WebUse(NamedTuple):
    """What the web door did, as its trace says."""

    requests: dict[str, int]
    """By how they ended: `ok`, `package` (a connection for pip, uv or npm), `denied`, `error`."""
    hosts: dict[str, int]
    """Requests that were served, by scheme, host and port, most first."""
    last: str
    """When the last one came."""

    @property
    def words(self) -> str:
        served = self.requests.get("ok", 0) + self.requests.get("package", 0)
        denied, failed = self.requests.get("denied", 0), self.requests.get("error", 0)
        hosts = counted(len(self.hosts), "host")
        return f"{served} served of {hosts}, {denied} denied, {failed} failed · last {one_line(self.last, 24)}"


@command
def egress(context: Context, say: Say) -> Shown:
    """The network requests of the agent in its container: names, packets that the rules rejected, hosts of pages.

    A name with many bytes in many questions may be a tunnel. Rules are explained in nftables/egress.nft.
    """
    home = context.initialised()
    settings = read_settings(home.settings)
    if settings.sandbox != PODMAN:
        raise conflict(f"agent {home.agent!r} has no container, and nothing else counts what it sends")
    names = dict(
        list(count_names(line.decode(errors="replace") for line in _lines(home, "resolver.log")).items())[:SHOWN]
    )
    rejected, why, web = None, "the agent is not running", read_web(home)
    if is_running(home):
        from host.container.container import podman_of

        rejected, why = read_rejected(podman_of(context), home.agent)
    value = {"mode": settings.egress.mode, "names": names, "rejected": rejected, "why_unknown": why, "web": web}
    lines = [
        f"{strong('mode')}: {settings.egress.mode}",
        *_table("names, questions, bytes in front of them", names),
        *_table("rejected packets, by rule" if rejected is not None else f"rejected packets: {why}", rejected or {}),
        *_table(f"web: {web.words}" if web else "web: no request yet", web.hosts if web else {}),
    ]
    return Shown(value, lines)


def _table(head: str, rows: Mapping[str, int | Asked]) -> Iterator[str]:
    yield faint(one_line(head, 200))
    for name, numbers in rows.items():
        columns = numbers if isinstance(numbers, Asked) else (numbers,)
        yield f"  {one_line(name, 60):<40}" + "".join(f" {number:>9}" for number in columns)


def read_rejected(podman: Podman, agent: str) -> tuple[dict[str, int] | None, str]:
    """Packets by the rule that stopped them, the busiest first, since the container was started; or why that cannot
    be read."""
    from host.container.podman import PodmanError
    from host.container.words import container_name

    ask = ("exec", "--user=0:0", container_name(agent), "nft", "-j", "list", "counters", "table", "inet", "minifram")
    try:
        found = Counter(parse_counters(podman(*ask)))
    except (PodmanError, ValueError) as error:
        return None, str(error)
    return {name: packets for name, packets in found.most_common() if packets and name not in LET_THROUGH}, ""


def parse_counters(text: str) -> dict[str, int]:
    """Packets by name, from what `nft -j list counters` prints. Raises ValueError."""
    try:
        found = [entry["counter"] for entry in json.loads(text)["nftables"] if "counter" in entry]
        return {str(one["name"]): int(one["packets"]) for one in found}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"nft's list of counters cannot be understood ({error!r}): {text[:200]!r}") from None


def count_names(lines: Iterable[str]) -> dict[str, Asked]:
    """By the two last labels, who carried most first; lines that are no question count nothing."""
    found: dict[str, Asked] = {}
    for line in lines:
        if match := _QUESTION.fullmatch(line):
            labels = match[1].lower().rstrip(".").split(".")
            name, front = ".".join(labels[-2:])[:LONGEST_NAME], sum(map(len, labels[:-2]))
            before = found.get(name, Asked())
            more = LONGEST_NAME if name == UNPRINTABLE else front
            found[name] = Asked(before.questions + 1, before.bytes + more)
    return dict(sorted(found.items(), key=lambda item: (-item[1].bytes, -item[1].questions, item[0])))


def read_web(home: AgentPaths) -> WebUse | None:
    """None when the web door was never asked."""
    requests, hosts, last = Counter[str](), Counter[str](), ""
    for raw in _lines(home, "web.jsonl"):
        try:
            line = msgspec.json.decode(raw, type=TraceLine)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # the first one of the end that is looked at, or one that a power cut tore
        requests[line.status] += 1
        last = line.at
        if line.status in ("ok", "package"):
            hosts[line.origin] += 1
    return WebUse(dict(requests), dict(hosts.most_common(SHOWN)), last) if last else None


def _lines(home: AgentPaths, name: str) -> Iterator[bytes]:
    """Of the older log and of the newer."""
    for each in (f"{name}.1", name):
        yield from Below(home.state).tail(each, LOG_BYTES).splitlines()
