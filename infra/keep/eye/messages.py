"""What the web door and the driver of a browser say to each other: msgpack, each with its length before it. What the
driver says is a stranger's word: it has talked to a browser that has run a page."""

from __future__ import annotations

import struct
from typing import Annotated

import msgspec
from msgspec import Meta

from infra.keep.eye.blocked import Signals
from infra.shared.conversation import MOST_IMAGE_BYTES
from infra.shared.web import MOST_FRAME_BYTES

MOST_HTML_CHARS = 4 << 20
MOST_MESSAGE_BYTES = 24 << 20
"""Of one that the driver says: more ends the browser."""
HEAD = struct.Struct("!I")
CRASHED, LATE, NOWHERE = "the page has crashed its process", "the page is not there in time", "it leads to no page"
REFUSED, FILE = "the browser does not show it", "it is a file, which has no text in a browser"
BROKEN = (CRASHED, LATE, REFUSED)
"""Why it is not asked again."""


class Look(msgspec.Struct, frozen=True):
    """Show this page in the context that is open, which is closed with it."""

    url: str
    picture: bool = False
    """Of what it looks like; else its visible part as HTML."""
    full_page: bool = False
    width: int = 1280
    seconds: float = 20.0
    stream_quality: int = 0
    """Of the frames that are told meanwhile; 0: none."""
    stream_width: int = 854


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """What the page became; with `why`, there is none."""

    url: Annotated[str, Meta(max_length=8192)] = ""
    """The final address, as the browser says."""
    status: Annotated[int, Meta(ge=0, le=999)] = 0
    headers: dict[str, str] = {}
    """Of the final answer, in small letters; a few that tell a challenge."""
    html: Annotated[str, Meta(max_length=MOST_HTML_CHARS)] = ""
    image: Annotated[bytes, Meta(max_length=MOST_IMAGE_BYTES)] = b""
    signals: Signals = Signals()
    notes: Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=10)] = ()
    """What was refused or left out."""
    why: Annotated[
        str, Meta(pattern=rf"\A(|net::ERR_[A-Z_]{{1,40}}|{CRASHED}|{LATE}|{NOWHERE}|{REFUSED}|{FILE})\Z")
    ] = ""
    """No other words: they are shown outside of any frame."""


class Frame(msgspec.Struct, frozen=True, tag="frame"):
    """A picture of the page as it is now."""

    jpeg: Annotated[bytes, Meta(max_length=MOST_FRAME_BYTES)]


Said = Seen | Frame
SAID: msgspec.msgpack.Decoder[Said] = msgspec.msgpack.Decoder(Said)


def packed(message: msgspec.Struct) -> bytes:
    content = msgspec.msgpack.encode(message)
    return HEAD.pack(len(content)) + content
