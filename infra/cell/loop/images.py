"""Images that a run has seen. Its conversation and its record name a file in logs/outputs in the place of the bytes,
which are read when a request is sent: a record stays small, and a run that is resumed sees what it saw."""

from __future__ import annotations

import base64
import functools
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
)
from infra.shared.paths import OUTPUTS
from infra.shared.safe_files import whole_file

MOST_SHOWN = 10
AGAIN = "not shown now; read_file {} shows it again"
_KEPT = re.compile(rf"{OUTPUTS}/([0-9a-f]{{16}})\.(?:{'|'.join(ENDINGS.values())})")


def shown_by(facts: Mapping[str, Any]) -> tuple[Image, ...]:
    """The image of a result, by its file; a record may hold anything there."""
    match facts.get(IMAGE):
        case {"media_type": str(kind), "path": str(path)} if kind in ENDINGS:
            return (Image(kind, path),)  # type: ignore[arg-type]
    return ()


def with_images(complete: Callable[[Request], Completion], checkout: str) -> Callable[[Request], Completion]:
    """`complete` for requests whose images are in files of `checkout`: the last of them are sent, of older ones words,
    and words of all that were sent in a request that the provider refused."""
    loaded = functools.lru_cache(MOST_SHOWN)(lambda image: _loaded(checkout, image))
    refused = set[Image]()

    def completed(request: Request) -> Completion:
        images = request.images
        in_words = [Text(_words(image, AGAIN.format(image.data))) for image in images]
        now, chars = list[Image | Text](in_words), 0
        for at in range(len(images))[-MOST_SHOWN:][::-1]:
            found = in_words[at] if images[at] in refused else loaded(images[at])
            chars += len(found.data) if isinstance(found, Image) else 0
            if chars > MOST_IMAGES_CHARS:
                break
            now[at] = found
        shown = [image for image, found in zip(images, now, strict=True) if isinstance(found, Image)]
        try:
            return complete(_made(request, now))
        except ModelFailure as failure:
            if failure.type != "invalid_request" or not shown:
                raise
        completion = complete(_made(request, in_words))
        refused.update(shown)  # else no request of this conversation would ever be answered again
        return completion

    return completed


def _made(request: Request, found: Sequence[Image | Text]) -> Request:
    """With these in the place of its images, in their order."""
    rest = iter(found)
    if not found:
        return request
    return request._replace(
        messages=tuple(
            message._replace(
                content=tuple(_block(block, [next(rest) for _ in images_of(block)]) for block in message.content)
            )
            for message in request.messages
        )
    )


def _block(block: Block, found: Sequence[Image | Text]) -> Block:
    if not isinstance(block, ToolResult):
        return found[0] if found else block
    words = "\n".join([block.content, *(each.text for each in found if isinstance(each, Text))])
    return block._replace(content=words, images=tuple(each for each in found if isinstance(each, Image)))


def _loaded(checkout: str, image: Image) -> Image | Text:
    """Words for a file that is gone, or is another now."""
    named = _KEPT.fullmatch(image.data)
    try:
        content = whole_file(os.path.join(checkout, image.data), MOST_IMAGE_BYTES) if named else b""
    except OSError:
        content = b""
    if not named or digest_of(content)[:16] != named[1] or media_type_of(content) != image.media_type:
        return Text(_words(image, "not kept any more"))
    return Image(image.media_type, base64.b64encode(content).decode())


def _words(image: Image, why: str) -> str:
    return f"[image: {image.media_type}, {why}]"
