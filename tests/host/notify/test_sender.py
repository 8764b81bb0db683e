"""What is sent arrives: by real commands and a real web server, whatever becomes of sender and receiver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from host.notify.letters import LONGEST_RETRY_SECONDS
from host.notify.state import Memory, Store
from infra.shared.notify_settings import NotifySettings
from tests.host.desk import PROJECT, Desk, wait_for
from tests.host.notify.scene import Clock, Records, received, receiving, step_until

STEPS = ("before 1", "after 1", "begun 1", "ended 1", "before 2", "ended 2")


@pytest.fixture
def records(desk: Desk) -> Iterator[Records]:
    made = Records(desk)
    made.begin()
    yield made
    made.close()


def test_a_command_gets_json_on_its_standard_input(records: Records, tmp_path: Path) -> None:
    """With an id, the times, and no text of a report; the environment holds no key."""
    out = tmp_path / "out"
    its = records.directive("Write a haiku.")
    records.reports("done: it", "A frog jumps.", (its,))
    made = records.sender(NotifySettings(command=f"cat >>{out}"))
    step_until(made, lambda: received(out))

    [told] = received(out)
    assert told.keys() == {"schema", "id", "agent", "kind", "count", "first_at", "last_at", "text", "items"}
    assert (told["schema"], told["kind"], told["count"]) == ("minifram.notification/1", "done", 1)
    assert told["text"] == "agent: done: Write a haiku."
    assert told["items"] == [{"at": told["first_at"], "text": "done: Write a haiku."}]
    assert len(told["id"]) == 32


def test_the_text_of_the_report_goes_along_when_the_pm_asks_for_it(records: Records, tmp_path: Path) -> None:
    """`notify.text: true`."""
    out = tmp_path / "out"
    records.reports("done: it", "A frog jumps.", (records.directive("Write a haiku."),))
    step_until(records.sender(NotifySettings(command=f"cat >>{out}", text=True)), lambda: received(out))

    assert "A frog jumps." in received(out)[0]["items"][0]["details"]


def test_a_webhook_that_fails_twice_gets_the_same_letter_until_it_takes_it(records: Records) -> None:
    """With growing pauses, and not once more."""
    clock = Clock()
    with receiving(500, 503, 204) as receiver:
        made = records.sender(NotifySettings(webhook=receiver.url), clock)
        records.asks()
        for attempt, pause in ((1, 5.0), (2, 10.0), (3, 3600.0)):
            step_until(made, lambda attempt=attempt: len(receiver.bodies) == attempt)  # type: ignore[misc]
            step_until(made, lambda attempt=attempt: _tries(records) == (attempt if attempt < 3 else None))  # type: ignore[misc]
            clock.ahead += pause - 1.0
            made.step()
            assert len(receiver.bodies) == attempt
            clock.ahead += 1.1
        for _ in range(10):
            made.step()

        assert len(receiver.bodies) == 3
        assert len({json.dumps(body) for body in receiver.bodies}) == 1
        assert receiver.paths[0] == "/hook?token=sesame"


def _tries(records: Records) -> int | None:
    """How often the letter of the question was tried in vain; None when it is delivered."""
    channel = (Store(records.home).read() or Memory()).channels.get("webhook")
    letter = channel.lanes["approval"].letter if channel and "approval" in channel.lanes else None
    return letter.tries if letter else None


@pytest.mark.parametrize(
    ("status", "words"),
    [(302, "a redirect, which is not followed"), (404, "answered 404"), (0, "did not end within"), (-1, "refused")],
)
def test_a_receiver_that_does_not_take_it_is_no_success(records: Records, status: int, words: str) -> None:
    """A redirect is not followed, a mute receiver has a deadline, and none of them holds up the command's channel."""
    out = Path(records.desk.root, "out")
    with receiving(max(status, 0)) as receiver:
        url = receiver.url if status >= 0 else "http://127.0.0.1:1/"
        notify = NotifySettings(command=f"cat >>{out}", webhook=url)
        made = records.sender(notify, seconds=5.0 if status else 2.0)
        records.asks()
        step_until(made, lambda: received(out))
        records.reports("done: it", ticks=(records.directive("Write a haiku."),))
        step_until(made, lambda: len(received(out)) == 2)
        step_until(made, lambda: (_channel(records, "webhook") or "").count(words))

        assert "/elsewhere" not in receiver.paths
        assert "sesame" not in Path(Store(records.home).path).read_text()


def _living_in(group: int) -> list[psutil.Process]:
    alive = [each for each in psutil.process_iter(["status"]) if each.info["status"] != psutil.STATUS_ZOMBIE]
    return [each for each in alive if psutil.pid_exists(each.pid) and _group(each.pid) == group]


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _channel(records: Records, name: str) -> str | None:
    memory = Store(records.home).read()
    return memory.channels[name].error if memory and name in memory.channels else None


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo no such luck >&2; exit 3", "it ended with 3: no such luck"),
        ("sleep 600 & exec sleep 600", "did not end within 1 s and was killed"),
        ("cat >/dev/null; yes 1>&2", "did not end within 1 s"),
        ("kill -9 $$", "was killed by signal 9"),
        ("/no/such/program", "ended with 127"),
    ],
)
def test_a_command_that_fails_or_hangs_is_told_of_and_tried_again(records: Records, command: str, words: str) -> None:
    """Its end, its last words, its deadline; what it has started is ended with it."""
    marker = Path(records.desk.root, "pids")
    notify = NotifySettings(command=f"echo $$ >>{marker}; {command}")
    made = records.sender(notify, seconds=1.0)
    records.asks()
    step_until(made, lambda: _channel(records, "command"))

    assert words in (_channel(records, "command") or "")
    group = int(marker.read_text().split()[0])
    wait_for(lambda: not _living_in(group))


def test_a_receiver_that_is_gone_for_days_gets_everything_at_last(records: Records, tmp_path: Path) -> None:
    """The first as it was, then the rest counted; the memory stays small."""
    out, up, clock = tmp_path / "out", tmp_path / "up", Clock()
    made = records.sender(NotifySettings(command=f"test -e {up} && cat >>{out}"), clock)
    for number in range(12):
        records.asks(id=f"{number:016x}")
        before = _tries_of(records)
        step_until(made, lambda before=before: _tries_of(records) > before)  # type: ignore[misc]
        clock.ahead += LONGEST_RETRY_SECONDS
    assert Path(Store(records.home).path).stat().st_size < 8000
    up.touch()
    step_until(made, lambda: received(out) and not _tries_of(records))
    clock.ahead += LONGEST_RETRY_SECONDS
    step_until(made, lambda: len(received(out)) == 2)

    assert [each["count"] for each in received(out)] == [1, 11]


def _tries_of(records: Records) -> int:
    memory = Store(records.home).read()
    lanes = memory.channels["command"].lanes if memory and "command" in memory.channels else {}
    letter = lanes["approval"].letter if "approval" in lanes else None
    return letter.tries if letter else 0


@pytest.mark.parametrize(
    "point", ["before 1", "after 1", "begun 1", "begun 2", "ended 1", "ended 2", "before 2", "after 2"]
)
def test_a_sender_that_is_killed_loses_nothing(records: Records, tmp_path: Path, point: str) -> None:
    """At each step between seeing and having sent. What goes out twice has the same id."""
    out = tmp_path / "out"
    records.reports("done: it", ticks=(records.directive("Write a haiku."),))
    records.asks()
    words = [sys.executable, "-m", "tests.host.notify.killed", str(out), *point.split()]
    ended = subprocess.run(words, cwd=PROJECT, env=records.desk.environ, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL

    again = records.sender(NotifySettings(command=f"cat >>{out}"))
    step_until(again, lambda: {each["kind"] for each in received(out)} == {"done", "approval"})
    until = time.monotonic() + 0.3
    step_until(again, lambda: time.monotonic() > until)
    letters = {each["id"]: each for each in received(out)}
    assert sorted((each["kind"], each["count"]) for each in letters.values()) == [("approval", 1), ("done", 1)]


def test_a_memory_that_cannot_be_written_sends_nothing_and_loses_nothing(records: Records, tmp_path: Path) -> None:
    """A full disk: what was sent could not be remembered, so it waits."""
    out, store = tmp_path / "out", _Full()
    made = records.sender(NotifySettings(command=f"cat >>{out}"), store=store)
    records.asks()
    for _ in range(5):
        made.step()
        time.sleep(0.02)
    assert received(out) == []

    store.is_full = False
    step_until(made, lambda: received(out))
    assert [each["kind"] for each in received(out)] == ["approval"]


class _Full:
    is_full = True

    def write(self, memory: Memory) -> None:
        if self.is_full:
            raise OSError("no space left")


def test_a_memory_of_nobody_s_is_set_aside(records: Records, tmp_path: Path) -> None:
    """What holds now is sent again, and the sender says so."""
    records.asks()
    store = Store(records.home)
    Path(store.path).write_text("{}}")
    memory, complaint = store.take()

    assert (memory, "set aside" in complaint) == (Memory(), True)
    assert Path(f"{store.path}.unreadable").exists()
    out = tmp_path / "out"
    step_until(records.sender(NotifySettings(command=f"cat >>{out}")), lambda: received(out))
