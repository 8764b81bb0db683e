"""The command as a whole: exit codes, help, streams, terminals, names of agents."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from host.cli import COMMANDS
from infra.shared.exit_codes import Exit
from tests.host.desk import HERE, PROJECT, Desk

READING = ("status", "reports", "review", "config", "doctor", "logs")


def test_every_command_has_help_and_a_line_in_the_list(bare_desk: Desk) -> None:
    """Help needs no agent, and is a result: it goes to stdout."""
    ended = bare_desk.done("--help")
    for verb, (_, summary) in COMMANDS.items():
        assert summary in ended.out
        shown = bare_desk.done(verb, "--help")
        assert f"minifram {verb}" in shown.out
        assert "--agent NAME" in shown.out
        assert shown.err == ""
    assert "75 try again" in ended.out


def test_the_version_is_the_projects(bare_desk: Desk) -> None:
    """From pyproject.toml: nothing is installed."""
    assert bare_desk.done("--version").out == "minifram 9.8.7\n"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("statu",),
        ("--nonsense",),
        ("status", "--nonsense"),
        ("tell",),
        ("merge",),
        ("logs", "-n", "many"),
        ("logs", "--source", "else"),
        ("up", "--sandbox", "chroot"),
        ("up", "--timeout", "-1"),
        ("completion", "tcsh"),
        ("--agent", "../x", "status"),
        ("status", "--agent", ""),
        ("status", "extra"),
    ],
)
def test_usage_errors_are_2_and_say_how_to_go_on(desk: Desk, words: tuple[str, ...]) -> None:
    """On stderr, with nothing on stdout."""
    ended = desk.run(*words)

    assert (ended.code, ended.out) == (2, "")
    assert "minifram" in ended.err
    assert "Traceback" not in ended.err


def test_a_mistyped_verb_gets_a_suggestion(desk: Desk) -> None:
    """The nearest verbs are named."""
    assert "'status'" in desk.run("statu").err


def test_an_agent_is_named_before_or_after_the_verb_or_by_the_environment(desk: Desk) -> None:
    """The word on the command line wins, the later one most of all."""
    desk.done("init", "--agent", "second")

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


@pytest.mark.parametrize("verb", READING)
def test_every_reading_verb_has_json_with_its_schema(desk: Desk, verb: str) -> None:
    """One object on stdout that names its schema; nothing else there."""
    found = desk.run(verb, "--json").json
    assert found["schema"] == f"minifram.{verb}/1"


def test_results_and_progress_do_not_mix(desk: Desk) -> None:
    """What a pipe gets is the result alone."""
    ended = desk.run("review")
    assert ended.out == ""
    assert "no branch awaits review" in ended.err


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
    """On a terminal yes; with NO_COLOR, on a dumb one, or in a pipe no."""
    assert "\x1b[" in _on_a_terminal(desk, "status", TERM="xterm")
    assert "\x1b[" not in _on_a_terminal(desk, "status", TERM="xterm", NO_COLOR="1")
    assert "\x1b[" not in _on_a_terminal(desk, "status", TERM="dumb")
    assert "\x1b[" not in desk.call("status", TERM="xterm").out


def test_agent_text_cannot_colour_a_terminal(desk: Desk) -> None:
    """The only escape sequences on a terminal are ours."""
    desk.branch("improve", {"src/a.py": "\x1b[35mviolet\x1b[0m\x1b[2J\n"})

    shown = _on_a_terminal(desk, "review", "improve", TERM="xterm")

    assert "violet" in shown
    assert "\x1b[32m+" in shown
    assert "\x1b[35m" not in shown
    assert "\x1b[2J" not in shown


def test_a_terminal_without_unicode_is_no_trouble(desk: Desk) -> None:
    """What it cannot show is spelled out."""
    desk.branch("improve", {"src/漢.py": "1\n"}, "ünï 漢字")

    ended = desk.call("review", PYTHONIOENCODING="ascii")

    assert ended.code == 0, ended
    assert "\\u6f22" in ended.out


def test_a_full_standard_output_is_a_failure_in_words(desk: Desk) -> None:
    """The result could not be delivered: 1, and no traceback."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, str(HERE / "launcher.py"), str(desk.project), "works", "status"]
        ended = subprocess.run(command, env=desk.environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert ended.returncode == 1
    assert "disk is full" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(desk: Desk, shell: str) -> None:
    """For the shell that is named, or the one in $SHELL."""
    script = desk.done("completion", shell).out
    assert "_MINIFRAM_COMPLETE" in script
    assert desk.done("completion", SHELL=f"/usr/bin/{shell}").out == script


def test_bash_takes_the_completion_script_and_it_completes(desk: Desk) -> None:
    """Verbs, and the branches that await review."""
    desk.branch("improve-a", {"src/a.py": "1\n"})
    script = desk.done("completion", "bash").out
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)

    def completed(words: str) -> str:
        asked = {"_MINIFRAM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return desk.call(**asked).out

    assert "plain,status" in completed("minifram st")
    assert "plain,improve-a" in completed("minifram merge im")
    assert "plain,agent" in completed("minifram --agent a")


def test_without_a_shell_completion_asks_for_one(desk: Desk) -> None:
    """An unknown shell is a usage error."""
    assert desk.run("completion", SHELL="/bin/tcsh").code == 2
    assert desk.run("completion").code == 2


def test_the_codes_are_those_that_are_documented() -> None:
    """Scripts are written against these numbers."""
    documented = {"OK": 0, "FAILURE": 1, "USAGE": 2, "NOT_RUNNING": 3, "NOT_FOUND": 4, "DENIED": 5, "CONFLICT": 6}
    documented |= {"BUDGET": 7, "FINDINGS": 8, "TRY_AGAIN": 75, "INTERRUPTED": 130}
    assert {name: Exit[name].value for name in documented} == documented


def test_the_real_command_answers(bare_desk: Desk) -> None:
    """Without the tests' launcher: this project's own command, an agent that is not there."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import host.cli; sys.exit(host.cli.main())"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(PROJECT), "status"],
        env=bare_desk.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 4
    assert bare_desk.home().remote in ended.stderr


def test_help_and_small_verbs_stay_lean(desk: Desk) -> None:
    """Help loads neither the settings' libraries nor psutil, rich or an SDK; 'tell' loads no more than git needs."""
    code = (
        "import sys, contextlib, io; sys.path.insert(0, sys.argv[1]); import host.cli\n"
        "with contextlib.redirect_stdout(io.StringIO()): host.cli.main(sys.argv[2:])\n"
        "print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    )

    def loaded(*words: str) -> set[str]:
        command = [sys.executable, "-c", code, str(PROJECT), *words]
        done = subprocess.run(command, env=desk.environ, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    heavy = {"msgspec", "yaml", "psutil", "rich", "anthropic", "structlog", "watchdog", "git", "asyncio"}
    assert not loaded("--help") & heavy
    assert not loaded("tell", "x") & heavy
    assert not loaded("review") & heavy
    assert {"msgspec", "yaml"} <= loaded("config")
    assert not loaded("status") & {"rich", "anthropic", "structlog", "watchdog", "git"}


def test_nothing_prompts_without_a_terminal(desk: Desk) -> None:
    """Every acting verb works, or fails, with standard input closed."""
    desk.branch("improve", {"src/a.py": "1\n"})
    for words in (("merge", "improve@TIP", "--unvalidated"), ("rollback", "main~1"), ("tell", "x"), ("down",)):
        assert desk.call(*words).code in (0, 3), words


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("reject", "gone", "--json"), Exit.NOT_FOUND),
        (("merge", "gone", "--json"), Exit.USAGE),
        (("down", "--json"), Exit.NOT_RUNNING),
        (("logs", "-n", "many", "--json"), Exit.USAGE),
        (("generate", "kube", "--install", "--json"), Exit.USAGE),
    ],
)
def test_an_error_with_json_is_json(desk: Desk, words: tuple[str, ...], code: Exit) -> None:
    """On stdout, with its exit code; for people the text stays on stderr."""
    ended = desk.run(*words)

    assert ended.code == code
    assert ended.json["schema"] == "minifram.error/1"
    assert ended.json["code"] == code
    assert ended.json["error"].split("\n")[0] in ended.err
