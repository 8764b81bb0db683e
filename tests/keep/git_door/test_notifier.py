"""The listening side of the git door, as its own process: who moves main wakes everybody who listens."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import infra
from infra.cell.door import ask
from infra.keep import arguments
from infra.shared import comms
from infra.shared.exit_codes import Exit
from infra.shared.requests import AgentReport, Ask, Done, QuestionState
from infra.shared.sockets import connect, listen
from tests.keep.git_door.world import PAGE, START_SECONDS, World, until

DEADLINE_SECONDS = 2.0
"""How soon a move must be noticed."""
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(infra.__file__)))


class Door:
    """`git_door serve` in a process of its own."""

    def __init__(self, world: World, text: str = "", poll_seconds: float = 0.3) -> None:
        self.world = world
        settings = world.root / "minifram.yaml"
        settings.write_text(text)
        self.log_path = world.root / f"door-{time.monotonic_ns()}.log"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-s", "-P", "-m", "infra.git_door", "serve"),
                    *arguments.words(str(settings), world.places),
                    f"--poll-seconds={poll_seconds}",
                ],
                cwd="/",
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": ROOT},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def opened(self) -> Door:
        assert until(lambda: "door.opened" in self.events or self.process.poll() is not None)
        assert self.process.poll() is None, self.log
        return self

    def end(self) -> int:
        """End it politely and give its exit code."""
        self.process.terminate()
        return self.process.wait(START_SECONDS)

    @property
    def log(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    @property
    def events(self) -> list[object]:
        return [line["event"] for line in self.log]


def connected(world: World) -> socket.socket:
    """A connection; the kernel turns clients away for as long as too many others wait to be let in."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return connect(world.places.git_socket, START_SECONDS)
        except BlockingIOError:
            assert time.monotonic() < end
            time.sleep(0.001)


class Listener:
    def __init__(self, world: World) -> None:
        self.socket = connected(world)
        self.lines = self.socket.makefile("rb")

    def line(self, seconds: float = START_SECONDS) -> str:
        """The next line. Raises TimeoutError; empty when the door has hung up."""
        self.socket.settimeout(seconds)
        return self.lines.readline().decode()

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def door(world: World) -> Iterator[Door]:
    made = Door(world)
    try:
        yield made.opened()
    finally:
        made.process.kill()
        made.process.wait()


@pytest.fixture
def listener(world: World, door: Door) -> Iterator[Listener]:
    made = Listener(world)
    yield made
    made.close()


def test_a_listener_hears_at_once_where_main_is(world: World, listener: Listener) -> None:
    """The first line comes with the connection."""
    assert listener.line() == f"main {world.main}\n"


def agent_pushes(world: World) -> None:
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("main")


def pm_pushes(world: World) -> None:
    world.pm.commit({"src/b.py": "1\n"})
    world.pm.push("main")


def ref_is_updated(world: World) -> None:
    bare = ("--git-dir", world.places.remote)
    world.pm.git(*bare, "update-ref", "refs/heads/main", world.pm.git(*bare, "commit-tree", "main^{tree}", "-m", "x"))


def ref_is_written_by_hand(world: World) -> None:
    bare = ("--git-dir", world.places.remote)
    commit = world.pm.git(*bare, "commit-tree", "main^{tree}", "-m", "by hand")
    Path(f"{world.places.remote}/refs/heads/main").write_text(commit + "\n")


def ref_moves_in_packed_refs(world: World) -> None:
    world.pm.git("--git-dir", world.places.remote, "pack-refs", "--all")
    assert not os.path.exists(f"{world.places.remote}/refs/heads/main")
    packed = Path(f"{world.places.remote}/packed-refs")
    commit = world.pm.git("--git-dir", world.places.remote, "commit-tree", "main^{tree}", "-m", "packed")
    text = packed.read_text().replace(str(world.main), commit)
    packed.with_name("packed-refs.lock").write_text(text)
    os.rename(packed.with_name("packed-refs.lock"), packed)


@pytest.mark.parametrize(
    "move", [agent_pushes, pm_pushes, ref_is_updated, ref_is_written_by_hand, ref_moves_in_packed_refs]
)
def test_whoever_moves_main_wakes_the_listener(world: World, listener: Listener, move: Callable[[World], None]) -> None:
    """A push through the door, one by path, and git called on the bare repository all count."""
    before = world.main
    listener.line()

    move(world)

    assert world.main != before
    assert listener.line(DEADLINE_SECONDS) == f"main {world.main}\n"


def test_packing_and_other_branches_wake_nobody(world: World, listener: Listener) -> None:
    """Only a main that is elsewhere is news."""
    listener.line()
    world.agent.push("HEAD:refs/heads/work")
    world.pm.git("--git-dir", world.places.remote, "pack-refs", "--all")
    world.agent.push("HEAD:refs/heads/work-2")

    agent_pushes(world)

    assert listener.line(DEADLINE_SECONDS) == f"main {world.main}\n"


def test_main_may_go_and_come(world: World, listener: Listener) -> None:
    """No main is said with a dash."""
    listener.line()
    commit = str(world.main)
    world.pm.git("--git-dir", world.places.remote, "update-ref", "-d", "refs/heads/main")
    assert listener.line(DEADLINE_SECONDS) == "main -\n"
    world.pm.git("--git-dir", world.places.remote, "update-ref", "refs/heads/main", commit)
    assert listener.line(DEADLINE_SECONDS) == f"main {commit}\n"


@pytest.fixture
def deaf(world: World, listener: Listener) -> Iterator[list[socket.socket]]:
    """200 clients that never read."""
    listener.line()
    clients = [connected(world) for _ in range(200)]
    yield clients
    for client in clients:
        client.close()


def test_clients_that_never_read_hold_up_nobody(world: World, listener: Listener, deaf: list[socket.socket]) -> None:
    """Hundreds of moves fill all that the deaf do not read; everybody else hears each move in time."""
    bare = ("--git-dir", world.places.remote)
    commits = [world.pm.git(*bare, "commit-tree", "main^{tree}", "-m", str(number)) for number in (1, 2)]
    main = Path(f"{world.places.remote}/refs/heads/main")
    for number in range(600):
        last = commits[number % 2]
        main.with_name("main.lock").write_text(last + "\n")
        os.rename(main.with_name("main.lock"), main)
        assert listener.line(DEADLINE_SECONDS) == f"main {last}\n"
    with contextlib.closing(Listener(world)) as late:
        assert late.line() == f"main {last}\n"
    assert all(_hung_up(client) for client in deaf)


def _hung_up(client: socket.socket) -> bool:
    client.settimeout(0)
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


def test_more_clients_than_there_is_room_for(world: World, door: Door, listener: Listener) -> None:
    """The oldest make room for the newest, and those who connect again are heard."""
    listener.line()
    with contextlib.ExitStack() as closing:
        for _ in range(520):
            closing.enter_context(connected(world))
        assert listener.line() == ""
        again = closing.enter_context(contextlib.closing(Listener(world)))
        assert again.line() == f"main {world.main}\n"
        agent_pushes(world)
        assert again.line(DEADLINE_SECONDS) == f"main {world.main}\n"
        assert door.end() == 0


def test_clients_that_talk_or_vanish_hold_up_nobody(world: World, listener: Listener) -> None:
    """Whoever writes to the socket is let go; whoever is gone is forgotten."""
    listener.line()
    talker = Listener(world)
    talker.socket.sendall(b"GET / HTTP/1.1\r\n" * 100)
    for _ in range(50):
        connected(world).close()
    with contextlib.suppress(ConnectionResetError):
        while talker.line():
            pass
    talker.close()

    agent_pushes(world)

    assert listener.line(DEADLINE_SECONDS) == f"main {world.main}\n"


def test_damage_is_logged_once_and_survived(world: World, door: Door, listener: Listener) -> None:
    """While refs are garbage or the repository is gone nobody is woken; when it is back, everybody is."""
    listener.line()
    main = Path(f"{world.places.remote}/refs/heads/main")
    beside = world.root / "main"
    before = main.read_text()
    for garbage in ("", "garbage\n", "1" * 39, "a fifo"):
        os.mkfifo(beside) if garbage == "a fifo" else beside.write_text(garbage)
        os.rename(beside, main)
        assert until(lambda: door.events[-1] == "main.unreadable")
        beside.write_text(before)
        os.rename(beside, main)
        assert until(lambda: door.events[-1] == "main.readable_again")
    away = world.root / "away.git"
    for _ in range(2):
        count = len(door.log)
        os.rename(world.places.remote, away)
        assert until(lambda count=count: len(door.log) > count)  # type: ignore[misc]
        time.sleep(0.7)  # two polls that have nothing new to say
        assert door.events[count:] == ["main.unreadable"]
        os.rename(away, world.places.remote)
        assert until(lambda: door.events[-1] == "main.readable_again")

    agent_pushes(world)

    assert listener.line(DEADLINE_SECONDS) == f"main {world.main}\n"


def test_garbage_in_head_is_survived(world: World, door: Door, listener: Listener) -> None:
    """A repository that git no longer takes for one still says where main is."""
    listener.line()
    world.pm.git("--git-dir", world.places.remote, "pack-refs", "--all")
    head = Path(f"{world.places.remote}/HEAD")
    good = head.read_text()
    head.write_text("garbage")
    packed = Path(f"{world.places.remote}/packed-refs")
    os.utime(packed, (1, 1))
    assert until(lambda: "main.unreadable" in door.events)
    head.write_text(good)

    agent_pushes(world)

    assert listener.line(DEADLINE_SECONDS) == f"main {world.main}\n"


def test_without_file_events_it_polls(world: World) -> None:
    """Where directories cannot be watched there is one warning, and moves are noticed all the same."""
    world.pm.git("--git-dir", world.places.remote, "pack-refs", "--all")
    shutil.rmtree(f"{world.places.remote}/refs/heads")
    door = Door(world).opened()
    try:
        with contextlib.closing(Listener(world)) as listener:
            assert listener.line() == f"main {world.main}\n"
            agent_pushes(world)
            assert listener.line(DEADLINE_SECONDS) == f"main {world.main}\n"
        assert door.events.count("door.only_polling") == 1
    finally:
        assert door.end() == 0


def test_file_events_are_quicker_than_the_poll(world: World) -> None:
    """With an hour between polls a move is still noticed, and so is the wish to end."""
    door = Door(world, poll_seconds=3600).opened()
    try:
        with contextlib.closing(Listener(world)) as listener:
            listener.line()
            pm_pushes(world)
            assert listener.line(DEADLINE_SECONDS) == f"main {world.main}\n"
    finally:
        assert door.end() == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly(world: World, door: Door, how: signal.Signals) -> None:
    """Asked to end, it hangs up, takes its socket away and exits with 0."""
    with contextlib.closing(Listener(world)) as listener:
        listener.line()
        door.process.send_signal(how)
        assert door.process.wait(START_SECONDS) == Exit.OK
        assert listener.line() == ""
    assert not os.path.lexists(world.places.git_socket)
    assert door.events[-1] == "door.closed"


def test_it_takes_the_place_of_a_dead_one(world: World, door: Door) -> None:
    """The socket of a door that was killed is no obstacle."""
    door.process.kill()
    door.process.wait()
    assert os.path.lexists(world.places.git_socket)
    again = Door(world).opened()
    assert again.end() == Exit.OK


def test_a_second_one_is_refused(world: World, door: Door) -> None:
    """Two doors on one socket cannot be; the first one stays as it is."""
    second = Door(world)
    assert second.process.wait(START_SECONDS) == Exit.CONFLICT
    assert "is in use by another program" in str(second.log[-1]["reason"])
    with contextlib.closing(Listener(world)) as listener:
        assert listener.line() == f"main {world.main}\n"


def test_a_socket_of_somebody_elses_is_left_alone(world: World) -> None:
    """Whatever answers at the socket's path keeps it."""
    with contextlib.closing(listen(world.places.git_socket)):
        assert Door(world).process.wait(START_SECONDS) == Exit.CONFLICT
        assert os.path.lexists(world.places.git_socket)


def test_a_socket_path_that_is_too_long(world: World) -> None:
    """The kernel's limit is said in words."""
    world.places = world.places._replace(run=f"{world.root}/{'long/' * 25}")
    door = Door(world)
    assert door.process.wait(START_SECONDS) == Exit.FAILURE
    assert "choose a shorter run directory" in str(door.log[-1]["reason"])


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("missing", "no repository at"),
        ("empty", "is not a git repository"),
        ("a file", "no repository at"),
        ("work tree", "is a repository with a work tree, expected a bare one"),
        ("inside another", "is not a git repository"),
    ],
)
def test_what_is_no_bare_repository(world: World, what: str, words: str) -> None:
    """Anything but a bare repository is named, with what makes one."""
    place = world.root / "other"
    if what == "a file":
        place.write_text("x")
    elif what == "inside another":
        place = world.pm.path / "src"
    elif what != "missing":
        place.mkdir()
        if what == "work tree":
            world.pm.git("init", "--quiet", str(place))
            place /= ".git"
    world.places = world.places._replace(remote=str(place))
    door = Door(world)
    assert door.process.wait(START_SECONDS) == Exit.NOT_FOUND
    assert words in str(door.log[-1]["reason"])
    assert "'minifram init' makes one" in str(door.log[-1]["reason"])
    assert not os.path.lexists(world.places.git_socket)


def test_settings_that_are_none(world: World) -> None:
    """A key that is not known ends it before it opens."""
    door = Door(world, "no_such: key\n")
    assert door.process.wait(START_SECONDS) == Exit.CONFIG
    assert "no_such" in str(door.log[-1]["reason"])


@pytest.mark.parametrize("packed", [False, True])
def test_idle_it_rests(world: World, door: Door, packed: bool) -> None:
    """With nothing to do it calls no git and does nearly nothing, wherever main is kept."""
    if packed:
        world.pm.git("--git-dir", world.places.remote, "pack-refs", "--all")
        time.sleep(0.5)  # to have looked at that

    def spent() -> tuple[int, int]:
        """Ticks of the processor, and page faults of all that it ever called."""
        fields = Path(f"/proc/{door.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12]), int(fields[8])

    before, called = spent()
    time.sleep(1.5)
    ticks, called_since = spent()
    assert called_since == called
    assert ticks - before < 10  # of a hundred in each second


def test_words_that_are_no_command() -> None:
    """Anything else shows how it is called."""
    done = subprocess.run(
        [sys.executable, "-m", "infra.git_door", "open"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == Exit.USAGE
    assert "infra.git_door pre-receive --config FILE" in done.stderr


def test_the_door_asks_for_the_agent_and_records_what_it_saw(world: World, door: Door) -> None:
    """By its other socket: a question with an id of the keep's, and the record under the report of a run's end."""
    socket, commit = world.places.request_socket, world.main or ""
    asked = ask(socket, Ask("bash", {"command": "touch a"}, "rule 1", "main", commit))
    assert isinstance(asked, QuestionState), door.log
    world.agent.git("pull", "--quiet", "--rebase", "origin", "main")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("main")

    [be_good] = comms.open_directives(PAGE)
    ended = AgentReport("0" * 32, "2026-01-31T10:42:12.345Z", "main", commit, "done: it", "I pushed it.", (be_good.id,))
    assert isinstance(ask(socket, ended), Done), door.log
    world.pm.git("fetch", "--quiet", "origin")
    page = world.pm.git("show", "origin/main:COMMS.md")
    assert f"approval wanted [{asked.id}]: bash" in page
    assert "- commits: 1 on main (1 file, +1 -0 lines)" in page
    assert "**" not in page
    again = ask(socket, Ask("bash", {"command": "touch a"}, "rule 1", "main", commit))
    assert isinstance(again, QuestionState)
    assert again.id != asked.id, "the work that asked is done"


def test_without_its_request_socket_the_door_ends(world: World) -> None:
    """Nobody could report any more; the watcher starts another one."""
    door = Door(world).opened()
    os.unlink(world.places.request_socket)
    assert door.process.wait(START_SECONDS) == Exit.OK
    assert "door.socket_gone" in door.events
    assert not os.path.exists(world.places.git_socket)
