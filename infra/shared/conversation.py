"""A conversation with a model, as the runner and the model door exchange it (`shared.door`). The shapes follow
Anthropic's Messages API; the door maps them to each provider.

`Complete` is answered with a `Completion`, `Health` with `ModelHealth`; a failure has a
type of `ERROR_TYPES`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from infra.shared.door import DoorRequest

TASK, MAINTENANCE, EXPLORATION, JOB = "task", "maintenance", "exploration", "job"
LABELS = (TASK, MAINTENANCE, JOB, EXPLORATION)
"""What a model call is for, by the runner's word. Money is counted by them; directives and tasks are both `task`."""
FIRST_MESSAGE = "Continue."
"""The first user message of every conversation."""
OPENING_PREFIX = "opening-"
"""Ids of tool calls that the runner itself puts at the start of a conversation begin so; the model never made them."""

_S = TypeVar("_S", bound="Value")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frozen part of a conversation."""

    def _replace(self: _S, **changes: Any) -> _S:
        return msgspec.structs.replace(self, **changes)

    def __iter__(self) -> Iterator[Any]:
        return iter(msgspec.structs.astuple(self))


class Text(Value, frozen=True, tag_field="type", tag="text"):
    text: str


class ToolUse(Value, frozen=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
"""Of images that all providers take."""
MOST_IMAGE_CHARS = 5 << 20
"""Of one image in base64: what Anthropic takes at most."""
MOST_IMAGE_BYTES = MOST_IMAGE_CHARS // 4 * 3


class Image(Value, frozen=True, tag_field="type", tag="image"):
    """For the model to look at; in a user's message, or in a tool's result."""

    media_type: MediaType
    data: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_IMAGE_CHARS)]
    """Base64."""

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.data) // 4 * 3 - self.data[-2:].count("=")

    @property
    def words(self) -> str:
        """What stands for it where no image can."""
        return f"[image: {self.media_type}, {self.size} bytes]"


class ToolResult(Value, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True):
    tool_use_id: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


Block = Text | ToolUse | ToolResult | Image
_B = TypeVar("_B", bound=Block)


def of_kind(kind: type[_B], content: Iterable[Block]) -> list[_B]:
    """The blocks of one kind, in order."""
    return [block for block in content if isinstance(block, kind)]


class Message(Value, frozen=True):
    role: Literal["user", "assistant"]
    content: tuple[Block, ...]


class ToolSpec(Value, frozen=True):
    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the input object."""


class Request(Value, frozen=True, omit_defaults=True):
    system: tuple[str, ...]
    """In order; SYSTEM.md first, because what changes least must come first for the provider's cache."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    run: str = ""
    """The run that this call belongs to, for the ledger."""
    label: Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(LABELS)})\Z")] = TASK
    """What the call is for, by the runner's word."""

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(image for message in self.messages for block in message.content for image in images_of(block))

    @property
    def in_words(self) -> Request:
        """For who sees nothing: words in the place of images."""
        if not self.images:
            return self
        said = (message._replace(content=tuple(map(without_images, message.content))) for message in self.messages)
        return self._replace(messages=tuple(said))


def images_of(block: Block) -> tuple[Image, ...]:
    match block:
        case Image():
            return (block,)
        case ToolResult():
            return block.images
    return ()


def without_images(block: Block) -> Block:
    """Words in the place of images."""
    match block:
        case Image():
            return Text(block.words)
        case ToolResult(images=(_, *_)):
            words = (block.content, *(image.words for image in block.images))
            return block._replace(content="\n".join(filter(None, words)), images=())
    return block


MOST_TOKENS = 2**53
"""Of one class in one call: what JSON numbers hold exactly, and far beyond any model."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
Share = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class Usage(Value, frozen=True):
    """Tokens of one call, in the four classes that are priced apart; all zero when the provider did not say, and what
    the door writes to its ledger is the worst case."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_write_tokens: Count = 0
    cache_read_tokens: Count = 0


END_TURN, TOOL_USE, MAX_TOKENS, REFUSAL = "end_turn", "tool_use", "max_tokens", "refusal"
STOP_REASONS = (END_TURN, TOOL_USE, MAX_TOKENS, REFUSAL)
"""Tool calls in a completion may be run only when the reason is `tool_use`: a cut call looks complete otherwise."""


class Completion(Value, frozen=True, forbid_unknown_fields=False):
    content: tuple[Text | ToolUse, ...]
    stop_reason: Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(STOP_REASONS)})\Z")]
    model: str
    usage: Usage = Usage()
    spent: Share = 0.0
    """How much of the day's budget is used up with this call: 0 nothing, 1 all of it; the door fills it in."""
    usd: Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)] = 0.0
    """What this call cost, in US dollars, as the door books it."""

    @property
    def text(self) -> str:
        return "\n\n".join(block.text for block in self.content if isinstance(block, Text)).strip()


class Complete(DoorRequest, frozen=True):
    """What the model says next."""

    request: Request
    must_see: bool = False
    """A model that takes no images is not asked."""


class ModelHealth(msgspec.Struct, frozen=True):
    provider: str
    model: str
    problem: str | None = None
    """Why calls cannot work as things are."""


ERROR_TYPES = frozenset(
    [
        "invalid_request",
        "authentication",
        "budget_exhausted",
        "exploration_exhausted",
        "context_overflow",
        "rate_limited",
        "tool_unavailable",
        "provider_error",
        "unavailable",
    ]
)
"""`tool_unavailable`: no model takes the image that must be seen."""


def to_plain(value: Value) -> dict[str, Any]:
    """As JSON holds it. Raises TypeError for what it cannot hold."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain
