"""The services of a checkout: what `services.yaml` may say, how they run as real processes, and the end of what nobody
declared, in a process of its own, whose descendants those are."""

from __future__ import annotations

import os
import random
import re
import signal
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cell.services.services import LOGS, MOST_FILE_BYTES, NICE, Service, Services, declared
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


ONE = "{name: web, command: [python, -m, http.server, '8000']}"


def test_what_is_declared_is_read_in_its_order(tmp_path: Path) -> None:
    """Nothing is nothing, and no mistake; a pipe in the file's place is one."""
    assert declared(str(tmp_path)) == ()
    file = tmp_path / SERVICES
    for text in ("", "services:\n", "services: []\n", "# nothing\n"):
        file.write_text(text)
        assert declared(str(tmp_path)) == ()
    file.write_text(f"services:\n- {ONE}\n- name: db\n  command: [./db]\n  directory: src/db\n")
    web = Service("web", ("python", "-m", "http.server", "8000"))
    assert declared(str(tmp_path)) == (web, Service("db", ("./db",), "src/db"))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ValueError, match="cannot be read"):
        declared(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("services: [", "cannot be read"),
        ("services: \xff", "cannot be read"),
        ("services: [&a {name: web, command: [x]}, *a]", "aliases"),
        ("#" * (MOST_FILE_BYTES + 1), "has more than"),
        ("web: {command: [x]}", "unknown field `web`"),
        ("services: {web: x}", "got `object` - at `$.services`; expected 'services', a list"),
        (f"services: [{', '.join([ONE] * (9))}]", "length <= 8"),
        ("services: [web]", "Expected `object`, got `str` - at `$.services[0]`"),
        (f"services: [{ONE}, {ONE}]", "a name comes twice"),
        ("services: [{name: web, command: [x], memory: 1}]", "unknown field `memory` - at `$.services[0]`"),
        ("services: [{name: ../web, command: [x]}]", "$.services[0].name"),
        ("services: [{command: [x]}]", "missing required field `name`"),
        ("services: [{name: web, command: python x.py}]", "Expected `array`, got `str` - at `$.services[0].command`"),
        ("services: [{name: web, command: []}]", "length >= 1 - at `$.services[0].command`"),
        ("services: [{name: web, command: ['']}]", "$.services[0].command[0]"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, problem: str) -> None:
    """With what was found; nothing is half understood."""
    (tmp_path / SERVICES).write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=re.escape(problem)):
        declared(str(tmp_path))


LEFT = """
import subprocess, sys
import psutil
from infra.cell.services.services import end_all_but
from infra.shared.subreaper import become_subreaper
become_subreaper()
sleep = [sys.executable, "-c", "import time; time.sleep(30)"]
kept = subprocess.Popen(sleep)
left = subprocess.Popen(sleep, start_new_session=True)
end_all_but(lambda: frozenset([kept.pid]))
print([child.pid for child in psutil.Process().children()] == [kept.pid], kept.poll())
kept.kill()
kept.wait()
"""


@pytest.mark.heavy
def test_what_nobody_declared_is_ended() -> None:
    """However it got away; what is kept is left alone."""
    ended = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.stderr) == ("True None\n", "")


REAP = """
import os, subprocess, sys, threading, time
from infra.cell.services.services import reap

kept = []

def start():
    kept.append(subprocess.Popen(["true"]))  # one that is dropped is waited for
    return kept[-1].pid

pids = [start(), start()]
thread = threading.Thread(target=lambda: pids.append(start()))
thread.start()
thread.join()
for pid in pids:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
lives = subprocess.Popen(["sleep", "60"])
reap(lambda: frozenset(pids[:1]))
left = open("/proc/self/task/%d/children" % os.getpid()).read().split()
print(left == [str(pids[0]), str(lives.pid)])
lives.kill()
"""


@pytest.mark.heavy
def test_of_the_children_that_have_died_those_that_nobody_waits_for_are_reaped() -> None:
    """Whichever thread began them; a service is left to who keeps it, and what lives is left alone."""
    ended = subprocess.run([sys.executable, "-c", REAP], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.returncode) == ("True\n", 0), ended.stderr
