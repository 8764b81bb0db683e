"""A reply of a model becomes operations, words, or nothing that is carried out."""

from __future__ import annotations

import pytest

from infra.cell.actions import ToolCall
from infra.cell.protocol.operations import MOST_OPERATIONS
from infra.cell.protocol.read import REPLY_BYTES, Requested, read
from infra.cell.tools.tool import REFUSED

LS = '{"type": "shell", "command": "ls"}'
FENCED = f"```json\n[{LS}]\n```"
WRITE = '{"type": "createFile", "path": "a.py", "content": '
TIMEOUT = '[{{"type": "shell", "command": "ls", "timeout": {}}}]'
REPORT = 'Done:\n[the page](a.md)\n- [ ] later\n```c\n{\n  int x;\n}\n```\n```json\n{"port": 80}\n```\n[1] a note'
EVENTS = '[{"type": "readFile", "operation": "1", "status": "ok", "path": "a", "content": "x", "lines": 1}]'
EDIT = '{"type": "editFile", "path": "a.py", '

SHAPES: tuple[tuple[int, str, str], ...] = (
    (1, f"I look first.\n\n{FENCED}\n\nThen I go on.", "take"),
    (3, f"[{LS}\n]\n}}\n```", "stop"),
    (3, f'{{"operations": [{LS}]\n}}```', "take"),
    (4, f"```json\n[{LS}]", "take"),
    (4, f"```json\n[{LS}", "stop"),
    (5, f"first\n{FENCED}\nthen\n{FENCED}", "stop"),
    (6, f"The form is\n```\n[{LS}]\n```\nand now for real:\n{FENCED}", "stop"),
    (8, "I will now edit the file.", "words"),
    (8, REPORT, "words"),
    (9, "I've searched the web and written the file.", "words"),
    (10, f"``` JSON \n[{LS}]\n```", "take"),
    (11, f"1. Look:\n\n   ```json\n   [{LS}]\n   ```\n", "take"),
    (11, f"- ```json\n  [{LS}]\n  ```\n", "take"),
    (13, f"[{LS}]\n</code", "take"),
    (13, f"[{LS}]</function", "take"),
    (14, f"{LS}</code>", "take"),
    (15, f"\ufeff[{LS}]", "take"),
    (15, f"\u200b\u00a0[{LS}]", "take"),
    (16, f"Now:\r\n```json\r\n[{LS}]\r\n```\r\n", "take"),
    (18, "", "stop"),
    (18, " \n ", "stop"),
    (18, '"', "stop"),
    (18, "}", "stop"),
    (19, "null", "stop"),
    (19, "true", "stop"),
    (19, "42", "stop"),
    (19, '"ls"', "stop"),
    (20, LS, "take"),
    (21, f'{{"operations": [{LS}]}}', "take"),
    (21, f'{{"protocolVersion": 1, "operations": [{LS}]}}', "take"),
    (23, f"{LS}\n{LS}\n{LS}", "stop"),
    (24, f"[{LS}][{LS}]", "stop"),
    (24, f"[{LS}]\n[{LS}]", "stop"),
    (25, '<tool_call>{"name": "shell", "arguments": {"command": "ls"}}</tool_call>', "stop"),
    (26, "<tool_call>shell<arg_key>command</arg_key><arg_value>ls</arg_value></tool_call>", "stop"),
    (28, "<function=shell><parameter=command>ls</parameter></function>", "stop"),
    (28, '{"name": "shell", "arguments": {"command": "ls"}}', "ask"),
    (28, 'I look.\n{"name": "bash", "input": {"command": "ls"}}', "stop"),
    (29, "ls\n</parameter></function></tool_call>", "stop"),
    (30, '<invoke name="shell"><parameter name="command">ls</parameter></invoke>', "stop"),
    (31, '<toolcall><shell>{"command": "ls"}</shell></toolcall>', "stop"),
    (33, 'shell(command="ls")', "stop"),
    (34, '[{"type": "shell", "command": "*** Begin Patch\\n*** Add File: a\\n+x\\n*** End Patch"}]', "take"),
    (35, "**** Begin Patch\n*** Update File: a\n*** End Patch", "stop"),
    (36, '[{"type": "shell", "command": "apply_patch <<\'EOF\'\\n*** Begin Patch\\nEOF"}]', "take"),
    (36, '[{"type": "shell", "command": "cat <<\'EOF\'\\n*** Begin Patch\\nEOF"}]', "take"),
    (36, '[{"type": "shell", "command": ["apply_patch", "*** Begin Patch"]}]', "ask"),
    (38, '[{"type": "shell", "command": "import os\\nprint(os.getcwd())"}]', "take"),
    (39, '[{"type": "runCommand", "command": "ls"}]', "ask"),
    (39, '[{"type": "bash", "command": "ls"}]', "ask"),
    (39, '[{"type": "writeFile", "path": "a", "content": ""}]', "ask"),
    (40, '[{"operation": "shell", "command": "ls"}]', "ask"),
    (40, '[{"action": "shell", "command": "ls"}]', "ask"),
    (40, '[{"tool": "shell", "command": "ls"}]', "ask"),
    (41, f'[{LS}, {WRITE}"def f():\\n    ret', "stop"),
    (43, '[{"type": "shell", "command": "ls", "timeout": 12', "stop"),
    (44, f"[{LS},", "stop"),
    (45, f'[{WRITE}"a\\', "stop"),
    (45, f'[{WRITE}"a\\u00', "stop"),
    (46, f"```json\n[{LS}, {{", "stop"),
    (48, '[{"type": "createFile"}]', "ask"),
    (48, '{"type": "shell"}', "ask"),
    (49, f'[{WRITE}"import a\\n# rest of the code unchanged\\n"}}]', "take"),
    (49, f'[{EDIT}"old": "a = 1", "new": "a = 2\\n# ... existing code ..."}}]', "take"),
    (49, f'[{EDIT}"old": "a = 1", "new": "a = 2\\n..."}}]', "take"),
    (50, "[1, 2, ...]", "stop"),
    (50, f"[{LS}, ...]", "stop"),
    (51, f"[{LS},]", "take"),
    (51, '[{"type": "shell", "command": "ls",}]', "take"),
    (51, "[,]", "stop"),
    (53, "[{'type': 'shell', 'command': 'ls'}]", "stop"),
    (53, "[{'type': 'shell', 'command': 'ls', 'cwd': None}]", "stop"),
    (54, "[{type: shell, command: ls}]", "stop"),
    (54, '[{"type": "readFile", "path": *.tsx}]', "stop"),
    (55, f"[\n  // look\n  {LS}\n]", "stop"),
    (55, f"[\n  # look }}\n  {LS}\n]", "stop"),
    (55, f"[ /* look */ {LS}]", "stop"),
    (56, '[{"type": "shell", "command": "ls\n\tpwd"}]', "take"),
    (58, '[{"type": "shell", "command": "echo "hi""}]', "stop"),
    (59, f'[{WRITE}"{{"a": 1, "b": 2}}"}}]', "stop"),
    (59, f'[{WRITE}"{{", "a": 1, "b": "2}}"}}]', "ask"),
    (60, f"[\\n  {LS}\\n]", "stop"),
    (61, "[{“type”: “shell”, “command”: “ls”}]", "stop"),
    (63, '["a"}', "stop"),
    (63, '{"type": "shell", "command": [1}', "stop"),
    (63, f"[{LS}}}]", "stop"),
    (63, f"[{LS}]]", "stop"),
    (63, f"```json\n[{LS}\n```", "stop"),
    *(
        (64, f'[{{"type": "shell", "command": "ls", "timeout": {n}}}]', "stop")
        for n in ("1_000", ".25", "1.", "1/3", "10-20")
    ),
    (64, '[{"id": 3f2504e0-4f89, "type": "shell", "command": "ls"}]', "stop"),
    *((65, TIMEOUT.format(number), "stop") for number in ("NaN", "Infinity", "-Infinity")),
    (66, '[{"type": "shell", "command": "ls", "command": "rm -r ."}]', "ask"),
    (68, "[" * 100_000, "stop"),
    (68, "[" * 65, "stop"),
    (68, '[{"a": ' + "9" * 5000 + "}]", "stop"),
    (68, '[{"type": "shell", "command": "\ud800"}]', "ask"),
    (68, '{"a":' * 100_000, "stop"),
    (68, " " * 1_000_000, "stop"),
    (68, '[{"type": "shell", "command": "' + '\\"' * 500_000, "stop"),
    (69, '[("shell", "ls")]', "stop"),
    (69, "[{'shell', 'ls'}]", "stop"),
    (70, '{"operations": "[{\\"type\\": \\"shell\\", \\"command\\": \\"ls\\"}]"}', "stop"),
    (71, f'[{WRITE}"{{\\"a\\": 1}}"}}]', "take"),
    (73, '[{"type": "shell", "command": "ls", "timeout": null, "cwd": null}]', "take"),
    (73, '[{"type": "shell", "command": null}]', "ask"),
    (74, '[{"type": "shell", "command": "ls", "reason": "to look"}]', "ask"),
    (74, f'[{WRITE}"x", "repalce": true}}]', "ask"),
    (75, '[{"type": "createFile", "content": "x"}]', "ask"),
    (75, '[{"type": "createFile", "path": "", "content": "x"}]', "ask"),
    (75, '[{"type": "createFile", "path": "a"}]', "ask"),
    (76, f'[{{"id": "a", {LS[1:]}, {{"id": "a", {LS[1:]}]', "ask"),
    (76, f"[{LS}, {LS}]", "take"),
    (76, f'[{{"id": 7, {LS[1:]}]', "ask"),
    (78, '[{"type": "create_file", "path": "a", "content": ""}]', "ask"),
    (78, '[{"type": "CreateFile", "path": "a", "content": ""}]', "ask"),
    (83, f'[{EDIT}"old": "a", "new": "a"}}]', "take"),
    (85, f'[{EDIT}"old": "", "new": "a"}}]', "take"),
    (86, f'[{EDIT}"old": "<<<<<<< SEARCH\\na", "new": "b"}}]', "take"),
    (86, f'[{EDIT}"old": ":start_line:3\\na", "new": "b"}}]', "take"),
    (88, f'[{EDIT}"old": "a", "new": "a\\n...\\nb"}}]', "take"),
    (89, f'[{WRITE}"a &lt; b"}}]', "take"),
    *(
        (95, f'[{{"type": "readFile", "path": "{path}"}}]', "ask")
        for path in ("```a.py```", "`a.py`", "**a.py**", "# a.py", "a.py:", " a.py")
    ),
    (99, f'[{{"id": "1", {LS[1:]}, {{"id": "1", {LS[1:]}]', "ask"),
    (100, f"<think>[{LS}]</think>\nIt is done.", "words"),
    (101, f"<think>I look.\n[{LS}]", "stop"),
    (101, f"<think>I look.</think>\n[{LS}]", "take"),
    (103, f'[{LS}, {WRITE}"$RESULT"}}]', "take"),
    (103, f'[{LS}, {WRITE}"<output of 1>"}}]', "take"),
    (104, '[{"type": "shell", "command": "false"}, {"type": "message", "text": "done"}]', "take"),
    (104, EVENTS, "ask"),
    (104, f"[{LS}]\n\n{EVENTS}", "stop"),
    (105, f'[{WRITE}"```\\n</function>\\n[{{}}]"}}]', "take"),
    (105, f'[{WRITE}"\n```\n</function>\n"}}]', "take"),
)
"""Replies as models were seen to write them, by number, with what must come of each.

`take`: the operations are carried out. `ask`: an operation is refused by itself, and the right form is shown. `stop`:
nothing is carried out, and the model is asked again. `words`: no operation. What needs the files of a workspace is in
the tests of the execution."""


def verdict(text: str) -> str:
    try:
        items = read(text).items
    except ValueError:
        return "stop"
    return "ask" if any(item.name == REFUSED for item in items) else "take" if items else "words"


def not_taken(text: str, cut: bool = False) -> str:
    """What is said to the model of a reply of which nothing is carried out."""
    with pytest.raises(ValueError, match=r"[a-z]") as raised:
        read(text, cut)
    return str(raised.value)


def test_shapes_seen_in_the_wild() -> None:
    found = [(number, text[:100], verdict(text)) for number, text, _ in SHAPES]
    assert found == [(number, text[:100], wanted) for number, text, wanted in SHAPES]
    assert len({number for number, *_ in SHAPES}) > 70


def operations(text: str) -> tuple[ToolCall, ...]:
    found = read(text)
    assert all(item.name != REFUSED for item in found.items)
    return found.items


def test_a_refused_operation_leaves_the_others() -> None:
    """And its event says what was expected, and shows the form."""
    found = read(f'[{LS}, {{"type": "readFile", "path": 5}}, {LS}]')
    assert [item.name for item in found.items] == ["bash", REFUSED, "bash"]
    refused = found.items[1]
    assert (refused.id, refused.args["type"]) == ("2", "readFile")
    assert refused.args["message"] == "path: expected `str`, got `int`"
    assert '{"type": "readFile", "path": "src/a.py"}' in refused.args["hint"]


@pytest.mark.heavy
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
        assert words in not_taken(text)
    assert len(operations(f"[{', '.join([LS] * MOST_OPERATIONS)}]".ljust(REPLY_BYTES))) == MOST_OPERATIONS


def test_a_reply_cut_at_its_limit_of_tokens_does_nothing() -> None:
    """Also when what is there reads whole: what came after may have changed its meaning."""
    assert all(not_taken(text, cut=True) for text in (FENCED, f"[{LS}]", "I am done.", ""))


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
        assert words in not_taken(text)


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
        assert not_taken(text), text
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
        assert verdict(text) in ("stop", "words"), text
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
        assert read(text) == Requested((), text)
    assert len(operations(f"```sh\nls\n```\n```json\n[{LS}]\n```")) == 1
