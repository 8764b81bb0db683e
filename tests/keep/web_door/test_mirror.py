"""The mirror of package indexes: named hosts alone, judged by every address of theirs, bounded, on record."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from infra.keep.egress import packages
from infra.keep.web_door.fetch import Connections
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.mirror import HEAD_BYTES, LINE_BYTES, Mirror
from infra.keep.web_door.trace import TraceLine
from infra.shared.policy import ALLOW, DENY, Policy, Rule
from tests.keep.environments.wheelwright import make_wheel
from tests.keep.web_door.sites import HOME, Act, Names, Site, Wire, certificate, page, redirect, words

HOST = "pypi.example"
POLICY = Policy("allow", ALLOW, (Rule(DENY, domains=("bad.pypi.example", "203.0.113.9"), why="no"),))
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # has the shape of a secret, and is none


class World:
    """An index behind TLS, and a mirror of it."""

    def __init__(self, folder: Path, pages: dict[str, Act], policy: Policy) -> None:
        self._folder, self._policy = folder, policy
        self.site = Site(pages, certificate(folder, HOST))
        self.lines: list[TraceLine] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        trust = ssl.create_default_context(cafile=f"{self._folder}/{HOST}.crt")
        names = Names(pypi_example=HOME, bad_pypi_example=HOME, odd_pypi_example=f"{HOME},203.0.113.9")
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        async with self.site.running() as site:
            judge, hosts = Judge(self._policy), (HOST, "files.example")
            mirror = Mirror(hosts, judge, Connections(trust), names.look_up, self._record, site.port)
            async with await mirror.serve(listening):
                yield self

    async def _record(self, line: TraceLine) -> None:
        self.lines.append(line)

    async def said(self, request: str) -> bytes:
        """All that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request.encode())
        said = b""
        with contextlib.suppress(OSError):
            said = await reader.read()
        writer.close()
        return said

    async def get(self, path: str) -> bytes:
        return await self.said(f"GET {path} HTTP/1.1\r\n\r\n")


def body(said: bytes) -> bytes:
    """Of an answer in chunks, which has to be whole."""
    head, _, rest = said.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    whole = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            assert rest == b"\r\n"
            return whole
        whole, rest = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


def played(folder: Path, act: Callable[[World], Awaitable[None]], policy: Policy = POLICY, **pages: Act) -> None:
    async def play() -> None:
        async with World(folder, {f"/{name}": each for name, each in pages.items()}, policy).running() as world:
            async with asyncio.timeout(20):
                await act(world)

    asyncio.run(play())


def test_addresses_in_an_index_lead_to_the_mirror(tmp_path: Path) -> None:
    """Of package hosts alone, wherever the index is cut on its way; a file comes as it is."""
    html = (
        f'<a href="https://{HOST}/a#sha256=0">a</a><a href="/b?x,y">b</a><a href="../c">c</a>'
        f'<a href="//other.example/d">d</a><a href="https://files.example:443/e">e</a><a href="https://other.example/f">f</a>'
        f'<a href="https://{HOST}.other.example/g">g</a>'
    ).encode()
    json = b'{"all": [{"tarball": "https://x.files.example/a"}, {"hash": "0", "n":"/b"}]}'

    async def bytewise(wire: Wire) -> None:
        await wire.say(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.pypi.simple.v1+json\r\n\r\n")
        for at in range(len(json)):
            await wire.say(json[at : at + 1])

    async def act(world: World) -> None:
        here = f"http://127.0.0.1:{world.port}"
        assert body(await world.get(f"/{HOST}/html")).decode() == (
            f'<a href="{here}/{HOST}/a#sha256=0">a</a><a href="{here}/{HOST}/b?x,y">b</a><a href="../c">c</a>'
            '<a href="//other.example/d">'
            f'd</a><a href="{here}/files.example/e">e</a><a href="https://other.example/f">f</a>'
            f'<a href="https://{HOST}.other.example/g">g</a>'
        )
        found = body(await world.get(f"/{HOST}/json")).decode()
        assert found == (f'{{"all": [{{"tarball": "{here}/x.files.example/a"}}, {{"hash": "0", "n":"/b"}}]}}')
        assert body(await world.get(f"/{HOST}/file")) == html
        assert [(line.status, line.tool_name, line.origin) for line in world.lines] == [
            ("package", "package", f"https://{HOST}")
        ] * 3
        assert world.lines[2].url == f"https://{HOST}/file"

    file = page(html, kind="application/octet-stream")
    played(tmp_path, act, html=page(html), json=bytewise, file=file)


@pytest.mark.attack("S43")
def test_a_redirect_is_judged_as_an_address_of_its_own(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        port, here = world.site.port, f"http://127.0.0.1:{world.port}"
        for to, wanted in (
            ("/simple/a/", f"302 Found\r\nlocation: {here}/{HOST}/simple/a/\r\n"),
            (f"https://files.example:{port}/b", f"302 Found\r\nlocation: {here}/files.example/b\r\n"),
            ("https://other.example/", f"403 {HOST} redirects to https://other.example"),
            (f"https://other.example:{port}/", "403 other.example is not in web.package_hosts"),
            (f"http://{HOST}/", f"403 {HOST} redirects to http://{HOST}"),
            (f"https://bad.{HOST}:{port}/", "403 the PM's policy denies"),
        ):
            world.site.pages["/to"] = redirect(to)
            said = (await world.get(f"/{HOST}/to")).decode()
            assert said.startswith(f"HTTP/1.1 {wanted}"), said

    played(tmp_path, act)


REFUSED = [
    "GET /evil.example/ HTTP/1.1 -> 403 evil.example is not in web.package_hosts; it names pypi.example",
    "GET /xpypi.example/ HTTP/1.1 -> 403 xpypi.example is not in web.package_hosts",
    "GET /bad.pypi.example/ HTTP/1.1 -> 403 the PM's policy denies bad.pypi.example (rule 1 of policy.rules: no)",
    "GET /odd.pypi.example/ HTTP/1.1 -> 403 the PM's policy denies odd.pypi.example",
    "GET /gone.pypi.example/ HTTP/1.1 -> 502 the name gone.pypi.example was not found",
    f"GET /pypi.example/?k={KEY} HTTP/1.1 -> 403 what would be sent holds",
    "GET /user@pypi.example/ HTTP/1.1 -> 405 ",
    "POST /pypi.example/ HTTP/1.1 -> 405 only GET /<host>/<path> is known here",
    "HEAD /pypi.example/ HTTP/1.1 -> 405 only GET",
    "CONNECT pypi.example:443 HTTP/1.1 -> 405 only GET",
    "GET https://pypi.example/ HTTP/1.1 -> 405 only GET",
    f"GET /{'x' * HEAD_BYTES} HTTP/1.1 -> 405 the request has more than",
]


@pytest.mark.attack("S44")
def test_what_is_refused(tmp_path: Path) -> None:
    """In words, on record, and nothing is sent."""

    async def act(world: World) -> None:
        for asked, _, wanted in (case.partition(" -> ") for case in REFUSED):
            said = (await world.said(f"{asked}\r\n\r\n")).decode()
            assert said.startswith(f"HTTP/1.1 {wanted}"), said
            assert KEY not in f"{said} {world.lines}"
            assert world.lines.pop().status == ("denied" if wanted[:3] == "403" else "error"), asked
        assert (world.lines, world.site.asked) == ([], [])

    async def private(world: World) -> None:
        assert b"403 pypi.example is at 127.0.0.1" in await world.get(f"/{HOST}/")
        assert world.site.asked == []

    played(tmp_path, act)
    played(tmp_path, private, policy=Policy())


def test_what_is_not_whole_does_not_look_whole(tmp_path: Path) -> None:
    """An index that breaks off, or has no tags."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"

    async def act(world: World) -> None:
        for name in ("broken", "long"):
            assert not (await world.get(f"/{HOST}/{name}")).endswith(b"0\r\n\r\n")

    played(tmp_path, act, broken=words(head + b"content-length: 100\r\n\r\n<a>"), long=page(b"a" * (LINE_BYTES + 1)))


PIP = (sys.executable, "-m", "pip", "--no-cache-dir", "--disable-pip-version-check", "install", "--retries=0")
UV = (
    f"{os.path.dirname(sys.executable)}/uv",
    "pip",
    "install",
    "--no-cache",
    "--no-config",
    f"--python={sys.executable}",
)


@pytest.mark.heavy
@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_they_install_by_it(tmp_path: Path, tool: tuple[str, ...]) -> None:
    """Real ones, told by the environment alone that everything in the cell has. What the index does not have is an
    answer of the index's, and so no outage."""
    wheel = make_wheel(tmp_path, "alpha", "1.0")

    async def act(world: World) -> None:
        listed = f'<a href="/files/{wheel.name}">{wheel.name}</a>'.encode()
        file = page(wheel.read_bytes(), kind="application/octet-stream")
        world.site.pages |= {"/simple/alpha/": page(listed), f"/files/{wheel.name}": file}
        given = packages.environment("door").items()
        env = {
            name: value.replace(str(packages.PORT), str(world.port)).replace("pypi.org", HOST) for name, value in given
        }
        process = await asyncio.create_subprocess_exec(*tool, f"--target={tmp_path}/to", "alpha", env=env)
        assert await process.wait() == 0
        assert (tmp_path / "to/alpha.py").exists()
        assert (await world.get(f"/{HOST}/simple/none/")).startswith(b"HTTP/1.1 404 ")
        assert {line.url for line in world.lines} >= {f"https://{HOST}/files/{wheel.name}"}

    played(tmp_path, act)
