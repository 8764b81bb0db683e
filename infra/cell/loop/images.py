"""Images that a run has seen. Its conversation and its record name a file in logs/outputs in the place of the bytes,
which are read when a request is sent: a record stays small, and a run that is resumed sees what it saw."""

from __future__ import annotations

import base64
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infra.cell.doors import ModelFailure, media_type_of
from infra.cell.tools.spill import ENDINGS, IMAGE, digest_of
from infra.shared.conversation import MOST_IMAGE_BYTES, Block, Completion, Image, Request, Text, ToolResult, images_of
from infra.shared.paths import OUTPUTS
from infra.shared.safe_files import whole_file

MOST_SHOWN = 10
_KEPT = re.compile(rf"{OUTPUTS}/([0-9a-f]{{16}})\.(?:{'|'.join(ENDINGS.values())})")


def shown_by(facts: Mapping[str, Any]) -> tuple[Image, ...]:
    """The image of a result, by its file; a record may hold anything there."""
    match facts.get(IMAGE):
        case {"media_type": str(kind), "path": str(path)} if kind in ENDINGS:
            return (Image(kind, path),)  # type: ignore[arg-type]
    return ()


def with_images(complete: Callable[[Request], Completion], checkout: str) -> Callable[[Request], Completion]:
    """`complete` for requests whose images are in files of `checkout`: the last of them are sent, of older ones words;
    a request that the provider refuses goes once more without any."""
    kept = functools.lru_cache(MOST_SHOWN)(functools.partial(loaded, checkout))

    def completed(request: Request) -> Completion:
        images = request.images
        older = (Text(f"[image: not shown now; read_file {each.data} shows it again]") for each in images[:-MOST_SHOWN])
        found = iter([*older, *map(kept, images[-MOST_SHOWN:])])
        request = request._replace(
            messages=tuple(
                message._replace(content=tuple(_with(block, found) for block in message.content))
                for message in request.messages
            )
        )
        try:
            return complete(request)
        except ModelFailure as failure:
            if failure.type != "invalid_request" or not request.images:
                raise
        return complete(request.in_words)

    return completed


def _with(block: Block, found: Iterator[Image | Text]) -> Block:
    """With the next of these in the place of its images."""
    each = [next(found) for _ in images_of(block)]
    if not isinstance(block, ToolResult):
        return each[0] if each else block
    words = "\n".join([block.content, *(one.text for one in each if isinstance(one, Text))])
    return block._replace(content=words, images=tuple(one for one in each if isinstance(one, Image)))


def loaded(checkout: str, image: Image) -> Image | Text:
    """An image that is in a file; words for a file that is gone, or is another now."""
    named = _KEPT.fullmatch(image.data)
    try:
        content = whole_file(os.path.join(checkout, image.data), MOST_IMAGE_BYTES) if named else b""
    except OSError:
        content = b""
    if not named or digest_of(content)[:16] != named[1] or media_type_of(content) != image.media_type:
        return Text(f"[image: {image.media_type}, not kept any more]")
    return Image(image.media_type, base64.b64encode(content).decode())
