"""What works for the watcher: a program whose words are kept and bounded, the promises of runner and doors, which
nobody can make in their place, and the end of all that a user runs, however it resists."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from infra.keep.programs import keep_environment
from infra.keep.services.children import Child
from infra.keep.services.hearts import LONGEST_SECONDS, Beat, Heard, Heartbeat, overdue
from infra.keep.services.processes import signal_all_of
from infra.shared.heart import Heart
from infra.shared.identity import Identity
from tests.shared.rows import each_row

WRITES_FOR_EVER = "while True: print('x' * 4096)"
LEAVES_A_CHILD = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.forget()


def started(children: list[Child], program: str, output_bytes: int = 1 << 16) -> Child:
    child = Child([sys.executable, "-c", program], dict(os.environ), output_bytes)
    children.append(child)
    return child


def wait(child: Child) -> None:
    poll = select.poll()
    poll.register(child.pidfd, select.POLLIN)
    while not child.is_over():
        poll.poll(50)


def test_what_it_said_and_how_it_ended_are_known(children: list[Child]) -> None:
    """Also after its end, until it is forgotten."""
    child = started(children, "print('done'); raise SystemExit(3)")
    wait(child)
    assert (child.end(), child.said()) == (3, b"done\n")


@pytest.mark.fault("F59")
def test_one_that_says_too_much_is_killed(children: list[Child]) -> None:
    """The memory that its output takes has a bound."""
    child = started(children, WRITES_FOR_EVER, 1 << 12)
    wait(child)
    assert child.end() == -signal.SIGKILL
    assert len(child.said()) == 1 << 12


def test_what_it_started_ends_with_it(children: list[Child]) -> None:
    """All of its session's group."""
    child = started(children, LEAVES_A_CHILD)
    wait(child)
    left = os.pidfd_open(int(child.said()))
    child.end()
    poll = select.poll()
    poll.register(left, select.POLLIN)
    assert poll.poll(10_000)
    os.close(left)


ASLEEP = Heard(100.0, Beat("sleeping", 60.0))
FOREVER = Heard(100.0, Beat("\n" * 1000, 1e18))


@pytest.fixture
def heart() -> Iterator[Heartbeat]:
    made = Heartbeat(0.0, 60.0)
    yield made
    made.close()


@each_row(
    "last, now, words",
    [
        (ASLEEP, 160.0, ""),
        (ASLEEP, 161.0, "last heard of 61 s ago while 'sleeping'; it had promised 60 s"),
        (FOREVER, 100.0 + LONGEST_SECONDS, ""),
        (FOREVER, 101.0 + LONGEST_SECONDS, "it had promised 86400 s"),
    ],
)
def test_a_promise_is_broken_after_its_time_alone(last: Heard, now: float, words: str) -> None:
    found = overdue(last, now)
    assert (words in found, bool(found), "\n" in found) == (True, bool(words), False)


PROGRAM = """
import os, subprocess, sys, time
from infra.shared import heart
number = os.environ[heart.VARIABLE]
heart.inherited(os.environ, 60.0).beat("working", 5.0)
child = "import os, sys; sys.exit('MINIFRAM_HEART' in os.environ or os.path.exists('/proc/self/fd/' + sys.argv[1]))"
sys.exit(subprocess.run([sys.executable, "-c", child, number], close_fds=False).returncode)
"""


@pytest.mark.attack("S20")
def test_a_program_is_heard_and_what_it_starts_has_no_heart(heart: Heartbeat) -> None:
    """Its promise has the slack of its kind; the last one counts, from when it was read."""
    environment = keep_environment() | heart.environment
    words = [sys.executable, "-c", PROGRAM]
    assert subprocess.run(words, env=environment, pass_fds=heart.descriptors, check=False).returncode == 0
    assert heart.listen(7.0) == Heard(7.0, Beat("working", 65.0))
    assert heart.listen(9.0) == Heard(7.0, Beat("working", 65.0))
    heart.started()
    assert heart.listen(11.0).at == 7.0  # nobody is left to beat


@pytest.mark.parametrize("said", [b"", b"\xff", b"[]", b'{"doing":1,"within":1}', b'{"doing":"x","within":1e999}'])
def test_what_is_no_beat_is_none(heart: Heartbeat, said: bytes) -> None:
    with socket.socket(fileno=os.dup(heart.descriptors[0])) as theirs:
        theirs.send(said)
        assert heart.listen(5.0) == Heard(0.0, Beat("starting", 60.0))
        theirs.send(b'{"doing":"x","within":2,"more":3}')
        assert heart.listen(6.0) == Heard(6.0, Beat("x", 2.0))


def test_who_beats_without_rest_waits_for_nobody_and_keeps_nobody_waiting(heart: Heartbeat) -> None:
    """What finds no room is not sent; a heart that nobody gave beats for nobody."""
    own = Heart(heart.descriptors[0])
    for number in range(10_000):
        own.beat(str(number), 1.0)
    Heart().beat("for nobody", 1.0)
    assert 50 < int(heart.listen(1.0).beat.doing) < 9_999
    own.beat("heard again", 1.0)
    assert heart.listen(2.0) == Heard(2.0, Beat("heard again", 1.0))


WHO = Identity(61_987, 61_987)
"""Nobody else's in these tests: all of its processes are ended."""
RESISTS = f"""import os, signal
os.setresgid({WHO.gid}, {WHO.gid}, {WHO.gid}), os.setresuid({WHO.uid}, {WHO.uid}, {WHO.uid})
print("ready", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"""


@pytest.mark.attack("S20")
@pytest.mark.heavy
@pytest.mark.timeout(60)
def test_who_is_ended_cannot_stop_the_one_that_ends_it() -> None:
    """A process that stops all that it may signal would otherwise hold the watcher for ever."""
    for _ in range(10):
        with subprocess.Popen([sys.executable, "-c", RESISTS], stdout=subprocess.PIPE) as resisting:
            assert resisting.stdout
            resisting.stdout.readline()
            signal_all_of(WHO, signal.SIGKILL)
            assert resisting.wait(10) == -signal.SIGKILL
