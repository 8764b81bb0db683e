"""`up`, `down`, `restart`: real processes, with a stand-in for the watcher."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from host.running import watcher as watching
from infra.shared.providers import KEYS
from infra.shared.watcher_file import STOPPED
from tests.host.desk import Desk, wait_for

KEY = "sk-ant-not-a-real-key"


def _seen(desk: Desk) -> dict[str, Any]:
    """With what the stand-in was started."""
    found: dict[str, Any] = json.loads(Path(desk.home().state, "seen.json").read_text())
    return found


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
    assert state.phase == STOPPED


def test_the_watcher_gets_a_scrubbed_environment_and_its_own_session(desk: Desk) -> None:
    """Only PATH, LANG, HOME, TMPDIR and the keep's own code: no secret of the PM's passes on."""
    _settings(desk, "model: {provider: scripted}\n")
    desk.call("up", ANTHROPIC_API_KEY=KEY, SECRET="x", TMPDIR="/tmp", PYTHONSTARTUP="/nonexistent")

    seen = _seen(desk)
    allowed = {"PATH", "LANG", "HOME", "TMPDIR", "PYTHONPATH", "LC_CTYPE"}
    assert set(seen["environ"]) <= allowed
    assert seen["environ"]["PYTHONPATH"] == str(desk.project)
    assert seen["cwd"] == "/"
    assert seen["session"] is True
    assert seen["words"] == [
        f"--settings={desk.home().settings}",
        *(f"--{name}={path}" for name, path in desk.home().places._asdict().items()),
    ]
    assert seen["key"] == ""


def test_up_twice_is_a_conflict_that_names_the_pid(desk: Desk) -> None:
    """The first one goes on."""
    pid = desk.call("up", "--json").json["pid"]

    again = desk.call("up")

    assert again.code == 6
    assert str(pid) in again.err
    assert watching.holder(desk.home().places.watcher_lock) == pid


def test_two_ups_at_once_leave_one_watcher(desk: Desk) -> None:
    """Whoever loses the race for the lock hears of a conflict, not of a crash."""
    processes = [desk.spawn("up") for _ in range(3)]
    ends = []
    for process in processes:
        with process:
            process.communicate(timeout=60)
            ends.append(process.returncode)

    assert sorted(ends) == [0, 6, 6]
    assert watching.holder(desk.home().places.watcher_lock)


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


def test_a_door_that_does_not_open_is_shown_with_its_reason(desk: Desk) -> None:
    """Up fails, and the PM reads what kept a door shut; what a door said in the days before is not shown."""
    doors_log = Path(desk.home().state, "doors.log")
    entries = [
        {"event": "door.not_opened", "reason": "no wish to open", "timestamp": "2001-01-01T00:00:00.000000Z"},
        {"event": "door.not_opened", "reason": "the script is empty", "timestamp": "2999-01-01T00:00:00.000000Z"},
    ]
    doors_log.write_text("".join(f"{json.dumps(entry)}\n" for entry in [entries[0], "not an entry", entries[1]]))

    up = desk.call("up", watcher="dies")

    assert "door.not_opened: the script is empty" in up.err
    assert "no wish to open" not in up.err


def test_a_watcher_that_dies_at_once_is_shown_with_its_last_words(desk: Desk) -> None:
    """Up fails, and the PM reads what the watcher wrote before it died."""
    up = desk.call("up", watcher="dies")

    assert up.code == 1
    assert "ended at once with 7" in up.err
    assert "the stand-in has no wish to live" in up.err
    assert "Traceback" not in up.err


def test_an_agent_that_cannot_boot_is_told_before_the_deadline(desk: Desk) -> None:
    """Three failed launches are enough to stop waiting; the watcher goes on trying, and up says how to end it."""
    up = desk.call("up", watcher="fails")

    assert up.code == 1
    assert "failed to boot 3 times" in up.err
    assert "boot 3 failed" in up.err
    assert "minifram down" in up.err
    assert watching.holder(desk.home().places.watcher_lock)


def test_up_waits_for_whoever_leads_instead_of_a_pinned_version(desk: Desk) -> None:
    """Three failures are not the end when the third pinned the version; up says who runs in main's place."""
    up = desk.call("up", watcher="pins")

    assert up.code == 0, up
    assert f"running main@{desk.main()[:12]} (last good), 4 failed so far" in up.err


def test_safe_mode_is_no_success(desk: Desk) -> None:
    """The agent works, and `up` and `restart` say in words and by their exit status that nothing of main's does."""
    up = desk.call("up", watcher="safe")
    assert up.code == 8, up
    assert f"safe mode in place of main@{desk.main()[:12]}" in up.out
    again = desk.call("restart", watcher="safe")
    assert again.code == 8, again
    assert "active    safe mode" in again.out


def test_failures_of_an_earlier_watcher_do_not_count(desk: Desk) -> None:
    """The memory of bad starts is the watcher's; a new start is judged by what happens now."""
    desk.call("up", watcher="fails")
    desk.call("down")

    assert desk.call("up").code == 0


def test_up_has_a_deadline(desk: Desk) -> None:
    """A watcher that never gets its agent to work is left to go on, and up fails with its state."""
    up = desk.call("up", "--timeout", "0.5", watcher="hangs")

    assert up.code == 1
    assert "0.5 s" in up.err
    assert watching.holder(desk.home().places.watcher_lock)


def test_a_stale_state_file_is_not_taken_for_a_running_agent(desk: Desk) -> None:
    """After a kill -9 of the watcher its file still says running; only the new watcher's word counts."""
    pid = desk.call("up", "--json").json["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: watching.holder(desk.home().places.watcher_lock) is None)

    assert desk.run("status").code == 3
    up = desk.call("up", "--timeout", "0.5", watcher="hangs")

    assert up.code == 1


def test_a_watcher_that_refuses_for_no_visible_reason_is_tried_once_more(desk: Desk) -> None:
    """A glance at the lock by another command can make it refuse; twice is a failure."""
    up = desk.call("up", watcher="refuses")

    assert up.code == 6
    assert up.err.count("watcher started") == 2


def test_ctrl_c_during_up_is_130_and_leaves_the_watcher(desk: Desk) -> None:
    """Interrupted means that nobody waits any longer, nothing else."""
    with desk.spawn("up", watcher="hangs") as process:
        wait_for(lambda: watching.holder(desk.home().places.watcher_lock))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in err
    assert watching.holder(desk.home().places.watcher_lock)


def test_ctrl_c_during_down_is_130(desk: Desk) -> None:
    """The watcher was asked to end, and the PM stops waiting."""
    desk.call("up", watcher="deaf")
    with desk.spawn("down") as process:
        assert process.stderr is not None
        assert "asked the watcher" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    assert process.returncode == 130


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


def test_the_key_goes_to_a_private_file_and_away_with_the_agent(desk: Desk) -> None:
    """It is never in an argument or in the environment of what is started, nor in anything that up prints."""
    _settings(desk, "model: {provider: anthropic}\n")

    up = desk.call("up", ANTHROPIC_API_KEY=f" {KEY}\n")

    assert up.code == 0, up
    key_file = Path(desk.home().key_file(KEYS[0]))
    assert key_file.read_text().strip() == KEY
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert key_file.parent.stat().st_mode & 0o777 == 0o700
    seen = _seen(desk)
    assert seen["key"] == KEY
    assert KEY not in json.dumps([seen["words"], seen["environ"]])
    assert KEY not in up.out + up.err
    assert KEY not in Path(desk.home().started_file).read_text()

    assert desk.run("down").code == 0
    assert not key_file.exists()


def test_with_a_key_the_same_agent_runs_on_claude(desk: Desk) -> None:
    """Nothing set in the settings: a key in the environment at `up` decides who thinks, and status says who."""
    _settings(desk, "")

    assert "anthropic claude" in desk.call("up", ANTHROPIC_API_KEY=KEY).out
    assert desk.run("status", "--json").json["model"].startswith("anthropic claude")
    assert desk.run("down").code == 0

    assert "scripted" in desk.call("up").out
    assert desk.run("status", "--json").json["model"] == "scripted"
    assert desk.run("down").code == 0


def test_each_model_gets_its_own_key_and_no_other_is_handed_over(desk: Desk) -> None:
    """`auto` takes OpenAI's when it is the only one; what stands in needs its key as well; a restart keeps both."""
    both = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "sk-openai-0123456789"}
    claude, openai = (Path(desk.home().key_file(key)) for key in KEYS)

    _settings(desk, "")
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


def test_what_is_set_in_the_settings_is_shown(desk: Desk) -> None:
    """Models that stand in are shown as they are written."""
    _settings(desk, "model: {then: [{provider: ollama, name: qwen3}]}\n")

    shown = desk.done("config", "model.then").out
    assert '"provider": "ollama"' in shown
    assert "Models to try" in shown


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


def test_a_failed_start_takes_the_key_away_again(desk: Desk) -> None:
    """No watcher, no key on disk."""
    _settings(desk, "model: {provider: anthropic}\n")

    assert desk.call("up", watcher="dies", ANTHROPIC_API_KEY=KEY).code == 1
    assert not os.path.exists(desk.home().key_file(KEYS[0]))


def test_restart_says_what_changed(desk: Desk) -> None:
    """Version and settings before and after; the model's key is carried over without the PM's environment."""
    _settings(desk, "model: {provider: anthropic}\n")
    first = desk.call("up", "--json", ANTHROPIC_API_KEY=KEY).json
    before = desk.main()
    after = desk.write_page("# COMMS\n\n## Directives\n\n## Reports\n\nnew\n")
    _settings(desk, "model: {provider: anthropic}\nautonomy: frozen\n")

    restarted = desk.call("restart", "--json")

    assert restarted.code == 0, restarted
    found = restarted.json
    assert found["schema"] == "minifram.restart/1"
    assert (found["before"], found["after"]) == (f"main@{before}", f"main@{after}")
    assert found["pid_before"] == first["pid"] != found["pid"]
    assert found["settings_changed"] == {"autonomy": ["merge", "frozen"]}
    assert Path(desk.home().key_file(KEYS[0])).read_text().strip() == KEY

    unchanged = desk.call("restart")
    assert "as before" in unchanged.out


def test_a_garbled_state_does_not_keep_an_agent_from_being_restarted(desk: Desk) -> None:
    """What the watcher knew is for people; the lock alone says what runs."""
    desk.call("up")
    Path(desk.home().places.watcher_state).write_text("garbage")

    restarted = desk.call("restart", "--json")

    assert restarted.code == 0, restarted
    assert restarted.json["before"] == ""
    assert restarted.json["pid_before"]


def test_restart_when_down_starts_and_says_so(desk: Desk) -> None:
    """There is nothing to end first."""
    restarted = desk.call("restart")

    assert restarted.code == 0
    assert "down before" in restarted.out


def test_restart_does_not_stop_what_it_could_not_start_again(desk: Desk) -> None:
    """Bad settings are found while the old agent still runs."""
    pid = desk.call("up", "--json").json["pid"]
    _settings(desk, "autonomy: full\n")

    restarted = desk.call("restart")

    assert restarted.code == 2
    assert "autonomy" in restarted.err
    assert watching.holder(desk.home().places.watcher_lock) == pid


def test_a_sandbox_that_cannot_be_had_is_refused(desk: Desk) -> None:
    """With what is missing; --sandbox process starts the agent all the same, and status says so."""
    _settings(desk, "sandbox: podman\n")

    refused = desk.call("up", PATH="/nonexistent:/usr/bin:/bin", XDG_RUNTIME_DIR="/")
    assert refused.code in (1, 2, 4)
    assert "the podman sandbox cannot be used here" in refused.err
    assert "--sandbox process" in refused.err
    assert desk.call("up", "--sandbox", "process").code == 0
    assert desk.run("status", "--json").json["sandbox"] == "process"


def test_a_run_directory_of_somebody_else_stops_up(desk: Desk) -> None:
    """Sockets and keys go only where nobody else can enter."""
    os.chmod(desk.home().run, 0o755)

    up = desk.run("up")

    assert up.code == 6
    assert desk.home().run in up.err
    os.chmod(desk.home().run, 0o700)
    assert desk.call("up").code == 0


def test_up_after_a_reboot_makes_the_run_directory_anew(desk: Desk) -> None:
    """What lies in a run directory is gone after a reboot; nothing depends on it."""
    os.rmdir(desk.home().run)
    assert desk.call("up").code == 0


def test_two_agents_run_side_by_side(desk: Desk) -> None:
    """Each has its own watcher; ending one leaves the other."""
    desk.done("init", "--agent", "second")
    first = desk.call("up", "--json").json["pid"]
    second = desk.call("--agent", "second", "up", "--json").json["pid"]

    assert desk.call("down", "--agent", "second").code == 0
    assert watching.holder(desk.home().places.watcher_lock) == first != second
    assert desk.run("status", MINIFRAM_AGENT="second").code == 3
    assert desk.run("status").code == 0
