"""Images that a run has seen. Its conversation and its record hold kind, size, digest and a file in logs/outputs; the
bytes are read when a request is sent, so that a record stays small and a run that is resumed sees what it saw."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from infra.cell.doors import ModelFailure
from infra.cell.loop.context.spill import Spill
from infra.shared.conversation import (
    MOST_IMAGE_BYTES,
    MOST_IMAGES,
    MOST_IMAGES_CHARS,
    Block,
    Completion,
    Image,
    Message,
    Request,
    Text,
    ToolResult,
    images_of,
    media_type_of,
    without_images,
)
from infra.shared.paths import OUTPUTS
from infra.shared.safe_files import whole_file

IMAGE = "image"
"""The fact of a result that an image belongs to it."""
MOST_FAULTS = 2
"""In a row: some servers call an image that they cannot read an error of their own, which otherwise passes."""
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
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


def is_image(content: bytes) -> bool:
    return b"\0" in content and bool(media_type_of(content))


def keep(spill: Spill, content: bytes) -> dict[str, Any]:
    """What is known of an image, now that it is in a file. Raises OSError."""
    media_type = media_type_of(content)
    path = spill.keep_whole(content, ENDINGS[media_type])
    return {"media_type": media_type, "bytes": len(content), "sha256": _digest(content), "path": path}


def shown_by(facts: Mapping[str, Any]) -> tuple[Image, ...]:
    """The image of a result; a record may hold anything there."""
    match facts.get(IMAGE):
        case {"media_type": str(kind), "bytes": int(size), "sha256": str(digest), "path": str(path)} if kind in ENDINGS:
            return (KeptImage(kind, "", path, digest, size),)  # type: ignore[arg-type]
    return ()


def without_the_oldest(messages: Sequence[Message]) -> list[Message]:
    """The messages as they are; or, with more images than a request may have, with half of those, the last ones."""
    images = [image for message in messages for block in message.content for image in images_of(block)]
    if _fit(images, 1):
        return list(messages)
    dropped = next(count for count in range(len(images) + 1) if _fit(images[count:], 2))
    made = []
    for message in messages:
        content = []
        for block in message.content:
            here = len(images_of(block))
            content.append(without_images(block) if here and dropped > 0 else block)
            dropped -= here
        made.append(message._replace(content=tuple(content)))
    return made


def _fit(images: Sequence[Image], share: int) -> bool:
    chars = sum(-(-image.size // 3) * 4 for image in images)
    return len(images) <= MOST_IMAGES // share and chars <= MOST_IMAGES_CHARS // share


class Loader:
    """Requests whose images are in files of `checkout`, as the door takes them. Those of the last request stay in
    memory."""

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout
        self._last: dict[KeptImage, Image | Text] = {}
        self._taken: set[KeptImage] = set()
        """A provider has answered to these."""
        self._faults = 0
        """So many requests in a row ended as `provider_error`."""

    def loaded(self, complete: Callable[[Request], Completion]) -> Callable[[Request], Completion]:
        """`complete` for such requests. An image that a provider refuses becomes words; else no request of this
        conversation would ever be answered again."""

        def completed(request: Request) -> Completion:
            images = {image for image in request.images if isinstance(image, KeptImage)}
            self._last = {image: self._last.get(image) or _loaded(image, self._checkout) for image in images}
            try:
                completion = complete(self._made(request))
            except ModelFailure as failure:
                completion = self._answered_in_words(complete, request, failure)
            self._taken |= images
            self._faults = 0
            return completion

        return completed

    def _answered_in_words(
        self, complete: Callable[[Request], Completion], request: Request, failure: ModelFailure
    ) -> Completion:
        """The answer to the request without the images that were never answered to, which then stay words; else without
        any, since the model that answers now may be another, which takes none. Raises ModelFailure."""
        shown = self._last
        every = tuple(image for image, found in shown.items() if isinstance(found, Image))
        fresh = tuple(image for image in every if image not in self._taken)
        self._faults = self._faults + 1 if failure.type == "provider_error" else 0
        if failure.type != "invalid_request" and self._faults < MOST_FAULTS:
            raise failure
        for gone in dict.fromkeys(filter(None, (fresh, every))):
            self._last = shown | {image: Text(f"{_named(image)}, refused: {failure.message}]") for image in gone}
            try:
                completion = complete(self._made(request))
            except ModelFailure as again:
                failure = again
            else:
                self._last = self._last if gone == fresh else shown
                return completion
        self._last = shown
        raise failure

    def _made(self, request: Request) -> Request:
        if not self._last:
            return request
        said = (
            message._replace(content=tuple(self._block(block) for block in message.content))
            for message in request.messages
        )
        return request._replace(messages=tuple(said))

    def _block(self, block: Block) -> Block:
        match block:
            case KeptImage():
                return self._last[block]
            case ToolResult(images=(_, *_) as images):
                found = [self._last[image] if isinstance(image, KeptImage) else image for image in images]
                words = "\n".join([block.content, *(each.text for each in found if isinstance(each, Text))])
                return block._replace(content=words, images=tuple(each for each in found if isinstance(each, Image)))
        return block


def _loaded(image: KeptImage, checkout: str) -> Image | Text:
    """Words for a file that is gone, or is another now."""
    try:
        content = (
            whole_file(os.path.join(checkout, image.path), MOST_IMAGE_BYTES) if _KEPT.fullmatch(image.path) else b""
        )
    except OSError:
        content = b""
    if _digest(content) != image.sha256 or media_type_of(content) != image.media_type:
        return Text(f"{_named(image)}, not kept any more]")
    return Image(image.media_type, base64.b64encode(content).decode())


def _named(image: KeptImage) -> str:
    return f"[image: {image.media_type}, {image.length} bytes"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
