"""Reading what the runner asks: strictly, so that a mistake is named here and not by the provider, and with a limit
on its size. What comes out is a `shared.conversation`."""

from __future__ import annotations

import binascii

import msgspec

from infra.keep.model_door.model import CallFailure
from infra.shared.conversation import (
    MOST_IMAGES,
    MOST_IMAGES_CHARS,
    Image,
    Request,
    ToolResult,
    ToolUse,
    images_of,
    media_type_of,
)

MAX_BYTES = 32 * 1024 * 1024
"""What Anthropic takes at most."""


def read_request(body: bytes) -> Request:
    """Raises CallFailure that names what is wrong and where."""
    try:
        request = msgspec.json.decode(body, type=Request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CallFailure("invalid_request", f"the request is not a conversation: {error}") from None
    problem = _problem_with(request)
    if problem:
        raise CallFailure("invalid_request", problem)
    return request


def problem_with_image(image: Image) -> str:
    """A provider refuses what is not what it says, and with it the conversation that holds it."""
    try:
        found = media_type_of(binascii.a2b_base64(image.data, strict_mode=True))
    except ValueError as error:
        return f"an image is not base64: {error}"
    return "" if found == image.media_type else f"an image is {found or 'none'}, and says that it is {image.media_type}"


def too_large() -> CallFailure:
    return CallFailure(
        "context_overflow", f"the conversation is over {MAX_BYTES} bytes, the most a provider takes; make it shorter"
    )


def _problem_with(request: Request) -> str | None:
    """Raises CallFailure for too many images."""
    if not request.messages or request.messages[0].role != "user":
        return "messages: the first one must be the user's"
    images = request.images
    if len(images) > MOST_IMAGES or sum(len(image.data) for image in images) > MOST_IMAGES_CHARS:
        raise CallFailure(
            "context_overflow",
            f"the conversation holds {len(images)} images; at most {MOST_IMAGES} are taken, of {MOST_IMAGES_CHARS} "
            "characters in base64 together",
        )
    called: set[str] = set()
    for place, message in enumerate(request.messages):
        for block in message.content:
            if images_of(block) and message.role != "user":
                return f"messages[{place}]: an image stands in an assistant message; expected it in a user's"
            problem = next(filter(None, map(problem_with_image, images_of(block))), "")
            if problem:
                return f"messages[{place}]: {problem}"
            if isinstance(block, ToolUse):
                if message.role != "assistant":
                    return f"messages[{place}]: a tool_use stands in a user message; expected it in an assistant's"
                if block.id in called:
                    return f"messages[{place}]: tool_use id {block.id!r} is used twice; each call needs its own"
                called.add(block.id)
            elif isinstance(block, ToolResult):
                if message.role != "user":
                    return f"messages[{place}]: a tool_result stands in an assistant message; expected it in a user's"
                if block.tool_use_id not in called:
                    return f"messages[{place}]: tool_result for {block.tool_use_id!r}, which no tool_use before it has"
    return None
