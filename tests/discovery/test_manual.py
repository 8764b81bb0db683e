"""A person explores: through a pipe, and at a terminal, with text that is typed or pasted."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest

from tests.discovery.fake import SECONDS, Fake
from tests.discovery.site import block, commands_of, lines_of

FULL = "<Intent>\nwhy\n\n<Command>\n{}\n\n<Expected>\nwhat\n\n<OnError>\nelse\n\n"
NOTE = "<Observation>\nseen\n\n<Inference>\nmeant\n\n<Next>\nnext\n\n"


def commands(fake: Fake) -> list[str]:
    return [event["command"] for event in commands_of(fake.only_run())]


def notes(fake: Fake) -> list[str]:
    return [event["post"] for event in lines_of(fake.only_run() / "events.jsonl") if "post" in event]


def refusals(fake: Fake) -> list[str]:
    file = fake.only_run() / "refused.jsonl"
    return [line["error"] for line in lines_of(file)] if file.exists() else []


def test_blocks_and_notes_through_a_pipe_are_events_in_their_order(fake: Fake) -> None:
    ended = fake.run(FULL.format("echo one") + NOTE + FULL.format("echo two; echo bad >&2; exit 3"))
    assert ended.returncode == 0, ended.stderr
    run = fake.only_run()
    assert f"run: {run}" in ended.stdout
    one, note, two = lines_of(run / "events.jsonl")
    assert one["plan"] == FULL.format("echo one").strip("\n")
    assert (one["stdout"], one["stderr"], one["exit_code"], one["step"]) == ("one\n", "", 0, 1)
    assert note["post"] == NOTE.strip("\n")
    assert (two["stdout"], two["stderr"], two["exit_code"], two["step"]) == ("two\n", "bad\n", 3, 2)
    assert one["t"] < note["t"] < two["t"]
    assert one["latency_s"] > 0
    meta = json.loads((run / "meta.json").read_text())
    assert list(meta)[:5] == ["container", "mode", "prompt", "started_at", "ended_at"]
    assert (meta["version"], meta["ended_by"], meta["refused_blocks"]) == (1, "end of input", 0)


@pytest.mark.parametrize(
    "text",
    [
        block("echo a") + block("echo b"),
        FULL.format("echo a") + FULL.format("echo b"),
        FULL.format("echo a") + "\n\n\n" + FULL.format("echo b") + "\n\n",
        FULL.format("echo a").rstrip() + "\n" + FULL.format("echo b").rstrip(),
        "<Command>\necho a\n<Expected>\nx\n<OnError>\ny\n<Intent>\nnext\n<Command>\necho b",
        "```\n" + FULL.format("echo a").strip() + "\n```\n\n" + block("echo b"),
        (FULL.format("echo a") + FULL.format("echo b")).replace("\n", "\r\n"),
        FULL.format("echo a") + ".\n" + FULL.format("echo b"),
    ],
)
def test_a_note_is_optional_and_blocks_may_follow_each_other(fake: Fake, text: str) -> None:
    assert fake.run(text).returncode == 0
    assert (commands(fake), notes(fake), refusals(fake)) == (["echo a", "echo b"], [], [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (block("ls\npwd"), "has 2 lines"),
        (block("") + "\n", "<Command> section is empty"),
        ("ls -la\n\n", "no <Command> section"),
        (block("cat <<EOF\nx\nEOF"), "here-document"),
        (block("ls \0"), "NUL"),
        ("<Command>\nls\n<Command>\npwd\n.\n", "2 <Command> sections"),
        ("<Observation>\nx\n<Next>\ny\n\n", "post-exec block"),
        (block("# " + "x" * 1_000_000), "characters; at most"),
        (block("# " + "x" * 200_000), "200,002 bytes"),
        (block("# " + "x" * 5_000_000), "characters; at most"),
    ],
)
def test_a_refused_block_is_told_and_kept_and_the_next_one_taken(fake: Fake, text: str, error: str) -> None:
    ended = fake.run(text + block("echo after"))
    assert ended.returncode == 0, ended.stderr
    assert error in ended.stdout
    assert "<Command>\nONE shell command" in ended.stdout.split("refused: ")[1], "the right form is shown"
    assert commands(fake) == ["echo after"]
    (refused,) = refusals(fake)
    assert error in refused
    assert json.loads((fake.only_run() / "meta.json").read_text())["refused_blocks"] == 1
    assert (fake.only_run() / "refused.jsonl").stat().st_size < 1_000_000


@pytest.mark.parametrize(("text", "why"), [("", "end of input"), ("\n\n \n", "end of input"), (".\n", "empty input")])
def test_no_input_ends_the_run(fake: Fake, text: str, why: str) -> None:
    assert fake.run(text).returncode == 0
    run = fake.only_run()
    assert (run / "events.jsonl").read_text() == ""
    meta = json.loads((run / "meta.json").read_text())
    assert (meta["ended_by"], bool(meta["ended_at"])) == (why, True)


def test_bytes_that_are_no_text_survive_as_replacement_characters(fake: Fake) -> None:
    assert fake.run(b"<Command>\nprintf 'a\\377b\\033[31m' # \xff\n.\n").returncode == 0
    (event,) = commands_of(fake.only_run())
    assert (event["stdout"], event["command"][-1]) == ("a\ufffdb\x1b[31m", "\ufffd")
    assert event["stdout_bytes"] == 8


def test_questions_are_asked_after_the_run_and_answers_kept(fake: Fake) -> None:
    questions = [
        {"id": f"q{n}", "kind": "sum", "text": f"How many {n}?", "answer": "secret", "files": []} for n in "abc"
    ]
    known = {"version": 1, "seed": 7, "size": 2, "files": [], "items": [], "questions": questions}
    (fake.place / "known.json").write_text(json.dumps(known))
    ended = fake.run(block("ls") + ".\n.\n42\n\n  seven of them \n")
    run = fake.only_run()
    assert json.loads((run / "answers.json").read_text()) == {
        "asked": ["qa", "qb", "qc"],
        "answers": {"qa": "42", "qb": None, "qc": "seven of them"},
    }
    assert "How many b?" in ended.stdout
    assert "secret" not in ended.stdout
    assert json.loads((run / "known.json").read_text()) == known
    assert json.loads((run / "meta.json").read_text())["world"] == {
        "directory": str(fake.place / "world"),
        "seed": 7,
        "size": 2,
        "contents": None,
    }


def test_what_the_container_prints_does_not_steer_the_terminal(fake: Fake) -> None:
    ended = fake.run(block(r"printf '\342\200\256\033]0;title\007ok\r\n\302\233m'"))
    assert "\u202e" not in ended.stdout
    assert "\x1b" not in ended.stdout
    assert "\u241b]0;title\u2407ok\u240d\n" in ended.stdout
    assert "\x9b" not in ended.stdout


# --- at a terminal -------------------------------------------------------------------------------


class Terminal:
    """The orchestrator at a terminal."""

    def __init__(self, fake: Fake) -> None:
        self.end, inner = pty.openpty()
        attributes = termios.tcgetattr(inner)
        attributes[3] &= ~termios.ECHO  # what is seen is then what the program says
        termios.tcsetattr(inner, termios.TCSANOW, attributes)
        self.process = subprocess.Popen(
            fake.words(), stdin=inner, stdout=inner, stderr=inner, env=fake.environ, start_new_session=True
        )
        os.close(inner)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def see(self, text: str) -> None:
        """Wait until it is shown; what was shown up to there is forgotten."""
        until = time.monotonic() + SECONDS
        while text not in self.seen:
            assert select.select([self.end], [], [], until - time.monotonic())[0], f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.end, 65536).decode()
        self.seen = self.seen.partition(text)[2]

    def waits(self) -> None:
        """Nothing more is shown for five times as long as the next line of a pasted text may take."""
        assert not select.select([self.end], [], [], 0.5)[0], self.seen

    def ended(self) -> int:
        return self.process.wait(SECONDS)


@contextlib.contextmanager
def terminal(fake: Fake) -> Iterator[Terminal]:
    made = Terminal(fake)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        os.close(made.end)


def test_at_a_terminal_blocks_are_pasted_and_an_empty_line_ends_the_run(fake: Fake) -> None:
    with terminal(fake) as person:
        person.see("block> ")
        person.type(FULL.format("echo out'put'") + "\n\n")
        person.see("output")
        person.see("note> ")
        person.waits()  # the empty lines behind the block were no answer
        person.type(NOTE + "\n")
        person.see("block> ")
        person.type(FULL.format("echo sec'ond'").rstrip("\n") + "\n\n")
        person.see("second")
        person.see("note> ")
        person.type("\n")
        person.see("block> ")
        person.type("<Command>\necho th'ird'\n.\n")
        person.see("third")
        person.see("note> ")
        person.type(FULL.format("echo fo'urth'"))  # the next block where a note could be
        person.see("fourth")
        person.see("note> ")
        person.type("\n")
        person.see("block> ")
        person.type("\n")
        assert person.ended() == 0
    assert len(commands(fake)) == 4
    assert notes(fake) == [NOTE.strip("\n")]
    assert json.loads((fake.only_run() / "meta.json").read_text())["ended_by"] == "empty input"


def test_at_a_terminal_all_can_be_pasted_at_once(fake: Fake) -> None:
    with terminal(fake) as person:
        person.see("block> ")
        person.type(FULL.format("echo one") + NOTE + "\n\n" + FULL.format("echo two") + NOTE)
        person.see("step 2")
        person.see("block> ")
        person.type("\x04")  # Ctrl-D
        assert person.ended() == 0
    assert (commands(fake), len(notes(fake))) == (["echo one", "echo two"], 2)


def test_at_a_terminal_a_line_that_it_cut_is_told(fake: Fake) -> None:
    with terminal(fake) as person:
        person.see("block> ")
        person.type("<Command>\n")
        person.type("echo " + "x" * 5000)
        person.type("\n.\n")
        person.see("refused: a line of 4,095 bytes")
        person.see("block> ")
        person.type("\n")
        assert person.ended() == 0
    assert commands(fake) == []


def test_ctrl_c_at_the_prompt_ends_the_run(fake: Fake) -> None:
    with terminal(fake) as person:
        person.see("block> ")
        person.process.send_signal(2)
        assert person.ended() == 130
    meta = json.loads((fake.only_run() / "meta.json").read_text())
    assert (meta["ended_by"], bool(meta["ended_at"])) == ("interrupt", True)
