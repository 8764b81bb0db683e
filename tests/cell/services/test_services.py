"""The services of a checkout, as real processes."""

from __future__ import annotations

import os
import random
import signal
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cell.services.services import LOGS, NICE, Services
from infra.shared.paths import SERVICES
from tests.cell.loop.waiting import gone, wait_for


class Place:
    """A checkout with its services."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shown: list[str] = []
        self.events: list[str] = []
        self.declare("")

    def _log(self, event: str, **facts: object) -> None:
        self.events.append(event)

    def declare(self, text: str) -> None:
        (self.directory / SERVICES).write_text(text)
        directory = str(self.directory)
        self.services = Services(directory, directory, lambda: os.environ, self._log, self.shown.append)

    def pid(self, name: str) -> int:
        path = self.directory / name
        wait_for(lambda: path.exists() and path.read_text().endswith("\n"), f"the pid in {name}")
        return int(path.read_text())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.services.close()


def sleeper(name: str, words: str = "") -> str:
    """It starts a child, writes its pid, and stays."""
    return f"{{name: {name}, command: [bash, -c, 'sleep 1000 & echo $$ > {name}; {words} wait']}}"


def test_what_is_declared_runs_and_is_started_again(place: Place) -> None:
    """With everything that it had started ended before; and it is told how it ended."""
    place.declare(f"services: [{sleeper('web')}]")
    place.services.start()
    first = place.pid("web")
    assert place.services.pids() == {first}
    wait_for(lambda: place.shown == ["web running"], "it is shown")
    assert Path(f"/proc/{first}/oom_score_adj").read_text() == "1000\n"
    assert os.getpriority(os.PRIO_PROCESS, first) >= NICE
    [child] = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    (place.directory / "web").unlink()
    os.kill(first, signal.SIGKILL)
    assert place.pid("web") != first
    wait_for(lambda: gone(int(child)), "its child ends with it")
    wait_for(lambda: place.shown == ["web running", "web ended, signal 9", "web running"], "it is shown")


def test_what_cannot_be_started_is_told_and_tried_again(place: Place) -> None:
    """The others run all the same."""
    place.declare(f"services: [{{name: bad, command: [/no/such/program]}}, {sleeper('web')}]")
    place.services.start()
    place.pid("web")
    wait_for(lambda: "bad ended, it cannot be started: [Errno 2]" in place.services.words(), "it is told")
    wait_for(lambda: place.events.count("service.ended") >= 2, "it is tried again")


def test_no_key_gets_into_its_log(place: Place) -> None:
    """Not in two writes, not without an end of line."""
    secret = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=36))
    key = f"ghp_{secret}"
    parts = f"printf 'a {key[:20]}'; sleep 0.1; printf '{key[20:]} b\\nand {key}'; touch said; sleep 1000"
    (place.directory / "says").write_text(parts)
    place.declare("services: [{name: web, command: [bash, says]}]")
    place.services.start()
    log = place.directory / LOGS / "web.log"
    wait_for(lambda: log.exists() and "b\n" in log.read_text(), "its first line")
    # A shell writes line by line: it may not have come to the last one.
    wait_for((place.directory / "said").exists, "all of it")
    place.services.close()
    wait_for(lambda: "and " in log.read_text(), "its last words")
    assert secret[:8] not in log.read_text()
    assert secret[-8:] not in log.read_text()
    assert log.read_text().startswith("a ")


def test_all_end_with_their_runner_even_those_that_do_not_listen(place: Place) -> None:
    """TERM is not enough for each."""
    place.declare(f"services: [{sleeper('web')}, {sleeper('deaf', 'trap true TERM; while true; do sleep 1; done;')}]")
    place.services.start()
    pids = [place.pid("web"), place.pid("deaf")]
    place.services.close()
    assert all(map(gone, pids))
    assert place.services.pids() == frozenset()
