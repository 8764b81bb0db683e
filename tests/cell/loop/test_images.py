"""Images that a model is shown: read, kept in a file, sent while that is there, never more than a request takes."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from infra.cell.doors import ModelFailure
from infra.cell.loop.actions import ToolCall
from infra.cell.loop.actions import ToolResult as Done
from infra.cell.loop.context.context import Context, Room
from infra.cell.loop.context.images import KeptImage, Loader, shown_by
from infra.cell.loop.context.spill import MOST_TOGETHER
from infra.cell.loop.context.tokens import IMAGE_BYTES, bytes_of
from infra.cell.loop.context.trim import trimmed, whereabouts
from infra.cell.loop.file_tools import file_tools
from infra.cell.loop.loop import Acted
from infra.cell.loop.reach import Workspace
from infra.cell.loop.recorded import recorded
from infra.cell.loop.toolbox import Toolbox
from infra.cell.loop.ways import ByOperations, ByTools
from infra.shared.conversation import (
    MOST_IMAGE_BYTES,
    MOST_IMAGES,
    MOST_IMAGES_CHARS,
    Image,
    Message,
    Request,
    Text,
    ToolResult,
    ToolUse,
    images_of,
)
from tests.cell.loop.records import OPENING, as_lines
from tests.cell.loop.replies import Canned, says

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
DATA = base64.b64encode(PNG).decode()
LIMIT = 400


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    (tmp_path / "dot.png").write_bytes(PNG)
    return Toolbox(file_tools(str(tmp_path), LIMIT))


def read(box: Toolbox, path: str = "dot.png", id: str = "call") -> tuple[ToolCall, Done]:
    use = ToolCall(id, "read_file", {"path": path})
    return use, box.call(use)


def told(way: ByTools | ByOperations, use: ToolCall, result: Done) -> Message:
    return Message("user", way.answer((use,), (result,), "", ""))


def sent(directory: Path, *messages: Message) -> Request:
    """As the door gets it."""
    model = Canned([says("ok")])
    Loader(str(directory)).loaded(model)(OPENING._replace(messages=(*OPENING.messages, *messages)))
    return model.requests[0]


def test_an_image_is_read_as_one(box: Toolbox, tmp_path: Path) -> None:
    """The model is given it with the result; what is known of it is a kind, a size, a digest and a file."""
    use, result = read(box)
    request = sent(tmp_path, told(ByTools(), use, result))

    (block,) = request.messages[-1].content
    assert isinstance(block, ToolResult)
    assert (block.is_error, block.images) == (False, (Image("image/png", DATA),))
    assert block.content.startswith("dot.png is an image (sha256 ")
    (kept,) = (tmp_path / "logs/outputs").iterdir()
    assert (kept.suffix, kept.read_bytes()) == (".png", PNG)


def test_a_model_that_acts_in_plain_text_is_given_it_beside_the_events(tmp_path: Path) -> None:
    """The events themselves stay text."""
    way = ByOperations()
    (tmp_path / "dot.png").write_bytes(PNG)
    reach = Workspace(str(tmp_path))
    use = ToolCall("1", "read_file", {"path": "dot.png"})
    result = Toolbox(file_tools(str(tmp_path), LIMIT, reach)).call(use)
    words, image = sent(tmp_path, told(way, use, result)).messages[-1].content
    assert isinstance(words, Text)
    (event,) = json.loads(words.text)["events"]
    assert (event["path"], event["status"]) == ("dot.png", "ok")
    assert image == Image("image/png", DATA)


def test_what_only_begins_like_an_image_stays_text(box: Toolbox, tmp_path: Path) -> None:
    """And other binary files are refused as before."""
    (tmp_path / "a.txt").write_text("GIF89a is a format\n")
    (tmp_path / "b").write_bytes(b"ELF\0")
    assert read(box, "a.txt")[1].facts.keys() == {"path", "lines"}
    assert not read(box, "b")[1].ok


def test_an_image_that_is_too_large_is_refused_in_words(box: Toolbox, tmp_path: Path) -> None:
    """With what to do instead."""
    (tmp_path / "huge.png").write_bytes(PNG + b"\0" * MOST_IMAGE_BYTES)
    _, result = read(box, "huge.png")
    assert not result.ok
    assert f"at most {MOST_IMAGE_BYTES} can be shown" in result.payload
    assert "smaller" in result.hint


def test_the_record_has_no_image_but_its_file_and_a_resumed_run_sees_it(box: Toolbox, tmp_path: Path) -> None:
    """Kind, size, digest and path; when the file is gone or is another, words stand for it."""
    use, result = read(box)
    lines = as_lines([Acted(1, 1, use, result, 0.1)])
    assert DATA not in json.dumps(lines)
    fact = lines[-1]["facts"]["image"]
    assert fact.keys() == {"media_type", "bytes", "sha256", "path"}
    again = recorded(lines).done[1, 1][1]

    message = told(ByTools(), use, again)
    kept = tmp_path / fact["path"]
    assert sent(tmp_path, message).images == (Image("image/png", DATA),)
    for change in (lambda: kept.write_bytes(PNG[:-1] + b"x"), kept.unlink):
        change()
        request = sent(tmp_path, message)
        assert request.images == ()
        assert f"[image: image/png, {len(PNG)} bytes, not kept any more]" in str(request.messages[-1])


@pytest.mark.parametrize(
    "fact",
    [
        None,
        "x",
        {"media_type": "image/bmp", "bytes": 1, "sha256": "a", "path": "a"},
        {"media_type": "image/png", "bytes": "1", "sha256": "a", "path": "a"},
        {"media_type": "image/png", "bytes": 1, "sha256": "a"},
    ],
)
def test_a_record_may_hold_anything(fact: object) -> None:
    """It is the agent's own file."""
    assert shown_by({"image": fact}) == ()


@pytest.mark.parametrize("path", ["../secret.png", "/etc/hostname", "logs/outputs/../x.png", "dot.png"])
def test_no_other_file_is_sent_than_what_was_kept(tmp_path: Path, path: str) -> None:
    """Whatever a record says."""
    (tmp_path / "dot.png").write_bytes(PNG)
    known = KeptImage("image/png", "", path, "0" * 64, 1)
    assert sent(tmp_path, Message("user", (known,))).images == ()


def test_an_image_is_read_from_its_file_once(box: Toolbox, tmp_path: Path) -> None:
    """What the provider was sent it is sent again, so that it can cache it; the record's file may go meanwhile."""
    message = told(ByTools(), *read(box))
    model = Canned([says("ok")] * 3)
    ask = Loader(str(tmp_path)).loaded(model)
    request = OPENING._replace(messages=(*OPENING.messages, message))
    ask(request)
    (path,) = (tmp_path / "logs/outputs").iterdir()
    path.unlink()
    ask(request)
    ask(OPENING)
    assert [len(each.images) for each in model.requests] == [1, 1, 0]
    assert model.requests[0] == model.requests[1]


def test_an_image_that_the_provider_refuses_becomes_words(box: Toolbox, tmp_path: Path) -> None:
    """It would refuse every later request as well; one that it has taken once is not the fault."""

    def refuse(request: Request) -> Any:
        raise ModelFailure("invalid_request", "could not process image")

    good = told(ByTools(), *read(box))
    (tmp_path / "bad.png").write_bytes(PNG[:20])
    bad = told(ByTools(), *read(box, "bad.png", "call-2"))
    model = Canned([says("ok"), refuse, says("ok"), says("ok"), refuse, refuse])
    ask = Loader(str(tmp_path)).loaded(model)
    request = OPENING._replace(messages=(*OPENING.messages, good))
    both = request._replace(messages=(*request.messages, bad))
    ask(request)
    ask(both)
    ask(both)
    assert [len(each.images) for each in model.requests] == [1, 2, 1, 1]
    assert "[image: image/png, 20 bytes, refused: could not process image]" in str(model.requests[-1].messages[-1])
    with pytest.raises(ModelFailure):
        ask(both)


def test_a_fallback_model_that_takes_no_images_is_told_of_them(box: Toolbox, tmp_path: Path) -> None:
    """In words, as long as it is the one that answers."""

    def refuse(request: Request) -> Any:
        raise ModelFailure("invalid_request", "no images")

    (tmp_path / "two.png").write_bytes(PNG + b"2")
    request = OPENING._replace(messages=(*OPENING.messages, told(ByTools(), *read(box))))
    both = request._replace(messages=(*request.messages, told(ByTools(), *read(box, "two.png", "call-2"))))
    model = Canned([says("ok"), refuse, refuse, says("ok"), says("ok"), refuse, says("ok")])
    ask = Loader(str(tmp_path)).loaded(model)
    for each in (request, both, both, both):
        ask(each)
    assert [len(each.images) for each in model.requests] == [1, 2, 1, 0, 2, 2, 0]


def test_an_image_that_a_server_fails_at_becomes_words(box: Toolbox, tmp_path: Path) -> None:
    """Some answer a request that they will never take with status 500; what passes, passes with the images."""

    def fail(request: Request) -> Any:
        raise ModelFailure("provider_error", "image input is not supported")

    request = OPENING._replace(messages=(*OPENING.messages, told(ByTools(), *read(box))))
    cases: tuple[tuple[list[Any], str, list[int]], ...] = (
        ([fail, says("ok")], "fail ok", [1, 1]),
        ([fail, fail, says("ok"), says("ok")], "fail ok ok", [1, 1, 0, 0]),
        ([fail, fail, fail, says("ok")], "fail fail ok", [1, 1, 0, 1]),
    )
    for replies, outcomes, images in cases:
        model = Canned(replies)
        ask = Loader(str(tmp_path)).loaded(model)
        for outcome in outcomes.split():
            with contextlib.nullcontext() if outcome == "ok" else pytest.raises(ModelFailure):
                ask(request)
        assert [len(each.images) for each in model.requests] == images


def test_an_image_counts_in_tokens_and_not_by_its_bytes() -> None:
    """So a screenshot does not bring a conversation to its end."""
    large = Image("image/png", "A" * 4_000_000)
    for block in (large, ToolResult("a", "x", images=(large,))):
        assert IMAGE_BYTES < bytes_of(Message("user", (block,))) < IMAGE_BYTES + 200


def test_an_old_image_becomes_words_that_say_how_to_see_it_again(box: Toolbox) -> None:
    """Where room is made for more."""
    (block,) = told(ByTools(), *read(box)).content
    less = trimmed(block, whereabouts)
    assert isinstance(less, ToolResult)
    assert less.images == ()
    assert "read_file logs/outputs/" in less.content
    assert trimmed(Image("image/png", DATA), whereabouts) == Text(f"[image: image/png, {len(PNG)} bytes]")


def test_no_request_has_more_images_than_a_provider_takes() -> None:
    """The oldest become words, many at once: what stays the same from the start is cached."""
    chance = random.Random(7)
    seen: list[Request] = []
    room = Room(10**9, lambda content: "", lambda: "")

    def complete(request: Request) -> Any:
        seen.append(request)
        return says("ok")

    context = Context(complete, OPENING, room, lambda: 0.0, lambda event: None)
    for number in range(60):
        size = chance.choice([1000, MOST_IMAGE_BYTES])
        image = KeptImage("image/png", "", f"logs/outputs/{number:016x}.png", f"{number:064x}", size)
        context.append(Message("assistant", (ToolUse(f"c{number}", "read_file", {}),)))
        shown: Any = ToolResult(f"c{number}", "", images=(image,)) if number % 3 else image
        context.append(Message("user", (shown,)))
        context.ask(number + 1)
    for number, request in enumerate(seen):
        images = request.images
        assert images, "the last image is always shown"
        assert images[-1] == next(iter(images_of(request.messages[-1].content[0]))), number
        assert len(images) <= MOST_IMAGES
        assert sum(-(-image.size // 3) * 4 for image in images) <= MOST_IMAGES_CHARS
        words = [block for message in request.messages for block in message.content if "image/png" in str(block)]
        assert len(words) == number + 1, "each is told of"
    changes = sum(later.messages[: len(one.messages)] != one.messages for one, later in itertools.pairwise(seen))
    assert changes < len(seen) / 4
    assert MOST_TOGETHER * 4 // 3 >= MOST_IMAGES_CHARS, "what a request holds is kept"
