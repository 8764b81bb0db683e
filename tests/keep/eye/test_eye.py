"""A real browser behind the proxy, on a site of the test's own on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
import pytest

from infra.keep.eye import parent
from infra.keep.eye.messages import Look, Seen
from infra.keep.web_door.browsers import Pool
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.proxy import Errand, Proxy
from infra.keep.web_door.refusal import WebRefusal
from infra.shared.policy import Policy, Rule

SECONDS = 8.0
LOOK = Look("", seconds=SECONDS)
SITES = ("site.example", "site.localhost")
"""The second is one where chromium lets service workers be, without a certificate."""
OF_A_DOCUMENT = ("body", "documentElement", "scripts", "title", "createRange", "querySelector", "scrollWidth")
OF_A_FORM = ("nodeType", "nodeName", "tagName", "shadowRoot", "childNodes", "textContent", "getAttribute")
CLOBBERED = (*OF_A_DOCUMENT, *OF_A_FORM, "checkVisibility", "getBoundingClientRect")
"""Whose elements and fields go by their names before what is asked of it."""
PAGES = {
    "/hidden": "<p>seen</p><p style='display:none'>h1</p><p style='opacity:0'>h2</p>"
    "<p style='position:absolute;left:-9999px'>h3</p><p style='font-size:0'>h4</p>"
    "<style>.x{visibility:hidden}</style><p class=x>h5 <b style='visibility:visible'>inner</b></p>"
    "<div style='height:0;overflow:hidden'>h6</div><details><summary>sum</summary>h7</details>",
    "/shell": "<div id=root></div><script>fetch('/data').then(r=>r.text()).then(t=>{root.textContent=t})</script>",
    "/data": "filled",
    "/paper.pdf": "%PDF-1.4\ntrailer<</Root 1 0 R>>\n%%EOF",
    "/redirected": "<script>location='http://10.0.0.1/secret'</script>",
    "/local": "<p>x<script>fetch('http://127.0.0.1:8099/').catch(e=>document.body.append('refused'))</script>",
    "/windows": "<p>w<script>for(let i=0;i<100;i++)window.open('/data?'+i)</script>",
    "/dialog": "<p>before<script>alert(1);confirm(2);prompt(3);document.body.append('after')</script>",
    "/clobbered": "<title>t</title>"
    + "".join(f"<form name={name}><input name={name}></form>" for name in CLOBBERED)
    + "<form>".join(f"<input type=hidden name={name}>" for name in CLOBBERED)
    + "words",
    "/crash": "<p>x<script>let a=[];for(;;)a.push(Array(1e7).fill(1.5))</script>",
    "/torn": "<p id=p>x<script>alert('\\ud83d');p.textContent='half \\ud83d, \\ud83d\\ude00'</script>",
    "/form": "<form><input type=email><input type=password></form><script>fetch('/slow')</script>",
    "/keeps": "<p>x<script>fetch('/slow');(async()=>{let say=async()=>document.body.append([document.cookie,"
    "localStorage.k,(await navigator.serviceWorker.getRegistrations()).length].join());await say();"
    "document.cookie='c=1;max-age=9999';localStorage.k='kept';await navigator.serviceWorker.register('/worker.js');"
    "await say()})()</script>",
}


KINDS = {"js": b"text/javascript", "pdf": b"application/pdf"}


async def site(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().partition("?")[0]
    try:
        if path == "/big":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 10000000000\r\n\r\n<p>big")
            while True:
                writer.write(b"y " * 32768)
                await writer.drain()
        if path == "/slow":
            await asyncio.sleep(1.5)
        body, kind = PAGES.get(path, "").encode(), KINDS.get(path.rpartition(".")[2], b"text/html")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\nconnection: close\r\n\r\n" + body)
        await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


LOOKED_UP = set[str]()


async def lookup(host: str) -> tuple[ipaddress.IPv4Address, ...]:
    LOOKED_UP.add(host)
    return (ipaddress.IPv4Address("127.0.0.1" if host in SITES else host),)


class Eye(NamedTuple):
    path: Path
    pid: int
    """Of the parent."""


@contextlib.contextmanager
def eye_at(path: Path) -> Iterator[Eye]:
    with subprocess.Popen([sys.executable, parent.__file__, path]) as program:
        try:
            while not path.exists():
                assert program.poll() is None
            yield Eye(path, program.pid)
        finally:
            program.terminate()


@pytest.fixture(scope="module")
def eye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Eye]:
    with eye_at(tmp_path_factory.mktemp("e") / "e.sock") as found:
        yield found


@asynccontextmanager
async def looking(eye: Eye) -> AsyncIterator[tuple[Pool, str]]:
    def connected() -> socket.socket:
        wire = socket.socket(socket.AF_UNIX)
        wire.connect(str(eye.path))
        return wire

    judge = Judge(Policy(rules=(Rule("allow", domains=SITES),)))
    async with await asyncio.start_server(site, "127.0.0.1", 0) as server:
        pool = Pool(connected, lambda: Proxy(judge, lookup))
        try:
            yield pool, f"http://site.example:{server.sockets[0].getsockname()[1]}"
        finally:
            pool.sweep(0.0)
            server.close()


def look(eye: Eye, path: str, asked: Look = LOOK, host: str = SITES[0], times: int = 1) -> Seen:
    """The last of so many looks at it by one browser."""

    async def run() -> Seen:
        async with looking(eye) as (pool, at):
            whole = msgspec.structs.replace(asked, url=at.replace(SITES[0], host) + path)
            return [await pool.look(whole, Errand(host)) for _ in range(times)][-1]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/shell", "filled"),
        ("/dialog", "beforeafter"),
        ("/windows", "w"),
        ("/local", "xrefused"),
        ("/hidden", "seen inner sum"),
        ("/torn", "half ?, \N{GRINNING FACE}"),
        ("/clobbered", "words"),
    ],
)
@pytest.mark.attack("S68")
def test_a_page_is_what_can_be_seen_of_it(eye: Eye, path: str, shown: str) -> None:
    text = re.sub("<title>.*?</title>|<[^>]*>", "", look(eye, path).html)
    assert "".join(text.split()) == "".join(shown.split())


@pytest.mark.attack("S68")
def test_what_a_page_may_not_reach_is_refused_by_the_judge(eye: Eye) -> None:
    with pytest.raises(WebRefusal, match="private network"):
        look(eye, "/redirected")


@pytest.mark.attack("S68")
def test_its_maker_is_told_of_no_form(eye: Eye) -> None:
    look(eye, "/form")
    assert not [host for host in LOOKED_UP if "google" in host]


@pytest.mark.attack("S68")
def test_no_cookie_storage_or_worker_outlives_a_look(eye: Eye) -> None:
    assert ",,0c=1,kept,1" in look(eye, "/keeps", host=SITES[1], times=2).html


def test_a_picture_is_as_wide_as_was_asked(eye: Eye) -> None:
    image = look(eye, "/hidden", Look("", picture=True, full_page=True, width=640)).image
    found = re.search(rb"\xff\xc0..\x08(..)(..)", image, re.DOTALL)
    assert found
    assert int.from_bytes(found[2]) == 640


def test_after_a_crash_the_next_one_serves(eye: Eye) -> None:
    """Within two seconds; the best of five, as the machine may be busy."""

    async def run() -> float:
        async with looking(eye) as (pool, at):
            dying = asyncio.ensure_future(pool.look(Look(f"{at}/slow", seconds=SECONDS), Errand("site.example")))
            while not dying.done():
                await asyncio.sleep(0.05)
                for each in browsers(eye):
                    with contextlib.suppress(psutil.Error):
                        each.kill()
            with pytest.raises(WebRefusal):
                await dying
            began = time.monotonic()
            await pool.look(Look(f"{at}/data", seconds=SECONDS), Errand("site.example"))
            return time.monotonic() - began

    assert any(asyncio.run(run()) < 2.0 for _ in range(5))


def test_one_that_died_while_nobody_looked_costs_no_look(eye: Eye) -> None:
    """Another is begun, as after a crash."""

    async def run() -> int:
        async with looking(eye) as (pool, at):
            await pool.look(Look(f"{at}/data", seconds=SECONDS), Errand("site.example"))
            [warm] = browsers(eye)
            warm.kill()
            return (await pool.look(Look(f"{at}/data", seconds=SECONDS), Errand("site.example"))).status

    assert in_time(lambda: not browsers(eye))
    assert asyncio.run(run()) == 200
    assert in_time(lambda: not browsers(eye)), "nothing is left"


def test_a_file_is_no_empty_page(eye: Eye) -> None:
    with pytest.raises(WebRefusal, match="is a file") as caught:
        look(eye, "/paper.pdf")
    assert "without render" in caught.value.error.hint


@pytest.mark.attack("S68")
def test_a_page_without_an_end_and_one_that_crashes_its_process_cost_themselves_alone(eye: Eye) -> None:
    async def run() -> None:
        async with looking(eye) as (pool, at):
            errand = Errand(SITES[0], down=2 << 20)
            assert len((await pool.look(Look(f"{at}/big", seconds=SECONDS), errand)).html) < 3 << 20
            assert "cut" in errand.flags
            with pytest.raises(WebRefusal, match="crashed"):
                await pool.look(Look(f"{at}/crash", seconds=20.0), Errand(SITES[0]))
            assert (await pool.look(Look(f"{at}/data", seconds=SECONDS), Errand(SITES[0]))).status == 200

    asyncio.run(run())


def in_time(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + SECONDS
    while not (found := is_so()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def browsers(eye: Eye) -> list[psutil.Process]:
    """The first process of each of its browsers."""
    found = []
    for each in psutil.Process(eye.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = each.cmdline()
            if words[:2] == [parent.BROWSER, "--headless"]:
                found.append(each)
    return found
