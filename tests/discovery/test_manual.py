"""A person explores: through a pipe, and at a terminal, with text that is typed or pasted."""

from __future__ import annotations

import json
import os
import pty
import select
import time

import pytest

from tests.discovery.fake import POST, PRE, SECONDS, Fake

A, B = PRE.format("echo a"), PRE.format("echo b")


@pytest.mark.parametrize(
    "text",
    [
        "<Command>\necho a\n.\n<Command>\necho b\n.\n",
        A + B,
        A + "\n\n\n" + B + "\n\n",
        A.rstrip() + "\n" + B.rstrip(),
        "<Command>\necho a\n<Expected>\nx\n<OnError>\ny\n<Intent>\nnext\n<Command>\necho b",
        "```\n" + A.strip() + "\n```\n\n" + B,
        (A + B).replace("\n", "\r\n"),
        A + ".\n" + B,
    ],
)
def test_a_note_is_optional_and_blocks_may_follow_each_other(fake: Fake, text: str) -> None:
    fake.run(text)
    assert (fake.commands, fake.notes) == (["echo a", "echo b"], [])
    assert not (fake.kept / "refused.jsonl").exists()


@pytest.mark.parametrize("after", [B, "\n\n" + B, ".\n" + B])
def test_a_note_ends_with_its_last_section(fake: Fake, after: str) -> None:
    """A command that it quotes is a part of it."""
    note = POST.replace("seen", "seen:\n<Command>\nrm -rf x").strip()
    fake.run(f"{A}{note}\n{after}")
    assert (fake.commands, fake.notes) == (["echo a", "echo b"], [note])


@pytest.mark.fault("D3")
def test_a_refused_block_is_told_and_kept_and_the_next_one_taken(fake: Fake) -> None:
    """Of a huge one the beginning; what else is refused is decided in `test_blocks.py`."""
    error = "bytes; expected at most 100,000"
    assert error in fake.run("<Command>\n# " + "x" * 5_000_000 + "\n.\n" + A)
    assert fake.commands == ["echo a"]
    (refused,) = fake.lines("refused.jsonl")
    assert error in refused["why"]
    assert len(refused["block"]) <= 10_000


@pytest.mark.parametrize("text", ["", "\n\n \n", ".\n"])
def test_no_input_ends_the_run(fake: Fake, text: str) -> None:
    fake.run(text)
    assert fake.lines() == []
    assert fake.json("meta.json")["ended_by"] == "empty input"


def test_bytes_that_are_no_text_survive_and_steer_no_terminal(fake: Fake) -> None:
    said = fake.run(b"<Command>\nprintf 'a\\377b\\033[31m' # \xff\n.\n")
    (event,) = fake.lines()
    assert (event["stdout"], event["command"][-1]) == ("a\ufffdb\x1b[31m", "\ufffd")
    assert "\x1b" not in said


def test_questions_are_asked_after_the_run_and_answers_kept(fake: Fake) -> None:
    questions = [{"id": f"q{n}", "text": f"How many {n}?", "answer": "secret"} for n in "abc"]
    known = {"seed": "7", "files": [], "questions": questions}
    (fake.place / "known.json").write_text(json.dumps(known))
    said = fake.run(A + ".\n.\n42\n\n  seven of them \n", "--known", fake.place / "known.json")
    assert fake.json("answers.json") == {"qa": "42", "qb": "", "qc": "seven of them"}
    assert "How many b?" in said
    assert "secret" not in said
    assert fake.json("known.json") == known


def test_at_a_terminal_blocks_are_typed_or_pasted_and_an_empty_line_ends_the_run(fake: Fake) -> None:
    ours, theirs = pty.openpty()
    fake.environ["TERM"] = "xterm"
    seen = ""

    def see(text: str) -> None:
        nonlocal seen
        until = time.monotonic() + SECONDS
        while text not in seen:
            assert select.select([ours], [], [], until - time.monotonic())[0], f"no {text!r} in {seen!r}"
            seen += os.read(ours, 65536).decode(errors="replace")
        seen = seen.split(text, 1)[-1] if text else seen

    with fake.begin(stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        for asked, given, shown in (
            ("block> ", PRE.format("echo ty'ped'"), "typed"),
            ("note> ", POST, ""),
            ("block> ", f"\x1b[200~{PRE.format('echo pas' + chr(39) * 2 + 'ted')}\n\n\x1b[201~\n", "pasted"),
            ("note> ", "\n", ""),
            ("block> ", f"<Command>\necho {'x' * 5000} | wc -c\n.\n", "5001"),
            ("note> ", PRE.format("echo la'st'"), "last"),
            ("note> ", "\n", ""),
            ("block> ", "\n", "run: "),
        ):
            see(asked)
            os.write(ours, given.encode())
            see(shown)
        assert process.wait(SECONDS) == 0
    os.close(ours)
    assert [command[:10] for command in fake.commands] == ["echo ty'pe", "echo pas''", "echo xxxxx", "echo la'st"]
    assert fake.notes == [POST.strip("\n")]
