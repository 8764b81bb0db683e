"""The live picture: in a plain `<img>` and over a WebSocket, from one source, and for nobody without the token."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import uvicorn
from playwright.sync_api import Browser, sync_playwright
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from host.serve import stream
from host.serve.access import Access, Token
from infra.shared.web import Watched
from tests.host.serve.test_browser import CHROMIUM, WORDS

RATE = 20
"""Frames a second that the stand-in gives."""
PIXEL = (
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQEw8Q"
    "EBD/yQALCAABAAEBAREA/8wABgAQEAX/2gAIAQEAAD8A0s8g/9k="
)
COUNT = """address => new Promise(done => {
    const wire = new WebSocket(address); let count = 0;
    wire.onmessage = () => { count += 1 };
    wire.onclose = event => done(-event.code);
    setTimeout(() => done(count), 1500);
})"""


class Bridge:
    """What the sandbox would say."""

    def __init__(self) -> None:
        self.watching, self.most = 0, 0

    def watch(self, number: int = 0) -> Generator[Watched, None, None]:
        self.watching += 1
        self.most = max(self.most, self.watching)
        try:
            while True:
                number += 1
                yield Watched(number, PIXEL)
                time.sleep(1 / RATE)
        finally:
            self.watching -= 1


class Streaming:
    def __init__(self, base: str, link: str, bridge: Bridge) -> None:
        self.base, self.link, self.bridge = base, link, bridge


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streaming]:
    folder: Path = tmp_path_factory.mktemp("stream")
    token, bridge = Token(f"{folder}/token"), Bridge()
    words = token.renew()
    agents: Any = SimpleNamespace(get=lambda name: SimpleNamespace(name=name, bridge=bridge))
    page = HTMLResponse('<img src="/stream/agent/mjpeg">')
    app = Starlette(routes=[Route("/", lambda request: page), *stream.routes(agents)])
    listener = socket.create_server(("127.0.0.1", 0))
    access = Access(app, token, lambda: (), f"{folder}/audit")
    server = uvicorn.Server(uvicorn.Config(access, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield Streaming(base, f"{base}/enter?token={words}", bridge)
    server.should_exit = True
    thread.join(10.0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=WORDS)
        yield browser
        browser.close()


def test_a_plain_img_shows_the_picture(browser: Browser, streaming: Streaming) -> None:
    page = browser.new_page()
    page.goto(streaming.link, wait_until="commit")
    until = time.monotonic() + 10.0
    while page.evaluate("[...document.images].map(each => each.naturalWidth)") != [1]:
        assert time.monotonic() < until
        time.sleep(0.05)
    page.close()


def test_a_websocket_gets_frames_at_the_rate_they_come(browser: Browser, streaming: Streaming) -> None:
    """Whoever comes later has the last one at once, and all have one source."""
    page = browser.new_page()
    page.goto(streaming.link, wait_until="commit")
    address = f"{streaming.base.replace('http', 'ws')}/stream/agent"
    count = page.evaluate(COUNT, address)
    assert RATE // 2 <= count <= RATE * 2
    assert streaming.bridge.most == 1
    page.close()


def test_nobody_without_the_token_sees_it(browser: Browser, streaming: Streaming) -> None:
    assert httpx2.get(f"{streaming.base}/stream/agent/mjpeg").status_code == 401
    page = browser.new_page()
    page.goto("about:blank")
    assert page.evaluate(COUNT, f"{streaming.base.replace('http', 'ws')}/stream/agent") < 0
    page.close()


def test_another_page_in_the_same_browser_does_not_either(streaming: Streaming) -> None:
    """A WebSocket is opened across origins, with the cookie, whatever the page (CSWSH)."""
    with httpx2.Client(base_url=streaming.base) as client:
        client.get(streaming.link)
        key = base64.b64encode(b"k" * 16).decode()
        upgrade = {
            "connection": "upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": key,
        }
        for origin, status in (("http://evil.example", 403), (streaming.base, 101)):
            with client.stream("GET", "/stream/agent", headers=upgrade | {"origin": origin}) as answer:
                assert answer.status_code == status


def test_a_slow_reader_loses_frames_and_no_memory(streaming: Streaming) -> None:
    with httpx2.Client(base_url=streaming.base) as client:
        client.get(streaming.link)
        with client.stream("GET", "/stream/agent/mjpeg") as answer:
            parts = answer.iter_raw()
            next(parts)
            before = time.monotonic()
            while time.monotonic() - before < 1.0:
                assert b"\xff\xd8\xff" in next(parts) + next(parts)
