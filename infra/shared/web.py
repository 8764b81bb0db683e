"""What the web door can be asked, and what it answers (`shared.door`): a `Fetch` gets a `Page`, a `Search` gets
`SearchResults`. A failure's type is a `WebErrorType`."""

from __future__ import annotations

import os
import zlib
from typing import Annotated, Literal

import msgspec

from infra.shared.conversation import Value
from infra.shared.door import DoorRequest

MOST_URL_CHARS = 8192
MOST_CHARS = 250_000
"""Of a page's text, as it is given whole; fewer where its marks and letters take many bytes."""
MOST_FRAME_BYTES = 512 << 10
"""Of what the browser shows, live."""

WebErrorType = Literal["validation_error", "policy_denied", "tool_timeout", "tool_unavailable", "execution_error"]
"""See SPEC_WEB for when each is given."""
WebTool = Literal["fetch_page", "web_search", "screenshot", "ghost_extract"]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_URL_CHARS)]
Name = Annotated[str, msgspec.Meta(max_length=100)]


Blocked = Literal["", "challenge", "shell"]
"""Why what came is not the page: something stands in front of it, or scripts have yet to fill it."""


Mode = Literal["", "rendered", "screenshot", "ghost"]
"""As it comes; or, where `web.browser` is on, what a browser shows of it: its text, or a picture. With `ghost` its text
is to be read out of that, where `web.ghost.enabled` allows it."""


class Fetch(DoorRequest, frozen=True):
    url: Url
    raw: bool = False
    """The source as it came, where `web.keep_raw_html` allows that."""
    max_chars: Annotated[int, msgspec.Meta(ge=200, le=MOST_CHARS)] = 10_000
    """Of `Page.text`."""
    mode: Mode = ""
    full_page: bool = False
    """A picture goes on below the window."""
    run: Name = ""
    """For the trace alone; nothing is decided by it."""
    step: Name = ""


class Page(Value, frozen=True):
    """What came, for the model. `text` and `whole` stand in a frame that names the origin and that nothing in them can
    close: all that the page and its site wrote, and what was left out, in words."""

    status: int
    text: str
    whole: str
    """Empty when `text` is the whole."""
    size: int
    """In bytes, of the body as it came, unpacked."""
    blocked: Blocked = ""
    then: Mode = ""
    """What the PM's settings let be tried next, where it is blocked."""
    image: str = ""
    """JPEG, in base64, where a picture was asked for."""
    origin: str = ""
    nonce: str = ""
    """Of a frame for what is read out of that."""


class Search(DoorRequest, frozen=True):
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    run: Name = ""
    step: Name = ""


class SearchResults(Value, frozen=True):
    text: str
    """Titles, addresses and excerpts in a frame, as of a page."""
    results: int


def show(descriptor: int, jpeg: bytes) -> None:
    """Put it into the file of the last frame. Raises OSError."""
    content = zlib.crc32(jpeg).to_bytes(4) + jpeg
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))


def shown(path: str) -> bytes:
    """The last frame; empty where there is none, or while it is being written. Raises OSError."""
    with open(path, "rb") as file:
        content = file.read(4 + MOST_FRAME_BYTES)
    return content[4:] if zlib.crc32(content[4:]).to_bytes(4) == content[:4] else b""
