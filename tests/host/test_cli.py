"""The command as a whole: exit codes, help, streams, terminals, names of agents."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

from host.cli import COMMANDS
from tests.host.desk import HERE, PROJECT, Desk


def test_every_command_has_help_and_a_line_in_the_list(bare_desk: Desk) -> None:
    """Help needs no agent, and is a result: it goes to stdout."""
    ended = bare_desk.done("--help")
    for verb, (_, _, summary) in COMMANDS.items():
        assert summary in ended.out
        shown = bare_desk.done(verb, "--help")
        assert f"minifram {verb}" in shown.out
        assert ("--agent NAME" in shown.out) is (verb != "demo")
        assert shown.err == ""
    assert "75 try again" in ended.out
    assert len(COMMANDS) <= 28
    assert bare_desk.done("--version").out == "minifram 9.8.7\n"
    groups = [line.rstrip(":") for line in ended.out.splitlines() if line.endswith(":") and line[0].isalpha()]
    assert groups == ["Options", "Live", "Say", "See", "Decide", "Keep"]


def test_usage_errors_are_2_and_say_how_to_go_on(desk: Desk) -> None:
    """On stderr, with nothing on stdout but what --json asks for."""
    wrong = "statu", "--nonsense", "status --nonsense", "tell", "merge", "logs -n many", "up --timeout -1"
    for words in (*wrong, "", "--agent ../x status", "status --agent=", "status extra"):
        ended = desk.run(*words.split())
        assert (ended.code, ended.out) == (2, ""), words
        assert "minifram" in ended.err
        assert words != "statu" or "'status'" in ended.err
    for words, code in (("reject gone", 4), ("merge gone", 2), ("down", 3), ("logs -n many", 2)):
        ended = desk.run(*words.split(), "--json")
        found = ended.json
        assert (ended.code, found["code"], found["schema"]) == (code, code, "minifram.error/1"), words
        assert found["error"].split("\n")[0] in ended.err


def test_an_agent_is_named_before_or_after_the_verb_or_by_the_environment(desk: Desk) -> None:
    """The word on the command line wins, the later one most of all."""
    desk.done("init", "--sandbox", "process", "--agent", "second")

    def agent(*words: str, **environ: str) -> str:
        return str(desk.run(*words, "--json", **environ).json["agent"])

    assert agent("status") == "agent"
    assert agent("--agent", "second", "status") == "second"
    assert agent("status", "--agent", "second") == "second"
    assert agent("status", MINIFRAM_AGENT="second") == "second"
    assert agent("--agent", "agent", "status", MINIFRAM_AGENT="second") == "agent"
    assert agent("--agent", "agent", "status", "--agent", "second") == "second"
    wrong = desk.run("status", MINIFRAM_AGENT="../x")
    assert wrong.code == 2
    assert "MINIFRAM_AGENT" in wrong.err


def _on_a_terminal(desk: Desk, *words: str, **environ: str) -> str:
    """What the command writes to stdout when that is a terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, str(HERE / "launcher.py"), str(desk.project), "works", *words]
    with subprocess.Popen(
        command, env=desk.environ | environ, stdin=follower, stdout=follower, stderr=subprocess.DEVNULL
    ):
        os.close(follower)
        shown, deadline = b"", time.monotonic() + 30
        while select.select([leader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other side is closed
                break
            shown += piece
            if not piece:
                break
    os.close(leader)
    return shown.decode()


def test_colours_are_for_terminals_that_want_them(desk: Desk) -> None:
    """With NO_COLOR, on a dumb one, or in a pipe there are none. No text of the agent's brings its own; what a terminal
    cannot show is spelled out."""
    desk.branch("improve", {"src/漢.py": "\x1b[35mviolet\x1b[0m\x1b[2J\n"})
    shown = _on_a_terminal(desk, "review", "improve", TERM="xterm")
    assert "violet" in shown
    assert "\x1b[32m+" in shown
    assert "\x1b[35m" not in shown
    assert "\x1b[2J" not in shown
    assert "\x1b[" not in _on_a_terminal(desk, "status", TERM="xterm", NO_COLOR="1")
    assert "\x1b[" not in _on_a_terminal(desk, "status", TERM="dumb")
    assert "\\u6f22" in desk.call("review", "improve", PYTHONIOENCODING="ascii", TERM="xterm").out


def test_a_full_standard_output_is_a_failure_in_words(desk: Desk) -> None:
    """The result could not be delivered: 1, and no traceback."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, str(HERE / "launcher.py"), str(desk.project), "works", "status"]
        ended = subprocess.run(command, env=desk.environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert ended.returncode == 1
    assert "No space left" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_and_small_verbs_stay_lean(desk: Desk) -> None:
    """Help loads neither the settings' libraries nor psutil, rich or an SDK; 'tell' loads no more than git needs."""
    code = (
        "import sys, contextlib, io; sys.path.insert(0, sys.argv[1]); import host.cli\n"
        "with contextlib.redirect_stdout(io.StringIO()): host.cli.main(sys.argv[2:])\n"
        # One without a specification is not loaded, but stands for a module until somebody uses it.
        "print(' '.join(sorted({name.partition('.')[0] for name, module in sys.modules.items()"
        " if getattr(module, '__spec__', None)})))"
    )
    slow = {"rich", "anthropic", "structlog", "watchdog", "git"}
    for words, heavy in ("--help", True), ("tell x", True), ("review", True), ("status", False):
        command = [sys.executable, "-c", code, str(PROJECT), *words.split()]
        done = subprocess.run(command, env=desk.environ, capture_output=True, text=True, check=True)
        unwanted = slow | {"yaml", "psutil", "asyncio"} if heavy else slow
        assert not unwanted & set(done.stdout.split()), words
