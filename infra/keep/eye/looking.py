"""One look at a page, in a context of its own: the page, and what it becomes."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from infra.keep.eye.blocked import CHALLENGES, MARKS, SHELLS, Signals
from infra.keep.eye.devtools import Devtools, Gone, Late, Message, Refused
from infra.keep.eye.messages import MOST_FRAME_BYTES, MOST_HTML_CHARS, MOST_IMAGE_BYTES, Failed, Frame, Look, Seen

VISIBLE = Path(__file__).with_name("visible.js").read_text()
HEIGHT, MOST_HEIGHT = 800, 8000
"""Of the window, and of a whole page's picture."""
QUIET_SECONDS, SETTLE_SECONDS = 0.1, 5.0
"""A page is there when nothing has been asked for so long; after its load that is waited for at most so long."""
OPEN_SECONDS, SPARE_SECONDS, SCRIPT_SECONDS = 8.0, 2.0, 5
FRAME_SECONDS = 1 / 8
QUALITY, JPEG_BEGINS, MOST_LOADING = 80, b"\xff\xd8\xff", 1000
WORLD = "eye"
PROXY = {"proxyServer": "http://127.0.0.1:3128", "proxyBypassList": "<-loopback>"}
"""Where the eye offers it (`parent.PROXY_PORT`), for loopback's own addresses, too."""


class Visible(msgspec.Struct, frozen=True):
    """What the script makes of a page."""

    html: Annotated[str, Meta(max_length=MOST_HTML_CHARS)]
    cut: bool
    hidden: int
    signals: Signals


class Looking:
    """Opened ahead, used once. `tell` gets the frames."""

    def __init__(self, devtools: Devtools, tell: Callable[[Frame], None]) -> None:
        self._devtools, self._tell = devtools, tell
        self._look = Look("")
        self._end = time.monotonic() + OPEN_SECONDS
        self._context, self._session, self._target = "", "", ""
        """The last is the page's main frame, too."""
        self._loading = dict[str, None]()
        self._quiet_since = 0.0
        self._loaded = self._crashed = self._is_unreachable = False
        self._document: dict[str, Any] = {}
        self._notes = dict[str, None]()
        self._ack_at = 0.0
        self._ack: int | None = None

    def open(self) -> None:
        """An empty page in a context of its own. Raises Refused, Late, Gone."""
        self._context = self._ask("Target.createBrowserContext", disposeOnDetach=True, **PROXY)["browserContextId"]
        self._ask("Browser.setDownloadBehavior", behavior="deny", browserContextId=self._context)
        made = self._ask("Target.createTarget", url="about:blank", browserContextId=self._context)
        self._target = made["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page.enable", "Network.enable", "Inspector.enable"):
            self._devtools.tell(domain, self._session)
        self._on("Page.setInterceptFileChooserDialog", enabled=True)

    def close(self) -> None:
        """With all that the page opened. Raises Refused, Late, Gone."""
        self._end = time.monotonic() + SPARE_SECONDS
        self._ask("Target.disposeBrowserContext", browserContextId=self._context)

    def run(self, look: Look) -> Seen | Failed:
        """Raises Gone."""
        self._look, self._end = look, time.monotonic() + look.seconds
        try:
            return self._shown()
        except Refused as error:
            return _failed(str(error))
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            raise Gone(f"what it says cannot be understood: {error}") from None
        except Late:
            return Failed("the page is not there in time", is_late=True, is_broken=True)

    def _shown(self) -> Seen | Failed:
        look = self._look
        window = {"width": look.width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._devtools.tell("Emulation.setDeviceMetricsOverride", self._session, **window)
        if look.stream_quality:
            size = {"maxWidth": look.stream_width, "maxHeight": look.stream_width}
            self._devtools.tell(
                "Page.startScreencast", self._session, format="jpeg", quality=look.stream_quality, **size
            )
        self._loaded = False
        if error := self._on("Page.navigate", url=look.url).get("errorText"):
            return _failed(str(error))
        self._settle()
        if self._crashed:
            return Failed("the page has crashed its process", is_broken=True)
        if self._is_unreachable:
            return Failed("it leads to where no page is")
        return self._seen()

    def _settle(self) -> None:
        self._attend(self._end, lambda: self._loaded or self._crashed)
        until = min(self._end, time.monotonic() + SETTLE_SECONDS)
        self._quiet_since = max(self._quiet_since, time.monotonic())
        while not self._crashed and (now := time.monotonic()) < until:
            if self._loaded and not self._loading and now - self._quiet_since >= QUIET_SECONDS:
                return
            self._attend(min(until, now + QUIET_SECONDS / 4), lambda: self._crashed)
        self._notes["the page was still loading"] = None

    def _seen(self) -> Seen:
        self._end = max(self._end, time.monotonic() + SPARE_SECONDS)  # what is there by now is better than nothing
        url = str(self._ask("Target.getTargetInfo", targetId=self._target)["targetInfo"]["url"])[:8192]
        headers = {str(name).lower(): str(value)[:200] for name, value in self._document.get("headers", {}).items()}
        told = {name: headers[name] for name in CHALLENGES if name in headers}
        found = self._visible()
        image = self._picture() if self._look.picture else b""
        status, notes = int(self._document.get("status", 0)), tuple(self._notes)
        return Seen(url, status, told, found.html, image, found.signals, notes)

    def _visible(self) -> Visible:
        world = self._on("Page.createIsolatedWorld", frameId=self._target, worldName=WORLD)["executionContextId"]
        given = msgspec.json.encode([MOST_HTML_CHARS - 2000, MARKS, SHELLS]).decode()
        how = {"returnByValue": True, "timeout": SCRIPT_SECONDS * 1000}
        answer = self._on("Runtime.evaluate", contextId=world, expression=f"{VISIBLE}(...{given})", **how)
        found = msgspec.convert(answer["result"]["value"], Visible)
        if found.cut:
            self._notes["the end of a long page"] = None
        if found.hidden:
            self._notes[f"{found.hidden} characters that no reader sees"] = None
        return found

    def _picture(self) -> bytes:
        height = HEIGHT
        if self._look.full_page:
            size = self._on("Page.getLayoutMetrics")["cssContentSize"]
            height = max(1, min(int(size["height"]), MOST_HEIGHT))
            if size["height"] > MOST_HEIGHT:
                self._notes[f"what is below {MOST_HEIGHT} pixels"] = None
        clip = {"x": 0, "y": 0, "width": self._look.width, "height": height, "scale": 1}
        how = {"format": "jpeg", "quality": QUALITY, "clip": clip, "captureBeyondViewport": self._look.full_page}
        image = base64.b64decode(self._on("Page.captureScreenshot", **how)["data"], validate=True)
        if not image.startswith(JPEG_BEGINS) or len(image) > MOST_IMAGE_BYTES:
            raise Refused("the picture is too large, or none")
        return image

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._devtools.ask(method, self._end, **params)

    def _on(self, method: str, **params: Any) -> dict[str, Any]:
        return self._devtools.ask(method, self._end, self._session, **params)

    def _attend(self, until: float, done: Callable[[], bool]) -> None:
        while not done() and time.monotonic() < until:
            due = self._ack_at if self._ack is not None else until
            self._devtools.attend(min(until, due), done)
            self._acknowledge()

    def _acknowledge(self) -> None:
        """So seldom that no more frames come than may."""
        if self._ack is not None and time.monotonic() >= self._ack_at:
            self._devtools.tell("Page.screencastFrameAck", self._session, sessionId=self._ack)
            self._ack = None

    def on_event(self, message: Message) -> None:
        """Raises Gone."""
        if message.session != self._session:
            return
        try:
            self._take(message.method, msgspec.json.decode(message.params, type=dict[str, Any]))
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise Gone(f"{message.method} cannot be understood: {error}") from None

    def _take(self, method: str, given: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent" if len(self._loading) < MOST_LOADING:
                self._loading[str(given["requestId"])] = None
            case "Network.loadingFinished" | "Network.loadingFailed":
                self._loading.pop(str(given["requestId"]), None)
                self._quiet_since = time.monotonic()
            case "Network.responseReceived" if given["type"] == "Document" and given.get("frameId") == self._target:
                self._document = given["response"]
            case "Page.frameStartedLoading" if given["frameId"] == self._target:
                self._loaded = False
            case "Page.frameStoppedLoading" if given["frameId"] == self._target:
                self._loaded = True
            case "Page.frameNavigated" if "parentId" not in given["frame"]:
                self._is_unreachable = "unreachableUrl" in given["frame"]
            case "Inspector.targetCrashed":
                self._crashed = True
            case "Page.javascriptDialogOpening":
                self._notes["a dialog"] = None
                accept = given.get("type") == "beforeunload"
                self._devtools.tell("Page.handleJavaScriptDialog", self._session, accept=accept)
            case "Page.downloadWillBegin":  # that request never ends, and the page before has no load any more
                self._notes["a download"] = None
                self._loading.clear()
                self._loaded = True
            case "Page.fileChooserOpened":
                self._notes["an upload"] = None
            case "Page.screencastFrame":
                jpeg = base64.b64decode(given["data"], validate=True)
                if len(jpeg) <= MOST_FRAME_BYTES and jpeg.startswith(JPEG_BEGINS):
                    self._tell(Frame(jpeg))
                self._ack, self._ack_at = int(given["sessionId"]), time.monotonic() + FRAME_SECONDS


def _failed(words: str) -> Failed:
    plain = "".join(each if each.isascii() and (each.isalnum() or each in " :().,'-_") else " " for each in words)
    return Failed(plain.strip()[:200] or "no reason was given")
