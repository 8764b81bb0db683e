"""The keep's resolver as a command line: dnsmasq on the loopback device, the only one that may ask the upstream.

It writes each question to stderr, where `query_log` reads it. The watcher starts it, and starts it again."""

from __future__ import annotations

from collections.abc import Sequence

from infra.shared.network import INNER_NAMES

LISTEN = "127.0.0.1"

RESOLVERS = (
    # DNS over HTTPS under its best-known names. The first is for Firefox.
    *("use-application-dns.net", "cloudflare-dns.com", "dns.adguard.com", "dns.adguard-dns.com", "dns.google"),
    *("dns.nextdns.io", "dns.quad9.net", "doh.cleanbrowsing.org", "doh.opendns.com", "mozilla.cloudflare-dns.com"),
    *("one.one.one.one",),
)


def resolver_command(upstreams: Sequence[str]) -> list[str]:
    """To be started as the resolver's user."""
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
        *(f"--server={upstream}" for upstream in upstreams),
        *(f"--address=/{name}/" for name in (*INNER_NAMES, *RESOLVERS)),
    ]
