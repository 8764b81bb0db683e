"""The parser takes exactly one command from a block, whatever the block's looks, and refuses all else by name."""

from __future__ import annotations

import time

import blocks
import pytest
from blocks import BlockError, parse
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.shared.rows import each_row
from tests.shared.texts import any_text

FORM = "<Intent>\nwhy\n\n<Command>\n{}\n\n<Expected>\nwhat\n\n<OnError>\nelse"
DOCUMENT = "cat > /home/agent/MAP.md <<EOF\n# Map\nEOF"


@each_row(
    "name, form",
    [
        ("form", FORM),
        ("no other section", "<Command>\n{}"),
        ("on the line of the tag", "<Intent> why\n<Command> {}\n<Expected> what"),
        ("closing tags", "<Intent>why</Intent>\n<Command>{}</Command>\n<Expected>what</Expected>"),
        ("closing tags on lines of their own", "<Command>\n{}\n</Command>\nand that is all"),
        ("other case", FORM.replace("Command", "COMMAND").replace("OnError", "on error")),
        ("blanks in and before tags", "  < Command >\n\n\n   {}   \n\n\n\t<expected>\n"),
        ("CRLF", FORM.replace("\n", "\r\n")),
        ("only CR", FORM.replace("\n", "\r")),
        ("fence around the command", FORM.replace("{}", "```bash\n{}\n```")),
        ("fence around the block", "```\n" + FORM + "\n```"),
        ("fence around the command, in one line", FORM.replace("{}", "```sh {}```")),
        ("marks around tags", "**<Intent>**\nwhy\n## <Command>\n{}\n- <Expected>: what"),
        ("a byte order mark", "\ufeff<Command>\n{}"),
        ("words before it", "Let me look around first.\n\n" + FORM),
        ("the post-exec block before it", "<Observation>\nx\n<Inference>\ny\n<Next>\nz\n" + FORM),
        ("an empty second section", FORM + "\n<Command>\n\n"),
    ],
)
def test_a_command_is_found_in_a_block_of_any_looks(name: str, form: str) -> None:
    for command in (
        "ls -la / /world",
        "cat <<<'x' | grep '<Intent>' # <Command>",
        'x=1; echo "$x" `id`',
        "printf '\\'",
    ):
        assert parse(form.replace("{}", command)) == command, name


@each_row(
    "block, error",
    [
        ("", "the block is empty"),
        (" \n\t\n", "the block is empty"),
        ("ls -la", "there is no <Command> section"),
        ("<Intent>\nwhy\n<Expected>\nwhat", "there is no <Command> section"),
        (FORM.format(""), "the <Command> section is empty"),
        (FORM.format("```\n```"), "the <Command> section is empty"),
        (FORM.format("ls\npwd"), "<Command> has 2 lines"),
        (FORM.format("ls \\\n  -la"), "<Command> has 2 lines"),
        (FORM.format("ls") + "\n<Command>\npwd", "there are 2 <Command> sections"),
        (FORM.format(DOCUMENT), "a here-document needs several lines"),
        (FORM.format("ls \0"), "a NUL character"),
        (FORM.format("ls \ud800"), "UTF-8 has none of"),
        (FORM.format("#" * 1_000_000), "characters; at most 1,000,000 are taken"),
        (FORM.format("#" * 100_001), "the command has 100,001 bytes; at most 100,000"),
        (FORM.format("ä" * 50_001), "the command has 100,002 bytes"),
        ("<Observation>\nx\n<Next>\ny", "this is a post-exec block"),
    ],
)
def test_what_is_refused_is_named_and_the_right_form_shown(block: str, error: str) -> None:
    with pytest.raises(BlockError) as refused:
        parse(block)
    assert error in str(refused.value)
    assert str(refused.value).endswith(blocks.FORM)


def test_the_form_that_an_error_shows_is_one_that_is_taken() -> None:
    assert parse(blocks.FORM) == "ONE shell command, on one line"


@each_row(
    "line",
    ["<" + " " * 500_000, "</" + " " * 500_000 + "a", "<Command> ls </" + " " * 500_000 + "a", "```" + " " * 500_000],
)
def test_a_long_line_is_read_in_time_that_grows_with_its_length(line: str) -> None:
    """Of no shape: in quadratic time each of these would take minutes."""
    began = time.process_time()
    with pytest.raises(BlockError):
        parse(f"<Command>\n{line}x\ny")
    assert time.process_time() - began < 10


def test_a_command_of_the_greatest_size_is_taken() -> None:
    assert len(parse(FORM.format("#" * 100_000))) == 100_000


COMMANDS = any_text(200).map(lambda text: "".join(text.split("\0")).replace("\r", "").replace("\n", "").strip(" \t"))


@given(
    COMMANDS,
    st.sampled_from(["Command", "COMMAND", "command", "cOmMaNd"]),
    st.sampled_from(["\n", "\r\n", "\n\n", "\r\n\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_any_command_comes_back_as_it_was_typed(command: str, tag: str, end: str, fenced: bool, alone: bool) -> None:
    assume(command and not blocks.tag(command) and not command.startswith(("```", "~~~")))
    assume(not command.endswith("\\") and "</" not in command and not command.startswith("\ufeff"))
    lines = [f"<{tag}>", *(["```sh"] if fenced else []), command, *(["```"] if fenced else [])]
    if not alone:
        lines = ["<Intent>", "why", *lines, "<OnError>", "else"]
    assert parse(end.join(lines)) == command


TAGS = st.sampled_from(
    ["<Command>", "<intent>", "<OnError>", "</command>", "<Next>", "```", "\n", "\r\n", "ls", "<<EOF"]
)


@given(st.lists(st.one_of(TAGS, any_text(20)), max_size=20))
def test_any_text_gives_one_line_of_it_or_a_refusal(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        command = parse(text)
    except BlockError:
        return
    assert command
    assert not set("\n\r\0") & set(command)
    assert command in text
    assert len(command.encode()) <= blocks.COMMAND_BYTES
