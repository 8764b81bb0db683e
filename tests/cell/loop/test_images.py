"""Images that a model is shown: read, kept in a file, sent while that is there, never more than a request takes."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from infra.cell.actions import ToolCall
from infra.cell.actions import ToolResult as Done
from infra.cell.doors import ModelFailure
from infra.cell.loop.context import IMAGE_BYTES, bytes_of
from infra.cell.loop.images import MOST_SHOWN, shown_by, with_images
from infra.cell.loop.record import Acted
from infra.cell.loop.ways import ByOperations, ByTools, News
from infra.cell.tools.files import file_tools
from infra.cell.tools.tool import Toolbox
from infra.shared.conversation import MOST_IMAGE_BYTES, Image, Message, Request, Text, ToolResult, ToolUse, images_of
from tests.cell.loop.records import OPENING, as_lines
from tests.cell.loop.replies import Canned, fails, says

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
    return Message("user", way.answer((use,), (result,), "", News()))


def sent(directory: Path, *messages: Message) -> Request:
    """As the door gets it."""
    model = Canned([says("ok")])
    with_images(model, str(directory))(OPENING._replace(messages=(*OPENING.messages, *messages)))
    return model.requests[0]


def test_a_model_that_acts_in_plain_text_is_given_it_beside_the_events(box: Toolbox, tmp_path: Path) -> None:
    """The events themselves stay text."""
    words, image = sent(tmp_path, told(ByOperations(), *read(box, id="1"))).messages[-1].content
    assert isinstance(words, Text)
    (event,) = json.loads(words.text)["events"]
    assert (event["path"], event["status"]) == ("dot.png", "ok")
    assert image == Image("image/png", DATA)


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
    act = as_lines([Acted.of("1.1", use, result, 0.1)])[-1]
    assert isinstance(act, Acted)
    assert DATA not in str(act)
    path = f"logs/outputs/{hashlib.sha256(PNG).hexdigest()[:16]}.png"
    assert act.facts["image"] == {"media_type": "image/png", "path": path}

    message = told(ByTools(), use, act.result)
    kept = tmp_path / path
    assert sent(tmp_path, message).images == (Image("image/png", DATA),)
    for change in (lambda: kept.write_bytes(PNG[:-1] + b"x"), kept.unlink):
        change()
        request = sent(tmp_path, message)
        assert request.images == ()
        assert "[image: image/png, not kept any more]" in str(request.messages[-1])


@pytest.mark.parametrize(
    "fact",
    [
        None,
        "x",
        {"media_type": "image/bmp", "path": "logs/outputs/0123456789abcdef.png"},
        {"media_type": "image/png", "path": 1},
        {"media_type": "image/png"},
    ],
)
def test_a_record_may_hold_anything(fact: object) -> None:
    """It is the agent's own file."""
    assert shown_by({"image": fact}) == ()


@pytest.mark.parametrize("path", ["/etc/hostname", "logs/outputs/../../dot.png", "dot.png"])
def test_no_other_file_is_sent_than_what_was_kept(tmp_path: Path, path: str) -> None:
    """Whatever a record says."""
    (tmp_path / "dot.png").write_bytes(PNG)
    assert sent(tmp_path, Message("user", (Image("image/png", path),))).images == ()


def test_a_request_that_the_provider_refuses_goes_once_more_in_words(box: Toolbox, tmp_path: Path) -> None:
    """A failure of another kind is no refusal."""
    shown = OPENING._replace(messages=(*OPENING.messages, told(ByTools(), *read(box))))
    model = Canned([fails("provider_error"), fails("invalid_request"), says("ok"), says("ok")])
    ask = with_images(model, str(tmp_path))
    with pytest.raises(ModelFailure):
        ask(shown)
    for _ in range(2):
        assert ask(shown) == says("ok")
    assert [len(each.images) for each in model.requests] == [1, 1, 0, 1]
    assert "[image: image/png, 70 bytes]" in str(model.requests[2].messages[-1])


def test_an_image_counts_in_tokens_and_not_by_its_bytes() -> None:
    """So a screenshot does not bring a conversation to its end."""
    large = Image("image/png", "logs/outputs/0123456789abcdef.png")
    for block in (large, ToolResult("a", "x", images=(large,))):
        assert IMAGE_BYTES < bytes_of(Message("user", (block,))) < IMAGE_BYTES + 200


def test_the_last_images_are_sent_and_older_ones_are_words(tmp_path: Path) -> None:
    """Words that say how to see it again."""
    messages = []
    (tmp_path / "logs/outputs").mkdir(parents=True)
    for number in range(12):
        content = PNG + b"%d" % number
        path = f"logs/outputs/{hashlib.sha256(content).hexdigest()[:16]}.png"
        (tmp_path / path).write_bytes(content)
        image = Image("image/png", path)
        messages.append(Message("assistant", (ToolUse(f"c{number}", "read_file", {}),)))
        messages.append(Message("user", (ToolResult(f"c{number}", "", images=(image,)) if number % 3 else image,)))
    request = sent(tmp_path, *messages)
    assert len(request.images) == MOST_SHOWN
    assert len(images_of(request.messages[-1].content[0])) == 1
    assert "not shown now; read_file logs/outputs/" in str(request.messages[2])
