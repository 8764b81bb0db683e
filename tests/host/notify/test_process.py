"""The sender beside an agent: who starts and ends it, what it costs the commands, what `doctor` says of it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.notify.process import lock_of, log_of
from host.notify.state import Store
from host.running.watcher import holder
from tests.host.desk import Desk, Ended, wait_for
from tests.host.notify.scene import Records, received, receiving


@pytest.fixture
def desk(desk: Desk) -> Iterator[Desk]:
    version = importlib.metadata.version("click")
    (desk.project / "requirements.lock").write_text(f"click=={version} \\\n    --hash=sha256:00\n")
    yield desk
    if pid := holder(lock_of(desk.home())):
        os.kill(pid, signal.SIGKILL)


def done(desk: Desk, command: str) -> Ended:
    """By a process of its own, as its child goes on."""
    ended = desk.call(command)
    assert ended.code == 0, ended
    return ended


def configure(desk: Desk, notify: dict[str, object]) -> None:
    Path(desk.home().settings).write_text(f"sandbox: process\nnotify: {json.dumps(notify)}\n")


def of_doctor(desk: Desk) -> list[tuple[str, str]]:
    ended = desk.run("doctor", "--json")
    return [(each["level"], each["text"]) for each in ended.json["results"] if each["check"] == "notify"]


def test_up_starts_the_sender_and_down_ends_it(desk: Desk) -> None:
    """What happened while it ran is delivered; a restart, and a sender that was killed, bring a new one."""
    out, home = desk.root / "out", desk.home()
    configure(desk, {"command": f"cat >>{out}"})
    done(desk, "up")
    wait_for(lambda: holder(lock_of(home)))
    first = holder(lock_of(home))
    Records(desk).asks()
    wait_for(lambda: received(out))

    done(desk, "restart")
    wait_for(lambda: holder(lock_of(home)) not in (None, 0, first))
    os.kill(holder(lock_of(home)) or 0, signal.SIGKILL)
    wait_for(lambda: holder(lock_of(home)) is None)
    assert [level for level, text in of_doctor(desk) if "the sender does not run" in text] == ["warn"]

    records = Records(desk)
    records.reports("done: it", ticks=(records.directive("Write a haiku."),))
    done(desk, "restart")
    wait_for(lambda: len(received(out)) == 2)
    assert [each["kind"] for each in received(out)] == ["approval", "done"]
    done(desk, "down")
    wait_for(lambda: holder(lock_of(home)) is None)


def test_an_agent_that_is_not_to_notify_has_no_sender(desk: Desk) -> None:
    """Nor a memory of an earlier one; `doctor` says that nothing is configured."""
    home = desk.home()
    Path(Store(home).path).write_text("{}")
    done(desk, "up")

    assert (os.path.exists(Store(home).path), os.path.exists(log_of(home))) == (False, False)
    [(level, text)] = of_doctor(desk)
    assert (level, "not configured" in text) == ("note", True)


@pytest.mark.parametrize("command", ["sleep 60", "kill -9 $PPID"])
def test_no_command_waits_for_a_receiver(desk: Desk, command: str) -> None:
    """A command that hangs, or ends the sender itself."""
    configure(desk, {"command": command})
    Records(desk).asks()
    done(desk, "up")
    wait_for(lambda: os.path.exists(log_of(desk.home())))
    began = time.monotonic()
    done(desk, "restart")
    done(desk, "down")

    assert time.monotonic() - began < 25, "a receiver has 30 s"


def test_a_sender_that_cannot_be_started_keeps_no_agent_from_starting(desk: Desk) -> None:
    """It is said, and the agent runs."""
    configure(desk, {"command": "true"})
    os.mkdir(log_of(desk.home()))
    ended = done(desk, "up")

    assert "notifications: " in ended.err


def test_a_test_notification_is_sent_and_its_result_shown(desk: Desk) -> None:
    """1 when one of the ways does not work."""
    out = desk.root / "out"
    with receiving(204, 503) as receiver:
        configure(desk, {"command": f"cat >>{out}", "webhook": receiver.url})
        good: Ended = desk.done("notify", "--test", "--json")
        bad = desk.run("notify", "--test")

    assert [each["error"] for each in good.json["sent"]] == ["", ""]
    assert [each["kind"] for each in (*received(out), *receiver.bodies)] == ["test"] * 4
    assert (bad.code, "503" in bad.out, "delivered" in bad.out) == (1, True, True)
    assert "sesame" not in bad.out + bad.err


def test_without_settings_there_is_nothing_to_send_with(desk: Desk) -> None:
    """The error names the file and the keys."""
    ended = desk.run("notify", "--test")

    assert ended.code == 2
    assert "set notify.command or notify.webhook in" in ended.err


def test_doctor_shows_the_last_success_and_the_last_error(desk: Desk) -> None:
    """And how much waits; never the address."""
    with receiving(204, 503) as receiver:
        configure(desk, {"webhook": receiver.url})
        done(desk, "up")
        records = Records(desk)
        records.asks()
        wait_for(lambda: receiver.bodies)
        wait_for(lambda: any("last delivered 2" in text for level, text in of_doctor(desk) if level == "ok"))
        records.reports("done: it", ticks=(records.directive("Write a haiku."),))
        wait_for(lambda: any("answered 503" in text for level, text in of_doctor(desk) if level == "warn"))
        shown = desk.run("doctor").out

    assert "1 notification not delivered yet, tried again" in shown
    assert "webhook at 127.0.0.1" in shown
    assert "sesame" not in shown


def test_the_settings_file_with_a_webhook_is_the_pm_s_alone(desk: Desk) -> None:
    """The container has it, and who knows the address can post there."""
    settings = Path(desk.home().settings)
    configure(desk, {"command": "true"})
    settings.chmod(0o644)
    done(desk, "up")
    assert stat.S_IMODE(settings.stat().st_mode) == 0o644

    configure(desk, {"webhook": "http://127.0.0.1:1/"})
    ended = done(desk, "restart")
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert "it is now readable by you alone" in ended.err


def test_the_unit_for_systemd_runs_the_same_sender(desk: Desk) -> None:
    """Printed, installed, compared; a file that is not ours is left alone."""
    text = desk.done("generate", "notify").out
    assert "-m host --agent agent notify" in text
    path = desk.root / "config/systemd/user/minifram-agent-notify.service"
    desk.done("generate", "notify", "--install")
    assert path.read_text() == text
    assert desk.run("generate", "notify", "--check").code == 0
    path.write_text(text + "Nice=5\n")
    assert desk.run("generate", "notify", "--check").code == 8
    path.write_text("[Unit]\n")
    assert desk.run("generate", "notify", "--install").code == 6


def test_an_archive_brings_no_command(desk: Desk) -> None:
    """It would run as the PM; the webhook is taken when the PM accepts it."""
    configure(desk, {"command": "touch /tmp/owned", "webhook": "https://example.invalid/x"})
    desk.done("backup", str(desk.root / "archive"))
    ended = desk.done("restore", str(desk.root / "archive"), "--agent", "second", "--accept", "--json")

    assert [each["key"] for each in ended.json["not_taken"]] == ["sandbox", "notify.command"]
    settings = Path(desk.home("second").settings)
    assert "example.invalid" in settings.read_text()
    assert "owned" not in settings.read_text()
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
