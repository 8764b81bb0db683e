"""Images that a run has seen. Its conversation and its record hold kind, size, digest and a file in logs/outputs; the
bytes are read when a request is sent, so that a record stays small and a run that is resumed sees what it saw."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from infra.cell.doors import ModelFailure
from infra.cell.media_types import media_type_of
from infra.cell.tools.spill import ENDINGS, IMAGE, digest_of
from infra.shared.conversation import (
    MOST_IMAGE_BYTES,
    MOST_IMAGES_CHARS,
    Block,
    Completion,
    Image,
    Request,
    Text,
    ToolResult,
    images_of,
    without_images,
)
from infra.shared.paths import OUTPUTS
from infra.shared.safe_files import whole_file

MOST_SHOWN = 10
_KEPT = re.compile(rf"{OUTPUTS}/[0-9a-f]{{16}}\.({'|'.join(ENDINGS.values())})")


class KeptImage(Image, frozen=True, tag_field="type", tag="image"):
    """An image by its file; `data` is empty."""

    path: str
    sha256: str
    length: int

    @property
    def size(self) -> int:
        return self.length

    @property
    def words(self) -> str:
        return f"[image: {self.media_type}, {self.length} bytes, not shown now; read_file {self.path} shows it again]"


def shown_by(facts: Mapping[str, Any]) -> tuple[Image, ...]:
    """The image of a result; a record may hold anything there."""
    match facts.get(IMAGE):
        case {"media_type": str(kind), "bytes": int(size), "sha256": str(digest), "path": str(path)} if kind in ENDINGS:
            return (KeptImage(kind, "", path, digest, size),)  # type: ignore[arg-type]
    return ()


class Loader:
    """Requests whose images are in files of `checkout`, as the door takes them. Those of the last request stay in
    memory."""

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout
        self._last: dict[KeptImage, Image | Text] = {}
        self._refused = frozenset[Image]()
        """Words from now on: else no request of this conversation would ever be answered again."""

    def loaded(self, complete: Callable[[Request], Completion]) -> Callable[[Request], Completion]:
        """`complete` for such requests, once more without images where a provider refuses the request."""

        def completed(request: Request) -> Completion:
            shown = frozenset(_newest(request.images)) - self._refused
            try:
                return complete(self._made(request, shown))
            except ModelFailure as failure:
                if failure.type != "invalid_request" or not shown:
                    raise
            completion = complete(self._made(request, frozenset()))
            self._refused |= shown
            return completion

        return completed

    def _made(self, request: Request, shown: frozenset[Image]) -> Request:
        if not request.images:
            return request
        kept = [image for image in shown if isinstance(image, KeptImage)]
        self._last = {image: self._last.get(image) or _loaded(image, self._checkout) for image in kept}
        said = (
            message._replace(content=tuple(self._block(block, shown) for block in message.content))
            for message in request.messages
        )
        return request._replace(messages=tuple(said))

    def _block(self, block: Block, shown: frozenset[Image]) -> Block:
        found = [
            self._last[image] if isinstance(image, KeptImage) else image for image in images_of(block) if image in shown
        ]
        if not found or not isinstance(block, ToolResult):
            return found[0] if found else without_images(block)
        words = "\n".join([block.content, *(each.text for each in found if isinstance(each, Text))])
        return block._replace(content=words, images=tuple(each for each in found if isinstance(each, Image)))


def _newest(images: Sequence[Image]) -> Sequence[Image]:
    """As many of the last as a request may have; older ones are words."""
    newest = images[-MOST_SHOWN:]
    while sum(-(-image.size // 3) * 4 for image in newest) > MOST_IMAGES_CHARS:
        newest = newest[1:]
    return newest


def _loaded(image: KeptImage, checkout: str) -> Image | Text:
    """Words for a file that is gone, or is another now."""
    try:
        content = (
            whole_file(os.path.join(checkout, image.path), MOST_IMAGE_BYTES) if _KEPT.fullmatch(image.path) else b""
        )
    except OSError:
        content = b""
    if digest_of(content) != image.sha256 or media_type_of(content) != image.media_type:
        return Text(f"[image: {image.media_type}, {image.length} bytes, not kept any more]")
    return Image(image.media_type, base64.b64encode(content).decode())
