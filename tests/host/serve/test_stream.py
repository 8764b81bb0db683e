"""The live picture: a real server, over the socket and in a real browser; what the web door writes is put there by the
test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, expect
from starlette.applications import Starlette
from starlette.types import Message

from host.serve.agents import Agents
from host.serve.stream import JPEG_BEGINS, LOOK_SECONDS, frames, routes
from infra.cell.loop.record import Told
from tests.cell.loop.waiting import wait_for
from tests.host.desk import Desk
from tests.host.serve.served import Served
from tests.host.serve.test_browser import browser, opened
from tests.host.serve.watched import RUN, SETTINGS, Screen, Viewer, jpeg, watched
from tests.host.test_runs import transcript

__all__ = ["browser"]
LARGE, MANY, SMALL = 400_000, 40, 4096


@pytest.fixture(scope="module")
def both(born: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Screen]]:
    desk = Desk(tmp_path_factory.mktemp("s"))
    desk.like(born)
    with watched(desk) as found:
        yield found


def token(served: Served) -> dict[str, str]:
    return {"authorization": f"Bearer {served.token}"}


def until(frames: Iterator[bytes], wanted: bytes) -> int:
    """How many came, with this one."""
    return next(number for number, frame in enumerate(frames, 1) if frame == wanted)


@pytest.fixture
def look(both: tuple[Served, Screen]) -> Iterator[Callable[..., Viewer]]:
    """A program that looks."""
    with contextlib.ExitStack() as closing:
        yield lambda **more: closing.enter_context(Viewer(both[0].base, token(both[0]), **more))


def test_who_is_slow_misses_frames_stops_nobody_and_costs_no_memory(
    both: tuple[Served, Screen], look: Callable[..., Viewer]
) -> None:
    """And has the newest one at last."""
    served, screen = both
    screen.put(jpeg(0, LARGE))
    fast = look().frames()
    until(fast, jpeg(0, LARGE))
    with parts(served) as slow:
        process, all_slow = psutil.Process(served.process.pid), (slow, look(buffer=SMALL).frames())
        before = process.memory_info().rss
        for number in range(1, MANY):
            screen.put(jpeg(number, LARGE))
            assert next(fast) == jpeg(number, LARGE)
        assert process.memory_info().rss - before < MANY * LARGE / 2
        for each in all_slow:
            assert 2 <= until(each, jpeg(MANY - 1, LARGE)) < MANY / 2


@contextlib.contextmanager
def parts(served: Served) -> Iterator[Iterator[bytes]]:
    """Of MJPEG, for one who is slow."""
    host, port = served.base.removeprefix("http://").split(":")

    def frames() -> Iterator[bytes]:
        received = b""
        while piece := wire.recv(65536):
            received += piece
            *whole, received = received.split(b"content-type: image/jpeg\r\n\r\n")
            yield from (each.rpartition(b"\r\n--")[0] for each in whole if JPEG_BEGINS in each)

    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        wire.settimeout(20)
        wire.connect((host, int(port)))
        head = f"GET /stream/agent/mjpeg HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer {served.token}\r\n\r\n"
        wire.sendall(head.encode())
        yield frames()


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"token": ""}, 101),
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"cookie": ""}, 403),
        ({"cookie": "", "origin": "https://evil.example"}, 403),
        ({"cookie": "", "origin": "http://127.0.0.1:1"}, 403),
        ({"cookie": "", "origin": "HERE"}, 101),
        ({"token": "", "host": "rebound.example"}, 400),
    ],
)
def test_who_may_look(both: tuple[Served, Screen], given: dict[str, str], status: int) -> None:
    """With the token of the page; a cookie counts from this page alone, because any page may open a WebSocket."""
    served, _ = both
    headers = {name: value.replace("HERE", served.base) for name, value in given.items()}
    if headers.pop("token", None) is not None:
        headers |= token(served)
    if "cookie" in headers:
        with served.browser() as client:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    with Viewer(served.base, headers) as viewer:
        assert viewer.status == status


def test_what_is_not_shown_says_so(both: tuple[Served, Screen]) -> None:
    served, _ = both
    settings = Path(served.desk.home().settings)
    with served.program() as program:
        assert (program.get("/stream/none/mjpeg").status_code, _status(served, "none")) == (404, 404)
        settings.write_text(SETTINGS.replace("enabled: true", "enabled: false"))
        wait_for(lambda: _status(served, "agent") == 403, "that it is off")
        assert "web.stream.enabled" in program.get("/stream/agent/mjpeg").text
        assert "mjpeg" not in program.get(f"/a/agent/runs/{RUN}").text
        settings.write_text(SETTINGS)
        wait_for(lambda: "mjpeg" in program.get(f"/a/agent/runs/{RUN}").text, "that it is on")


def _status(served: Served, agent: str) -> int:
    with Viewer(served.base, token(served), path=f"/stream/{agent}") as viewer:
        return viewer.status


def test_what_is_half_written_or_no_picture_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "picture"

    async def look() -> None:
        viewers = [frames(str(path)) for _ in range(3)]
        for number in (1, 2):
            waiting = asyncio.ensure_future(anext(viewers[0]))
            for torn in (b"", b"GIF89a", b"\0\0\0\0" + jpeg(number)):
                path.write_bytes(torn)
                assert not (await asyncio.wait([waiting], timeout=3 * LOOK_SECONDS))[0]
            Screen(str(path)).put(b"GIF89a")
            assert not (await asyncio.wait([waiting], timeout=3 * LOOK_SECONDS))[0]
            Screen(str(path)).put(jpeg(number))
            assert [await waiting, *[await anext(each) for each in viewers[1:]]] == [jpeg(number)] * 3

    asyncio.run(look())


def test_who_leaves_while_nothing_moves_is_let_go(desk: Desk) -> None:
    """Nothing is sent, by which it would be noticed."""
    Path(desk.home().settings).write_text(SETTINGS)
    app = Starlette(routes=routes(Agents(desk.context())))
    said: list[Message] = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1001}]
    scope = {"type": "websocket", "path": "/stream/agent", "headers": [], "query_string": b"", "root_path": ""}
    told: list[Message] = []

    async def receive() -> Message:
        return said.pop(0)

    async def send(message: Message) -> None:
        told.append(message)

    async def look() -> None:
        async with asyncio.timeout(10):
            await app(scope, receive, send)

    asyncio.run(look())
    assert [each["type"] for each in told] == ["websocket.accept"]


COLOUR = """async (number) => {
  const image = document.querySelector("aside img"), canvas = document.createElement("canvas").getContext("2d");
  for (const until = Date.now() + 10000; Date.now() < until; await new Promise(requestAnimationFrame)) {
    canvas.drawImage(image, 0, 0, 1, 1);
    if (image.naturalWidth && canvas.getImageData(0, 0, 1, 1).data[0] >> 7 == number) return image.naturalWidth;
  }
  return 0;
}"""
SOCKET = """(base) => new Promise((tell) => {
  const wire = new WebSocket(base.replace("http", "ws") + "/stream/agent");
  wire.onmessage = (message) => { wire.close(); tell(message.data.size); };
  wire.onerror = () => tell(0);
})"""


def test_a_browser_shows_it_on_the_screen_of_the_run(
    both: tuple[Served, Screen], look: Callable[..., Viewer], browser: Browser
) -> None:
    """In a plain `<img>`, which goes on when the steps beside it are made anew; by its own WebSocket, too, which no
    other page gets, not even one of another port."""
    served, screen = both
    context = opened(browser, served)
    page, elsewhere = context.new_page(), context.new_page()
    elsewhere.route("**/elsewhere", lambda route: route.fulfill(body="<p>another", content_type="text/html"))
    pictures, asked = [], []
    page.on("request", lambda request: asked.append(request) if "mjpeg" in request.url else None)
    for colour in ("#000", "#f80"):
        elsewhere.set_content(f"<body style='background:{colour}'>")
        pictures.append(elsewhere.screenshot(type="jpeg", clip={"x": 0, "y": 0, "width": 427, "height": 240}))
    screen.put(pictures[0])
    until(look().frames(), pictures[0])
    page.goto(f"/a/agent/runs/{RUN}")
    expect(page.get_by_alt_text("What the agent's browser shows now")).to_be_visible()
    assert page.evaluate(COLOUR, 0) == 427
    assert Axe().run(page).violations_count == 0
    transcript(served.desk, RUN).append(Told("2", own="A step more."))
    expect(page.locator("main")).to_contain_text("A step more.")
    screen.put(pictures[1])
    assert page.evaluate(COLOUR, 1) == 427
    requests = page.evaluate(
        "performance.getEntriesByType('resource').filter((each) => each.name.includes('mjpeg')).length"
    )
    assert requests <= 1
    assert page.evaluate(SOCKET, served.base) == len(pictures[1])
    elsewhere.goto("http://127.0.0.1:9/elsewhere")
    assert elsewhere.evaluate(SOCKET, served.base) == 0
    context.close()
