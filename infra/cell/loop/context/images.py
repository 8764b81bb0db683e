"""Images that a run has seen. Its conversation and its record hold kind, size, digest and a file in logs/outputs; the
bytes are read when a request is sent, so that a record stays small and a run that is resumed sees what it saw."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


def loaded(complete: Callable[[Request], Completion], checkout: str) -> Callable[[Request], Completion]:
    """`complete` for requests whose images are in files of `checkout`. Those of the last request stay in memory."""
    last: dict[KeptImage, Image | Text] = {}

    def load(image: Image) -> Image | Text:
        if not isinstance(image, KeptImage):
            return image
        return last[image] if image in last else _loaded(image, checkout)

    def of(block: Block) -> list[Block]:
        images = images_of(block)
        found = [load(image) for image in images]
        last.update((image, each) for image, each in zip(images, found, strict=True) if isinstance(image, KeptImage))
        match block:
            case Image():
                return [*found]
            case ToolResult(images=(_, *_)):
                words = "\n".join([block.content, *(each.text for each in found if isinstance(each, Text))])
                return [block._replace(content=words, images=tuple(each for each in found if isinstance(each, Image)))]
        return [block]

    def completed(request: Request) -> Completion:
        images = set(request.images)
        for gone in last.keys() - images:
            del last[gone]
        if images:
            said = [
                message._replace(content=tuple(part for block in message.content for part in of(block)))
                for message in request.messages
            ]
            request = request._replace(messages=tuple(said))
        return complete(request)

    return completed


def _loaded(image: KeptImage, checkout: str) -> Image | Text:
    """Words for a file that is gone, or is another now."""
    try:
        content = (
            whole_file(os.path.join(checkout, image.path), MOST_IMAGE_BYTES) if _KEPT.fullmatch(image.path) else b""
        )
    except OSError:
        content = b""
    if _digest(content) != image.sha256 or media_type_of(content) != image.media_type:
        return Text(f"[image: {image.media_type}, {image.length} bytes, not kept any more]")
    return Image(image.media_type, base64.b64encode(content).decode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
