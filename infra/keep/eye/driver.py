"""The program that speaks with one browser: `driver BROWSER DOOR`, two descriptors. It carries out each `Look` that
comes from the door, in a context of its own, and ends when either of them does, or when the browser says what makes no
sense.

What it reads was said by a process that has run strangers' scripts, so all that it may have is taken from it first, as
from a page's reader (`worker_process`)."""

from __future__ import annotations

import base64
import json
import re
import resource
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from infra.keep.eye import messages
from infra.keep.eye.blocked import CHALLENGES, MARKS, SHELLS
from infra.keep.eye.messages import HEAD, MOST_HTML_CHARS, Frame, Look, Seen, packed
from infra.shared.conversation import MOST_IMAGE_BYTES
from infra.shared.web import MOST_FRAME_BYTES

MEMORY_BYTES = 512 << 20
VISIBLE = Path(__file__).with_name("visible.js").read_text()
HEIGHT, MOST_HEIGHT = 800, 8000
"""Of the window, and of a whole page's picture."""
QUIET_SECONDS, SETTLE_SECONDS, TICK_SECONDS = 0.1, 5.0, 0.025
"""A page is there when nothing has been asked for so long; after its load that is waited for at most so long."""
START_SECONDS, OPEN_SECONDS, SPARE_SECONDS, SCRIPT_SECONDS = 8.0, 3.0, 2.0, 5
FRAME_SECONDS = 1 / 8
QUALITIES, MOST_LOADING = (80, 40, 10), 1000
PROXY = {"proxyServer": "http://127.0.0.1:3128", "proxyBypassList": "<-loopback>"}
"""Where the eye offers it (`parent.PROXY_PORT`), for loopback's own addresses, too."""


class Message(msgspec.Struct, frozen=True):
    id: int = 0
    method: str = ""
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    session: str = msgspec.field(default="", name="sessionId")


class Refused(Exception):
    """The browser does not do it; the words are its own."""


_MESSAGE = msgspec.json.Decoder(Message)


class Devtools:
    """The DevTools protocol: JSON with a zero byte behind each message. While it waits for an answer, or for nothing
    but time, each event is handed to `on_event`. Whatever else than `Refused` is raised here, the browser is not to be
    asked again: it is late, has ended, or says what cannot be understood."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self.on_event: Callable[[Message], None] = lambda event: None
        self._held = bytearray()
        self._read_to = 0
        self._number = 0

    def ask(self, method: str, deadline: float, session: str = "", **params: Any) -> dict[str, Any]:
        """Raises Refused."""
        answer = self.attend(deadline, self.tell(method, session, **params))
        if answer is None:
            raise TimeoutError(method)
        if answer.error is not None:
            raise Refused(str(answer.error))
        return answer.result

    def tell(self, method: str, session: str = "", **params: Any) -> int:
        """Without waiting for the answer, which is passed over."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        self._wire.sendall(msgspec.json.encode(asked) + b"\0")
        return self._number

    def attend(self, until: float, number: int = -1) -> Message | None:
        """Hand out events, until there is an answer to that number."""
        while message := self._next(until):
            if message.method:
                self.on_event(message)
            elif message.id == number:
                return message
        return None

    def _next(self, until: float) -> Message | None:
        while (end := self._held.find(b"\0", self._read_to)) < 0:
            self._read_to = len(self._held)
            if self._read_to > messages.MOST_MESSAGE_BYTES:
                raise ValueError("a message without an end")
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._wire], [], [], left)[0]:
                return None
            piece = self._wire.recv(1 << 18)
            if not piece:
                raise EOFError("the browser has ended")
            self._held += piece
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        self._read_to = 0
        try:
            return _MESSAGE.decode(line)
        except msgspec.DecodeError:  # half a character, which scripts make of whole ones, is no JSON to it
            return _MESSAGE.decode(json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace"))


class Looking:
    """Opened ahead, used once. `tell` gets the frames."""

    def __init__(self, devtools: Devtools, tell: Callable[[Frame], None], seconds: float) -> None:
        self._devtools, self._tell = devtools, tell
        devtools.on_event = self._on_event
        self._look = Look("")
        self._end = time.monotonic() + seconds
        self._context, self._session, self._target = "", "", ""
        """The last is the page's main frame, too."""
        self._loading = dict[str, None]()
        self._quiet_since = 0.0
        self._loaded_at: float | None = None
        self._why_none = ""
        """Why there is no page, of `messages`."""
        self._document: dict[str, Any] = {}
        self._is_file = False
        self._notes = dict[str, None]()
        self._ack_at = 0.0
        self._ack: int | None = None

    def open(self) -> None:
        """An empty page in a context of its own. Raises Refused."""
        self._context = self._ask("Target.createBrowserContext", disposeOnDetach=True, **PROXY)["browserContextId"]
        self._ask("Browser.setDownloadBehavior", behavior="deny", browserContextId=self._context)
        made = self._ask("Target.createTarget", url="about:blank", browserContextId=self._context)
        self._target = made["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page.enable", "Network.enable", "Inspector.enable"):
            self._on(domain)  # waited for: what is told of the empty page is not taken for the next one's

    def close(self) -> None:
        """With all that the page opened. Raises Refused."""
        self._end = time.monotonic() + SPARE_SECONDS
        self._ask("Target.disposeBrowserContext", browserContextId=self._context)

    def run(self, look: Look) -> Seen:
        self._look, self._end = look, time.monotonic() + look.seconds
        try:
            self._navigate()
            self._settle()
            why = messages.FILE if self._is_file else self._why_none
            return Seen(why=why) if why else self._seen()
        except Refused as error:
            # Of what it says, nothing but one of its own names for what went wrong.
            found = re.search(r"net::ERR_[A-Z_]{1,40}", str(error))
            return Seen(why=found[0] if found else messages.REFUSED)
        except TimeoutError:
            return Seen(why=messages.LATE)

    def _navigate(self) -> None:
        look = self._look
        window = {"width": look.width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._devtools.tell("Emulation.setDeviceMetricsOverride", self._session, **window)
        if look.stream_quality:
            how = {"format": "jpeg", "quality": look.stream_quality}
            size = {"maxWidth": look.stream_width, "maxHeight": look.stream_width}
            self._devtools.tell("Page.startScreencast", self._session, **how, **size)
        self._loaded_at = None
        if error := self._on("Page.navigate", url=look.url).get("errorText"):
            raise Refused(error)

    def _settle(self) -> None:
        while not self._is_file and self._why_none != messages.CRASHED and (now := time.monotonic()) < self._end:
            if self._loaded_at is not None:
                if not self._loading and now - self._quiet_since >= QUIET_SECONDS:
                    return
                if now - self._loaded_at >= SETTLE_SECONDS:
                    break
            self._devtools.attend(now + TICK_SECONDS)
            if self._ack is not None and now >= self._ack_at:  # so seldom that no more frames come than may
                self._devtools.tell("Page.screencastFrameAck", self._session, sessionId=self._ack)
                self._ack = None
        self._notes["the page was still loading"] = None

    def _seen(self) -> Seen:
        self._end = max(self._end, time.monotonic() + SPARE_SECONDS)  # what is there by now is better than nothing
        url = str(self._ask("Target.getTargetInfo", targetId=self._target)["targetInfo"]["url"])[:8192]
        headers = {str(name).lower(): str(value)[:200] for name, value in self._document.get("headers", {}).items()}
        told = {name: headers[name] for name in CHALLENGES if name in headers}
        world = self._on("Page.createIsolatedWorld", frameId=self._target, worldName="eye")["executionContextId"]
        given = msgspec.json.encode([MOST_HTML_CHARS - 2000, MARKS, SHELLS]).decode()
        how = {"returnByValue": True, "timeout": SCRIPT_SECONDS * 1000}
        answer = self._on("Runtime.evaluate", contextId=world, expression=f"{VISIBLE}(...{given})", **how)
        found, image = answer["result"]["value"], self._picture() if self._look.picture else b""
        status, notes = int(self._document.get("status", 0)), (*self._notes, *found["notes"])
        return Seen(url, status, told, found["html"], image, found["signals"], notes)  # the door looks at the types

    def _picture(self) -> bytes:
        height = HEIGHT
        if self._look.full_page:
            size = self._on("Page.getLayoutMetrics")["cssContentSize"]
            height = max(1, min(int(size["height"]), MOST_HEIGHT))
            if size["height"] > MOST_HEIGHT:
                self._notes[f"what is below {MOST_HEIGHT} pixels"] = None
        clip = {"x": 0, "y": 0, "width": self._look.width, "height": height, "scale": 1}
        how = {"format": "jpeg", "clip": clip, "captureBeyondViewport": self._look.full_page}
        for quality in QUALITIES:
            image = base64.b64decode(self._on("Page.captureScreenshot", quality=quality, **how)["data"], validate=True)
            if len(image) <= MOST_IMAGE_BYTES:
                return image
        raise Refused("no picture of it is small enough")

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._devtools.ask(method, self._end, **params)

    def _on(self, method: str, **params: Any) -> dict[str, Any]:
        return self._devtools.ask(method, self._end, self._session, **params)

    def _on_event(self, event: Message) -> None:
        if event.session != self._session:
            return
        given, now = event.params, time.monotonic()
        match event.method:
            case "Network.requestWillBeSent" if len(self._loading) < MOST_LOADING:
                self._loading[str(given["requestId"])] = None
            case "Network.loadingFinished" | "Network.loadingFailed":
                self._loading.pop(str(given["requestId"]), None)
                self._quiet_since = now
            case "Network.responseReceived" if given["type"] == "Document" and given.get("frameId") == self._target:
                self._document = given["response"]
                self._is_file = self._document["mimeType"] == "application/pdf"
            case "Page.frameStartedLoading" if given["frameId"] == self._target:
                self._loaded_at = None
            case "Page.frameStoppedLoading" if given["frameId"] == self._target:
                self._loaded_at = self._quiet_since = now
            case "Page.frameNavigated" if "parentId" not in given["frame"]:
                self._why_none = messages.NOWHERE if "unreachableUrl" in given["frame"] else ""
            case "Inspector.targetCrashed":
                self._why_none = messages.CRASHED
            case "Page.javascriptDialogOpening":
                self._notes["a dialog"] = None
                accept = given.get("type") == "beforeunload"
                self._devtools.tell("Page.handleJavaScriptDialog", self._session, accept=accept)
            case "Page.downloadWillBegin":  # that request never ends, and the page before has no load any more
                self._notes["a download"] = None
                self._loading.clear()
                self._loaded_at = now
            case "Page.screencastFrame":
                jpeg = base64.b64decode(given["data"], validate=True)
                if len(jpeg) <= MOST_FRAME_BYTES:
                    self._tell(Frame(jpeg))
                self._ack, self._ack_at = int(given["sessionId"]), now + FRAME_SECONDS


def main(words: list[str]) -> int:
    browser, wire = (socket.socket(fileno=int(word)) for word in words)
    door, devtools = wire.makefile("rb"), Devtools(browser)
    give_up()

    def tell(said: msgspec.Struct) -> None:
        wire.sendall(packed(said))

    seconds = START_SECONDS
    try:
        while True:
            # Ahead of the next look: that takes as long as many a page.
            looking, seconds = Looking(devtools, tell, seconds), OPEN_SECONDS
            looking.open()
            [length] = HEAD.unpack(door.read(HEAD.size))
            tell(looking.run(msgspec.msgpack.decode(door.read(length), type=Look)))
            looking.close()
    except Exception as error:  # whatever it is, a stranger's words are behind it
        print(f"the browser is given up: {type(error).__name__}: {str(error)[:200]!a}", file=sys.stderr)
        return 1


def give_up() -> None:
    none = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    for kind, most in (*((kind, 0) for kind in none), (resource.RLIMIT_AS, MEMORY_BYTES)):
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
