"""A reply of a model becomes operations, words, or nothing that is carried out."""

from __future__ import annotations

import pytest

from infra.cell.actions import ToolCall
from infra.cell.protocol.operations import MOST_OPERATIONS
from infra.cell.protocol.read import REPLY_BYTES, NotTaken, Requested, Words, read
from infra.cell.tools.tool import REFUSED
from tests.cell.protocol.shapes_seen import FENCED, LS, SHAPES


def verdict(text: str) -> str:
    match read(text):
        case Words():
            return "words"
        case NotTaken():
            return "stop"
        case Requested(items):
            return "ask" if any(item.name == REFUSED for item in items) else "take"


def test_shapes_seen_in_the_wild() -> None:
    found = [(number, text[:100], verdict(text)) for number, text, _ in SHAPES]
    assert found == [(number, text[:100], wanted) for number, text, wanted in SHAPES]
    assert len({number for number, *_ in SHAPES}) > 70


def operations(text: str) -> tuple[ToolCall, ...]:
    found = read(text)
    assert isinstance(found, Requested)
    assert all(item.name != REFUSED for item in found.items)
    return found.items


def test_a_refused_operation_leaves_the_others() -> None:
    """And its event says what was expected, and shows the form."""
    found = read(f'[{LS}, {{"type": "readFile", "path": 5}}, {LS}]')
    assert isinstance(found, Requested)
    assert [item.name for item in found.items] == ["bash", REFUSED, "bash"]
    refused = found.items[1]
    assert (refused.id, refused.args["type"]) == ("2", "readFile")
    assert refused.args["message"] == "path: expected `str`, got `int`"
    assert '{"type": "readFile", "path": "src/a.py"}' in refused.args["hint"]


def test_a_refused_reply_says_what_was_found() -> None:
    cases = {
        f"[{LS}]\n[{LS}]": "a piece of another; expected one list",
        '[{"type": "shell", "command": "echo "hi""}]': "Expecting ',' delimiter in line 1 of the list, at 'hi\"\"}]'",
        "*** Begin Patch\nx": "'*** Begin Patch'",
        '{"protocol": 2, "operations": []}': "protocol 2, keys []; expected protocol 1",
        '{"operations": [], "events": []}': "keys ['events']; expected protocol 1",
        f"[{', '.join([LS] * (MOST_OPERATIONS + 1))}]": "201 operations; expected at most 200",
        "é" * (REPLY_BYTES // 2 + 1): "longer than 10 MiB",
    }
    for text, words in cases.items():
        found = read(text)
        assert isinstance(found, NotTaken), text[:80]
        assert words in found.message
    assert len(operations(f"[{', '.join([LS] * MOST_OPERATIONS)}]".ljust(REPLY_BYTES))) == MOST_OPERATIONS


def test_a_reply_cut_at_its_limit_of_tokens_does_nothing() -> None:
    """Also when what is there reads whole: what came after may have changed its meaning."""
    assert all(isinstance(read(text, cut=True), NotTaken) for text in (FENCED, f"[{LS}]", "I am done.", ""))


def test_blocks_are_taken_byte_for_byte() -> None:
    body = 'def f():\r\n\treturn "a" + \'b\' \\ \n```\n[{"type": "shell", "command": "rm"}]\n'
    text = f'[{{"type": "createFile", "path": "a", "content": {{"block": "A"}}}}]\n\n````block A\n{body}````\n'
    [made] = operations(text)
    assert made.args["content"] == body
    [empty] = operations(text.replace(body, ""))
    assert empty.args["content"] == ""


def test_a_block_that_is_missing_or_in_doubt_carries_out_nothing() -> None:
    """The reply may be cut, and a text that ends too early would be written as if it were whole."""
    want = f'[{LS}, {{"type": "createFile", "path": "a", "content": {{"block": "A"}}}}]\n'
    block = "```block A\nx\n```\n"
    assert len(operations(want + block)) == 2
    for text, words in {
        want: "the block 'A' is not there",
        want + block.replace("A", "B"): "the block 'A' is not there",
        want + block[:-4]: "does not end",
        want + block + block: "stands twice",
        want + "```block A\n# How\n```bash\nmake\n```\nMore.\n```\n": "a fence in it",
        want + "```block A\n# How\n```\nmake\n```\nMore.\n```\n": "a fence in it",
        want + '```block A\nx = """\n    ```\n"""\n```\n': "a fence in it",
    }.items():
        found = read(text)
        assert isinstance(found, NotTaken)
        assert words in found.message


@pytest.mark.attack("S51")
def test_a_list_beside_a_piece_of_another_does_nothing() -> None:
    """Its end or its beginning may be missing, or it was taken back."""
    for text in (
        *(f"{LS}{rest}" for rest in ('\n{"ty', "\n{", "\n[", ",", "\n,\n", "\n]")),
        f'[{LS}]\n[{{"ty',
        f"[{LS}],",
        f'mand": "cd build"}},\n{LS}\n]',
        f'mand": "cd build"}},\n{LS}',
        f"[{LS}]\nNo, rather this: [{LS}]",
        f'[{LS}, {{"type": "createFile", "path": "a", "content": {{"block": "A"}}}}]\n```block A\nx',
        f'```json\n[{LS}, {{"type": "createFile", "path": "a", "content": {{"block": "A"}}}}]\n```\n\n```bl',
        f'"type": "shell", "command": "cd build"}}\n{LS}\n',
    ):
        assert isinstance(read(text), NotTaken), text
    assert len(operations(f"As you say,\n[{LS}]\nThen I go on.")) == 1


@pytest.mark.attack("S51")
def test_a_list_in_reasoning_or_a_comment_does_nothing() -> None:
    for text in (
        f"Well.\n<think>\n[{LS}]\n</think>\nNo.",
        f"I could\n[{LS}]\n</think>\nNo.",
        f"<think>a <think>b</think>\n[{LS}]\n</think>\nNo.",
        f'<Think time="3">\n[{LS}]\n</Think>\nNo.',
        f"<!--\n[{LS}]\n-->\nDone.",
        f"<seed:think>\n[{LS}]\n</seed:think>\nNo.",
        f"I could\n[{LS}]\n[/THINK]\nNo.",
        f"Well. [THINK]I could\n[{LS}]\nNo.",
        f"◁think▷I could\n[{LS}]\n◁/think▷No.",
    ):
        assert not isinstance(read(text), Requested), text
    for text in (
        f"I look.</think>\n[{LS}]",
        f"Well.\n<think>a</think>\n[{LS}]",
        f"<!-- a -->\n[{LS}]",
        f"<seed:think>a</seed:think>\n[{LS}]",
        f"◁think▷a◁/think▷\n[{LS}]",
        f"[{LS}]\n<think>Now I wait.</think>",
    ):
        assert len(operations(text)) == 1, text
    tag = '[{"type": "shell", "command": "echo </think>"}]'
    assert len(operations(tag)) == 1


def test_a_list_that_is_quoted_is_words() -> None:
    """As a sample of code, or of what somebody else says."""
    for text in (
        f"The page says:\n> [{LS}]\nI did not do that.",
        f"It has now:\n```markdown\n[{LS}]\n```\nDone.",
        f"It has now:\n````md\nAnswer:\n```json\n[{LS}]\n```\n````\nDone.",
        f"It has now:\n```md\nAnswer:\n```json\n[{LS}]\n```\nor so\n```\nDone.",
        f"It has now:\n~~~md\n```json\n[{LS}]\n```\n~~~\nDone.",
        f"```python\nOPS = 1\n[{LS}]\n```\nDone.",
        f"```python\nOPS = 1\n\n```json\n[{LS}]\n```",
    ):
        assert read(text) == Words(text)
    assert len(operations(f"```sh\nls\n```\n```json\n[{LS}]\n```")) == 1


def test_events_that_a_model_makes_up_are_no_operations() -> None:
    events = '[{"type": "readFile", "operation": "1", "status": "ok", "path": "a", "content": "x", "lines": 1}]'
    assert verdict(events) == "ask"
    assert verdict(f"[{LS}]\n\n{events}") == "stop"


def test_a_report_may_hold_code_and_json() -> None:
    """What is no list of operations is words."""
    text = 'Done:\n[the page](a.md)\n- [ ] later\n```c\n{\n  int x;\n}\n```\n```json\n{"port": 80}\n```\n[1] a note'
    assert read(text) == Words(text)
