"""The proxy by itself: what is judged, what is connected to, and how much passes."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from typing import NamedTuple

import pytest

from infra.keep.web_door.judge import Judge
from infra.keep.web_door.proxy import TLS, Errand, Proxy
from infra.shared.network import Address
from infra.shared.policy import Policy, Rule

NAMED = Policy(
    rules=(
        *(Rule("deny", domains=(each,)) for each in ("bad.example", "127.0.0.2")),
        Rule("allow", domains=("site.example",)),
    )
)
SMALL = 4096


class Came(NamedTuple):
    answer: bytes
    errand: Errand
    heads: list[bytearray]
    """What the site was sent on each connection."""


def through(
    *requests: bytes,
    found: tuple[str, ...] = ("127.0.0.1",),
    errand: Errand | None = None,
    size: int = 1000,
    is_idle: bool = False,
) -> Came:
    """Each of `requests` on a connection of its own, with PORT as the site's. Each look-up gives one of `found`."""
    heads, given, addresses = list[bytearray](), errand or Errand("site.example"), iter(found)
    serving_one = list[asyncio.Task[None] | None]()

    async def site(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """It answers once, and reads on for as long as anything comes."""
        serving_one.append(asyncio.current_task())
        heads.append(seen := bytearray(await reader.read(1 << 20)))
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b"b" * size)
        with contextlib.suppress(OSError):
            await writer.drain()
            writer.write_eof()
            while piece := await reader.read(1 << 20):
                seen += piece
        writer.close()

    async def lookup(host: str) -> tuple[Address, ...]:
        return (ipaddress.ip_address(next(addresses)),)

    async def run() -> bytes:
        answer = b""
        proxy, listening = Proxy(Judge(NAMED), lookup), socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        proxy.errand = None if is_idle else given
        serving = asyncio.create_task(proxy.serve(listening))
        async with await asyncio.start_server(site, "127.0.0.1", 0) as there:
            port = str(there.sockets[0].getsockname()[1]).encode()
            for request in requests:
                with socket.socket() as wire:
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
                    wire.connect(listening.getsockname())
                    reader, writer = await asyncio.open_connection(sock=wire.dup())
                writer.write(request.replace(b"PORT", port))
                with contextlib.suppress(ConnectionError):  # who is closed unread is reset
                    answer += await reader.read()
                writer.close()
            proxy.over()
            await asyncio.gather(*filter(None, serving_one))
        serving.cancel()
        return answer

    return Came(asyncio.run(run()), given, heads)


GET = b"GET http://site.example:PORT/a?b HTTP/1.1\r\nHost: other.example\r\nProxy-Connection: x\r\nCookie: c\r\n\r\n"


def test_a_plain_request_names_the_host_that_was_judged() -> None:
    """And its answer comes whole, also to a browser that is slower than the site."""
    came = through(GET, size=60_000)
    assert came.answer.endswith(b"\r\n\r\n" + b"b" * 60_000)
    assert came.heads[0].startswith(b"GET /a?b HTTP/1.1\r\nHost: site.example:")
    assert b"other.example" not in came.heads[0]
    assert b"Proxy" not in came.heads[0]
    assert came.errand.loaded > 1000


@pytest.mark.parametrize(
    ("request_", "flag"),
    [
        (b"GET http://10.0.0.1/ HTTP/1.1\r\n\r\n", "private_address"),
        (b"CONNECT 169.254.169.254:443 HTTP/1.1\r\n\r\n", "private_address"),
        (b"CONNECT other.example:22 HTTP/1.1\r\n\r\n", "port"),
        (b"CONNECT bad.example:443 HTTP/1.1\r\n\r\n", "rule 1"),
        (b"GET http://[::ffff:127.0.0.1]/ HTTP/1.1\r\n\r\n", "private_address"),
    ],
)
def test_what_the_judge_refuses_is_not_connected_to(request_: bytes, flag: str) -> None:
    came = through(request_, found=("10.0.0.1",))
    assert came.answer.startswith(b"HTTP/1.1 403 ")
    assert flag in came.errand.flags
    assert not came.errand.origins


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET ftp://a.example/ HTTP/1.1\r\n\r\n",
        b"\x16\x03\r\n\r\n",
        b"GET http://site.example:PORT/ HTTP/1.1\r\nA: b\nHost: other.example\r\n\r\n",
    ],
)
def test_what_is_no_request_to_a_proxy_is_refused(request_: bytes) -> None:
    assert through(request_).answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.attack("S69")
@pytest.mark.parametrize("request_", [b"GET http://-x.example/run_this", b"CONNECT -run_this.example:443"])
def test_what_is_refused_is_told_in_no_words_of_the_page(request_: bytes) -> None:
    """They would stand outside of a frame."""
    refused = through(request_ + b" HTTP/1.1\r\n\r\n").errand.refused
    assert refused
    assert "run_this" not in refused.error.message


@pytest.mark.attack("S68")
def test_a_name_that_changes_its_address_is_judged_again() -> None:
    came = through(GET, GET, found=("127.0.0.1", "127.0.0.2"))
    assert b"HTTP/1.1 403" in came.answer
    assert came.errand.flags == {"rule 2": None}
    assert len(came.heads) == 1


POST = GET.replace(b"GET", b"POST", 1)[:-2]


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (GET + GET, b""),
        (POST + b"Content-Length: 4\r\n\r\nbody" + GET, b"body"),
        (POST + b"Content-Length: 4\r\nContent-Length: 400\r\n\r\nbody" + GET, b"body"),
        (POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + GET, b"0\r\nG"),
    ],
)
@pytest.mark.attack("S69")
def test_nothing_follows_a_request_but_its_body(request_: bytes, body: bytes) -> None:
    [sent] = through(request_).heads
    head, _, behind = sent.partition(b"\r\n\r\n")
    assert behind == body
    assert b"chunked" not in head
    assert head.count(b"Content-Length") == bool(body)


@pytest.mark.attack("S69")
def test_what_is_not_read_is_a_secure_connection() -> None:
    came = through(b"CONNECT site.example:PORT HTTP/1.1\r\n\r\n" + GET)
    assert came.heads in ([], [b""])
    assert came.errand.refused


@pytest.mark.attack("S68")
def test_bytes_are_bounded_both_ways() -> None:
    assert len(through(GET, errand=Errand("site.example", down=500)).answer) < 500
    sent = b"CONNECT site.example:PORT HTTP/1.1\r\n\r\n" + TLS + b"u" * 10_000
    came = through(sent, errand=Errand("site.example", up=5000))
    assert "cut" in came.errand.flags
    assert sum(map(len, came.heads)) <= 5000
    came = through(*[GET] * 9, found=("127.0.0.1",) * 9, errand=Errand("site.example", up=5000))
    assert len(came.heads) == 5  # each connection has its price


def test_nothing_is_served_without_an_errand() -> None:
    came = through(GET, is_idle=True)
    assert (came.answer, came.heads) == (b"", [])
