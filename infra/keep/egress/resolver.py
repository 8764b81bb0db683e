"""The keep's resolver as a command line: dnsmasq on the loopback device, the only one that may ask the upstream.

It writes each question to stderr, where `query_log` reads it. With the allowlist it answers for listed names alone, and
tells the packet rules their addresses before it answers. Starting it, and starting it again, is the watcher's work."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from infra.keep.egress.rules import listed_sets
from infra.shared.host_names import INNER_NAMES, problem_with_host_name
from infra.shared.model_settings import ModelSettings, choices
from infra.shared.providers import KEYS
from infra.shared.settings import EgressSettings

LISTEN = "127.0.0.1"
TTL_SECONDS = 60
"""Allowlist: no answer is used for longer. An address stays listed for ten minutes (`allowlist.nft`)."""

RESOLVERS = (
    # DNS over HTTPS under its best-known names; the packet rules close the addresses. The first is for Firefox.
    *("use-application-dns.net", "cloudflare-dns.com", "dns.adguard.com", "dns.adguard-dns.com", "dns.google"),
    *("dns.nextdns.io", "dns.quad9.net", "doh.cleanbrowsing.org", "doh.opendns.com", "mozilla.cloudflare-dns.com"),
    *("one.one.one.one",),
)


def resolver_command(
    egress: EgressSettings,
    upstreams: Sequence[str],
    keep_names: Sequence[str] = (),
    may_list: bool = True,
    closed: Sequence[str] = (),
) -> list[str]:
    """Started as the resolver's user; `as_resolver` gives it what else it needs.

    `keep_names`: what the keep itself must find when the cell is bound to the allowlist. `may_list`: it can write the
    allowlist's sets, and does not start without that right. After the seal nobody can give it any more: without it
    names are found, and the cell reaches none of them. `closed`: networks that the packet rules close; with the
    allowlist an answer that leads into one is passed on as no such name."""
    return [
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--user=root",  # it is started as its own user and has nobody to change into
        "--group=root",
        "--pid-file=",
        "--no-resolv",
        "--no-poll",
        "--no-hosts",
        f"--listen-address={LISTEN}",
        "--port=53",
        "--bind-interfaces",
        # A name that leads to a private address is an attack; so is asking upstream who has one.
        "--stop-dns-rebind",
        "--bogus-priv",
        "--domain-needed",
        "--no-ident",
        # Bounds. The packet rules have one as well, for names a second.
        "--cache-size=1000",
        "--dns-forward-max=100",
        "--max-tcp-connections=20",
        "--edns-packet-max=1232",
        "--log-queries",
        "--log-facility=-",
        "--log-async=100",  # a slow reader of the log loses lines instead of blocking all names
        *([] if egress.ipv6 else ["--filter-AAAA"]),
        *(_listed(egress, upstreams, keep_names, may_list, closed) if egress.mode == "allowlist" else _open(upstreams)),
    ]


def as_resolver(command: Sequence[str], uid: int, gid: int, capabilities: Sequence[str] = ()) -> list[str]:
    """The command as that user with these capabilities and no others: `net_admin` to write the allowlist's sets,
    `net_bind_service` where port 53 is not for everybody."""
    kept = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    ids = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    return ["setpriv", *ids, f"--inh-caps={kept}", f"--ambient-caps={kept}", "--no-new-privs", "--", *command]


def names_of_model(model: ModelSettings) -> tuple[str, ...]:
    """What the model door has to find; a host that is written as an address needs no finding. Which keys there are is
    not known here: for `auto`, those of all providers that it may choose."""
    hosts = [
        urlsplit(one.base_url).hostname or "" for keys in ([], *([key] for key in KEYS)) for one in choices(model, keys)
    ]
    return tuple(dict.fromkeys(host for host in hosts if problem_with_host_name(host) is None))


def _open(upstreams: Sequence[str]) -> list[str]:
    return [
        *(f"--server={upstream}" for upstream in upstreams),
        *(f"--address=/{name}/" for name in (*INNER_NAMES, *RESOLVERS)),
    ]


def _listed(
    egress: EgressSettings, upstreams: Sequence[str], keep_names: Sequence[str], may_list: bool, closed: Sequence[str]
) -> list[str]:
    keeps_alone = [name for name in keep_names if not any(f".{name}".endswith(f".{listed}") for listed in egress.allow)]
    sets = [f"4#inet#minifram#{four},6#inet#minifram#{six}" for four, six in map(listed_sets, range(len(egress.allow)))]
    return [
        "--address=/#/",  # everything else does not exist
        *(
            f"--server=/{name}/{upstream}"
            for name in dict.fromkeys([*egress.allow, *keep_names])
            for upstream in upstreams
        ),
        # A listed name stands for those below it. The keep's stand for themselves: a question for a name below one
        # would carry what the cell wrote into it to the server that answers there.
        *(f"--address=/*.{name}/" for name in keeps_alone),
        *(f"--nftset=/{name}/{its}" for name, its in zip(egress.allow, sets, strict=True) if may_list),
        *(f"--bogus-nxdomain={network}" for network in closed),
        f"--max-ttl={TTL_SECONDS}",
        f"--max-cache-ttl={TTL_SECONDS}",
    ]
