"""`up`, `down`, `restart`: real processes, with a stand-in for the watcher."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from host import running as watching
from infra.keep.settings.models import KEYS
from infra.keep.settings.schema import Settings, WebSettings
from infra.keep.watcher_file import Phase
from tests.cell.loop.waiting import wait_for
from tests.host.desk import Desk

KEY = "sk-ant-not-a-real-key"


def _settings(desk: Desk, text: str) -> None:
    """These settings, without a container whoever runs the test, unless they ask for one."""
    Path(desk.home().settings).write_text(text if "sandbox:" in text else f"sandbox: process\n{text}")


def test_up_starts_a_watcher_that_outlives_it_and_down_ends_it(desk: Desk) -> None:
    """Up waits until the agent works; down waits until the lock is free; both say what they did."""
    up = desk.call("up", "--json")

    assert up.code == 0, up
    started = up.json
    assert started["schema"] == "minifram.up/1"
    assert (started["agent"], started["branch"], started["commit"]) == ("agent", "main", desk.main())
    assert watching.holder(desk.home().places.watcher_lock) == started["pid"]
    assert "NOT isolated" in up.err
    assert "running main@" in up.err

    down = desk.call("down", "--json")

    assert down.code == 0, down
    assert down.json == {"schema": "minifram.down/1", "agent": "agent", "pid": started["pid"]}
    assert watching.holder(desk.home().places.watcher_lock) is None
    state = watching.known_state(desk.home())
    assert state is not None
    assert state.phase == Phase.STOPPED


def test_where_the_browser_is_not_isolated_up_and_status_say_so(desk: Desk) -> None:
    """Settings by variables reach the watcher, and wrong ones keep it from being started."""
    _settings(desk, "web: {browser: on}\n")
    wrong = desk.call("up", BROWSER_POOL_SIZE="many")
    assert (wrong.code, "BROWSER_POOL_SIZE is 'many'" in wrong.err) == (2, True), wrong

    up = desk.call("up", BROWSER_POOL_SIZE="2")

    assert up.code == 0, up
    assert json.loads(Path(desk.home().state, "seen.json").read_text())["environ"]["BROWSER_POOL_SIZE"] == "2"
    for said in (up.err, desk.run("status").out):
        assert "a page that breaks out of its sandbox reaches your files" in said


def test_while_nobody_listens_for_its_browser_status_says_so(desk: Desk) -> None:
    """Who listens is not made to start one for that."""
    assert desk.call("up").code == 0
    settings, home = Settings(sandbox="podman", web=WebSettings(browser="on")), desk.home()
    assert watching.browser_words(home, settings) == watching.NO_BROWSER
    os.mkdir(f"{home.run}/eye")
    with socket.socket(socket.AF_UNIX) as eye, contextlib.chdir(f"{home.run}/eye"):
        eye.bind("eye.sock")
        eye.listen()
        eye.setblocking(False)
        assert "a container of its own" in watching.browser_words(home, settings)
        with pytest.raises(BlockingIOError):
            eye.accept()
    assert watching.browser_words(home, settings) == watching.NO_BROWSER
    _settings(desk, "web: {browser: on}\nsandbox: podman\n")
    assert "no page is rendered; 'minifram restart'" in desk.run("status").out


def test_settings_that_are_a_pipe_are_a_trouble_that_nobody_waits_for(desk: Desk) -> None:
    path = desk.home().settings
    os.unlink(path)
    os.mkfifo(path)
    assert "is not a regular file" in desk.run("status").out


def test_the_watcher_gets_a_scrubbed_environment_and_the_key_in_a_private_file(desk: Desk) -> None:
    """The key is in no argument, no variable, nothing that up prints; it goes away with the agent."""
    _settings(desk, "model: {provider: anthropic}\n")
    up = desk.call("up", ANTHROPIC_API_KEY=f" {KEY}\n", SECRET="x", TMPDIR="/tmp", PYTHONSTARTUP="/nonexistent")

    assert up.code == 0, up
    seen: dict[str, Any] = json.loads(Path(desk.home().state, "seen.json").read_text())
    allowed = {"PATH", "LANG", "HOME", "TMPDIR", "PYTHONPATH", "LC_CTYPE"}
    assert set(seen["environ"]) <= allowed
    assert seen["environ"]["PYTHONPATH"] == str(desk.project)
    assert seen["cwd"] == "/"
    assert seen["session"] is True
    assert seen["words"] == [
        f"--settings={desk.home().settings}",
        *(f"--{name}={path}" for name, path in msgspec.structs.asdict(desk.home().places).items()),
    ]
    key_file = Path(desk.home().key_file(KEYS[0]))
    assert [path.stat().st_mode & 0o777 for path in (key_file, key_file.parent)] == [0o400, 0o700]
    assert (seen["key"], key_file.read_text()) == (len(KEY), KEY)
    assert KEY not in json.dumps([seen["words"], seen["environ"], up.out, up.err])
    assert desk.run("down").code == 0
    assert not key_file.exists()


def test_two_ups_at_once_leave_one_watcher(desk: Desk) -> None:
    """Whoever loses the race for the lock hears of a conflict, not of a crash; so does whoever comes later."""
    processes = [desk.spawn("up") for _ in range(3)]
    ends = []
    for process in processes:
        with process:
            process.communicate(timeout=60)
            ends.append(process.returncode)

    assert sorted(ends) == [0, 6, 6]
    again = desk.call("up")
    assert (again.code, str(watching.holder(desk.home().places.watcher_lock)) in again.err) == (6, True)


def test_down_when_down_is_not_running(desk: Desk) -> None:
    """3, with the word that helps; a key left by a killed watcher goes all the same."""
    secrets = Path(desk.home().places.secrets)
    secrets.mkdir(mode=0o700)
    Path(desk.home().key_file(KEYS[0])).write_text(KEY)

    down = desk.run("down")

    assert down.code == 3
    assert "minifram up" in down.err
    assert not os.path.exists(desk.home().key_file(KEYS[0]))


def test_down_does_not_kill_a_watcher_that_takes_its_time(desk: Desk) -> None:
    """After the time it was given down says so and fails; the watcher still has the lock."""
    pid = desk.call("up", "--json", watcher="deaf").json["pid"]

    down = desk.run("down", "--timeout", "0.2")

    assert down.code == 1
    assert str(pid) in down.err
    assert watching.holder(desk.home().places.watcher_lock) == pid


@pytest.mark.parametrize(
    ("watcher", "code", "words"),
    [
        ("dies", 1, ("ended at once with 7", "the stand-in has no wish to live")),
        ("loses", 6, ("is already running",)),
        ("fails", 1, ("3 failed so far", "boot 3 failed", "has not booted within 2 s", "minifram down")),
        ("hangs", 1, ("has not booted within 2 s",)),
        ("pins", 0, ("(last good), 4 failed so far",)),
        ("safe", 8, ("safe mode in place of main@",)),
    ],
)
def test_how_a_start_ends(desk: Desk, watcher: str, code: int, words: tuple[str, ...]) -> None:
    """What the PM reads of it; a watcher that tries again is left at it, and of one that ended no key stays."""
    _settings(desk, "model: {provider: anthropic}\n")

    up = desk.call(
        "up", "--timeout", "2" if watcher in ("hangs", "fails") else "60", watcher=watcher, ANTHROPIC_API_KEY=KEY
    )

    assert (up.code, [each in up.err + up.out for each in words]) == (code, [True] * len(words)), up
    assert "Traceback" not in up.err
    lives = watching.is_running(desk.home())
    assert lives == (watcher not in ("dies", "loses")) == os.path.exists(desk.home().key_file(KEYS[0]))
    if lives:
        assert desk.call("restart", watcher=watcher).code == code if watcher == "safe" else desk.call("down").code == 0
    assert desk.call("restart", ANTHROPIC_API_KEY=KEY).code == 0


def test_a_stale_state_file_is_not_taken_for_a_running_agent(desk: Desk) -> None:
    """After a kill -9 of the watcher its file still says running; only the new watcher's word counts."""
    pid = desk.call("up", "--json").json["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: watching.holder(desk.home().places.watcher_lock) is None, "its end")

    assert desk.run("status").code == 3
    up = desk.call("up", "--timeout", "0.5", watcher="hangs")

    assert up.code == 1


def test_ctrl_c_during_up_is_130_and_leaves_the_watcher(desk: Desk) -> None:
    """Interrupted means that nobody waits any longer, nothing else."""
    with desk.spawn("up", watcher="hangs") as process:
        wait_for(lambda: watching.holder(desk.home().places.watcher_lock), "the watcher")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in err
    assert watching.holder(desk.home().places.watcher_lock)


def test_up_in_the_foreground_ends_with_the_agent(desk: Desk) -> None:
    """As systemd runs it: its SIGTERM ends the agent in order; one that was killed is a failure. No key stays."""
    lock = desk.home().places.watcher_lock
    for end, code, said in ((signal.SIGTERM, 0, "down  agent\n"), (signal.SIGKILL, 3, "")):
        with desk.spawn("up", "--foreground", ANTHROPIC_API_KEY=KEY) as process:
            assert process.stdout is not None
            assert "running" in process.stdout.readline()
            assert "Next: " in process.stdout.readline()  # or what came with the first line is lost
            os.kill(process.pid if end == signal.SIGTERM else watching.holder(lock) or 0, end)
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out, "the watcher died" in err) == (code, said, not said)
        assert watching.holder(lock) is None
        assert not os.path.exists(desk.home().key_file(KEYS[0]))


def test_a_lock_held_by_a_stranger_is_never_signalled(desk: Desk) -> None:
    """The pid in the lock counts only when that process has the lock file open: a planted pid is harmless."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as innocent:
        path = desk.home().places.watcher_lock
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            os.pwrite(held, f"{innocent.pid}\n".encode(), 0)
            assert watching.holder(path) == watching.UNKNOWN
            down = desk.run("down")
            assert down.code == 6
            assert path in down.err
            assert innocent.poll() is None
            assert desk.run("up").code == 6
            assert desk.run("doctor").code == 8
        finally:
            os.close(held)
            innocent.kill()


def test_each_model_gets_its_own_key_and_no_other_is_handed_over(desk: Desk) -> None:
    """Keys decide who `auto` is; OpenAI is it when its key is the only one. What stands in needs its key as
    well; a restart keeps both."""
    both = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "sk-openai-0123456789"}
    claude, openai = (Path(desk.home().key_file(key)) for key in KEYS)

    _settings(desk, "")
    assert "scripted" in desk.call("up").out
    assert desk.run("down").code == 0
    assert "openai gpt-6.1-terra" in desk.call("up", OPENAI_API_KEY=both["OPENAI_API_KEY"]).out
    assert (claude.exists(), openai.exists()) == (False, True)
    assert desk.run("status", "--json").json["model"] == "openai gpt-6.1-terra"
    assert desk.run("down").code == 0
    assert not openai.exists()

    assert "anthropic claude" in desk.call("up", **both).out
    assert (claude.exists(), openai.exists()) == (True, False)
    assert desk.run("down").code == 0

    _settings(desk, "model: {provider: anthropic, then: [{provider: openai}]}\n")
    assert "OPENAI_API_KEY is not set" in desk.run("up", ANTHROPIC_API_KEY=KEY).err
    assert "(then openai gpt-6.1-terra)" in desk.call("up", **both).out
    assert desk.call("restart").code == 0
    assert (claude.read_text().strip(), openai.read_text().strip()) == tuple(both.values())


@pytest.mark.parametrize(("key", "code"), [("", 4), ("two words", 2), ("ключ", 2), ("a\x07b", 2)])
def test_without_a_good_key_nothing_starts(desk: Desk, key: str, code: int) -> None:
    """The words name the variable and never show what was in it."""
    _settings(desk, "model: {provider: anthropic}\n")

    up = desk.run("up", ANTHROPIC_API_KEY=key)

    assert up.code == code
    assert "ANTHROPIC_API_KEY" in up.err
    assert not key or key not in up.err
    assert not os.path.exists(desk.home().key_file(KEYS[0]))
    assert watching.holder(desk.home().places.watcher_lock) is None


def test_restart_does_not_stop_what_it_could_not_start_again(desk: Desk) -> None:
    """Bad settings are found while the old agent still runs; what the watcher wrote down counts for nothing."""
    first = desk.call("up", "--json").json["pid"]
    Path(desk.home().places.watcher_state).write_text("garbage")
    pid = desk.call("restart", "--json").json["pid"]
    assert pid != first
    _settings(desk, "autonomy: full\n")

    restarted = desk.call("restart")

    assert restarted.code == 2
    assert "autonomy" in restarted.err
    assert watching.holder(desk.home().places.watcher_lock) == pid


def test_a_sandbox_that_cannot_be_had_is_refused(desk: Desk) -> None:
    """With what is missing. `init` names the other one; `up` lets nobody out."""
    broken = {"PATH": "/nonexistent:/usr/bin:/bin", "XDG_RUNTIME_DIR": "/"}
    _settings(desk, "sandbox: podman\n")

    refused = desk.call("up", **broken)
    assert refused.code in (1, 2, 4)
    assert "the podman sandbox cannot be used here" in refused.err
    assert "--sandbox process" not in refused.err
    refused = desk.call("init", "--agent", "second", **broken)
    assert refused.code in (1, 2, 4)
    assert "--sandbox process'" in refused.err
    assert not os.path.exists(desk.home("second").data)


def test_a_run_directory_of_somebody_else_stops_up(desk: Desk) -> None:
    """Sockets and keys go only where nobody else can enter."""
    os.chmod(desk.home().run, 0o755)

    up = desk.run("up")

    assert up.code == 6
    assert desk.home().run in up.err
    os.chmod(desk.home().run, 0o700)
    assert desk.call("up").code == 0
