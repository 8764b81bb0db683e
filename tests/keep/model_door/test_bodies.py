"""What a hostile cell may do to the model door with connections: many, slow, silent and large ones."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.keep.model_door.bodies import HELD_BYTES, MAX_CALLS, RECEIVING_BYTES, Calls, weight_of
from infra.keep.model_door.incoming import MAX_BYTES, read_request
from infra.keep.model_door.model import CallFailure
from infra.keep.serving import MAX_CONNECTIONS
from infra.shared.conversation import to_plain
from infra.shared.sockets import connect
from tests.keep.model_door.doors import DEADLINE_SECONDS, ROOT, DoorProcess, a_request

HEAD = b"POST /v1/complete HTTP/1.1\r\nhost: door\r\ncontent-length: %d\r\n\r\n"
MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorProcess]:
    """One for all: it has to bear what one test after the other does to it."""
    with DoorProcess(tmp_path_factory.mktemp("door"), {}) as started:
        yield started


@pytest.fixture
def hostile() -> Iterator[Callable[..., socket.socket]]:
    """Open connections that send what they are told; closed afterwards."""
    with contextlib.ExitStack() as opened:

        def begin(path: str, *parts: bytes) -> socket.socket:
            one = opened.enter_context(contextlib.closing(connect(path, DEADLINE_SECONDS)))
            with contextlib.suppress(OSError):  # it may have been put out
                for part in parts:
                    one.sendall(part)
            return one

        yield begin


def answer_on(one: socket.socket) -> tuple[int, dict[str, Any]] | None:
    """None when the connection was ended without one."""
    response = http.client.HTTPResponse(one)
    try:
        response.begin()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException):
        return None


def memory_of(door: DoorProcess) -> int:
    assert door.process is not None
    found: int = psutil.Process(door.process.pid).memory_info().rss
    return found


def test_large_requests_that_never_end_fill_no_memory(door: DoorProcess, hostile: Callable[..., socket.socket]) -> None:
    """All connections send 32 MiB less a byte and wait: the door's memory has a bound, an honest call of 1 MiB is
    answered while they are there, and those that went are told why."""
    large = b"x" * (MAX_BYTES - 1)
    before, most = memory_of(door), 0
    asked = []
    for _ in range(MAX_CONNECTIONS - 1):
        asked.append(hostile(door.places.model_socket, HEAD % MAX_BYTES, large))
        most = max(most, memory_of(door))
    assert door.complete(a_request("x" * MEBIBYTE)).stop_reason
    assert most - before < RECEIVING_BYTES * 1.5
    assert most - before > RECEIVING_BYTES * 0.5, "the control: they are there"
    status, error = answer_on(asked[0]) or (0, {})
    assert (status, error["error"]["type"], error["error"]["retry_after_seconds"]) == (503, "unavailable", 1.0)
    assert "128 MiB of requests" in error["error"]["message"]


def test_silent_connections_keep_nobody_out(door: DoorProcess, hostile: Callable[..., socket.socket]) -> None:
    """More connections than there may be, each with a few bytes: the oldest go, and a call is answered at once."""
    silent = [hostile(door.places.model_socket, b"POST ") for _ in range(MAX_CONNECTIONS)]
    slow = [hostile(door.places.model_socket, HEAD % 100, b"{") for _ in range(MAX_CONNECTIONS)]
    assert door.complete().stop_reason
    assert door.get("/health")["status"] == "ok"
    assert answer_on(silent[0]) is None, "the first one was ended"
    slow[-1].sendall(b'"' + b" " * 98)
    assert (answer_on(slow[-1]) or (0, {}))[0] == 400, "the control: the last one is heard to its end"


def test_an_attack_without_rest_keeps_nobody_out(door: DoorProcess) -> None:
    """Eight threads open, send 4 MiB and begin again: honest calls are answered all the while."""
    enough = threading.Event()
    sent: list[int] = []

    def attack() -> None:
        opened: list[socket.socket] = []
        while not enough.is_set():
            opened.append(connect(door.places.model_socket, DEADLINE_SECONDS))
            with contextlib.suppress(OSError):
                opened[-1].sendall(HEAD % MAX_BYTES + b"x" * (4 * MEBIBYTE))
                sent.append(1)
            if len(opened) > MAX_CONNECTIONS // 8:
                opened.pop(0).close()
        for one in opened:
            one.close()

    attackers = [threading.Thread(target=attack) for _ in range(8)]
    for attacker in attackers:
        attacker.start()
    try:
        for _ in range(10):
            assert door.complete(a_request("x" * 100_000)).stop_reason
    finally:
        enough.set()
        for attacker in attackers:
            attacker.join(DEADLINE_SECONDS)
    assert len(sent) > 8


HALVES = """
import socket, sys, threading
def halves():
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(sys.argv[1])
                one.sendall(b"POST /v1/complete HTTP/1.1\\r\\nhost: d\\r\\ncontent-length: 100\\r\\n\\r\\n" + b"x" * 50)
        except OSError:
            pass
for _ in range(6):
    threading.Thread(target=halves, daemon=True).start()
print(flush=True)
sys.stdin.read()
"""
HOARD = """
import socket, sys
kept, head = [], b"POST /v1/complete HTTP/1.1\\r\\nhost: d\\r\\ncontent-length: 31000000\\r\\n\\r\\n"
for _ in range(6):
    kept.append(socket.socket(socket.AF_UNIX))
    kept[-1].connect(sys.argv[1])
    try:
        kept[-1].sendall(head + b"x" * 30_900_000)
    except OSError:
        pass
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def others() -> Iterator[Callable[..., None]]:
    """Start a process that does something hostile, and wait until it says that it does."""
    with contextlib.ExitStack() as started:

        def begin(program: str, path: str) -> None:
            words = [sys.executable, "-c", program, path]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            started.enter_context(process)
            started.callback(process.kill)
            assert process.stdout
            process.stdout.readline()

        yield begin


def test_half_requests_that_are_given_up_at_once_keep_nobody_out(
    door: DoorProcess, others: Callable[..., None]
) -> None:
    """Fault: six threads connect, send half a request and close, without rest; expected: each honest call is answered
    at its first try."""
    others(HALVES, door.places.model_socket)
    for _ in range(20):
        assert door.complete(a_request("x" * 100_000)).stop_reason


def test_who_takes_the_most_gives_up_first(
    door: DoorProcess, hostile: Callable[..., socket.socket], others: Callable[..., None]
) -> None:
    """Fault: another process sends more halves of requests than there is room for; expected: its own are put out, and
    not the one that came before all of them."""
    honest = hostile(door.places.model_socket, HEAD % 100, b"{")
    others(HOARD, door.places.model_socket)
    honest.sendall(b'"' + b" " * 98)
    assert (answer_on(honest) or (0, {}))[0] == 400, "it is heard to its end"


def test_the_calls_that_are_made_are_not_put_out(tmp_path: Path, hostile: Callable[..., socket.socket]) -> None:
    """A request that is whole has its answer, however many come after it."""
    (tmp_path / "script.yaml").write_text(
        'scenes: [{name: s, when: {directive: "slow"}, replies: [{text: "At last.", delay_seconds: 1}]}]'
    )
    with DoorProcess(tmp_path, {"model": {"provider": "scripted", "name": "script.yaml"}}) as door:
        body = json.dumps(to_plain(a_request("slow"))).encode()
        call = hostile(door.places.model_socket, HEAD % len(body), body)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(door.open_calls()) != 1:
            assert time.monotonic() < deadline
        for _ in range(2 * MAX_CONNECTIONS):
            hostile(door.places.model_socket, b"POST ")
        assert (answer_on(call) or (0, {}))[0] == 200


# --- time, with a door that has little of it


def _answers(path: str) -> bool:
    """Its socket is there a moment before anybody listens."""
    try:
        connect(path, DEADLINE_SECONDS).close()
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


@pytest.fixture
def patient() -> Iterator[str]:
    """The socket of a door that waits half a second, and takes 1 MiB at once."""
    with tempfile.TemporaryDirectory(prefix="door-") as directory:
        path = f"{directory}/socket"
        words = [sys.executable, "-m", "tests.keep.model_door.patient_door", path, "0.5", str(MEBIBYTE)]
        process = subprocess.Popen(words, cwd=ROOT, env={"PATH": os.environ["PATH"]})
        try:
            deadline = time.monotonic() + DEADLINE_SECONDS
            while not _answers(path):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield path
        finally:
            process.kill()
            process.wait()


def test_a_request_is_whole_in_time_or_not_taken(patient: str, hostile: Callable[..., socket.socket]) -> None:
    """One that dribbles is told so when its time is over; one that is quick is answered."""
    slow = hostile(patient, HEAD.replace(b"/v1/complete", b"/") % 1000, b"x")
    quick = hostile(patient, HEAD.replace(b"/v1/complete", b"/") % 1000, b"x" * 1000)
    assert answer_on(quick) == (200, {"size": 1000})
    with contextlib.suppress(OSError):
        for _ in range(999):
            slow.sendall(b"x")
            time.sleep(0.01)
    status, error = answer_on(slow) or (0, {})
    assert (status, error["error"]["type"]) == (503, "unavailable")
    assert "not whole after 0.5 s" in error["error"]["message"]


@pytest.mark.parametrize("sent", [b"", b"POST / HT", HEAD.replace(b"/v1/complete", b"/") % 4 + b"abcd"])
def test_a_connection_that_stays_is_ended(patient: str, hostile: Callable[..., socket.socket], sent: bytes) -> None:
    """Silent before its request, and after the answer, which is read in the second place."""
    one = hostile(patient, sent)
    one.settimeout(DEADLINE_SECONDS)
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := one.recv(1000):
            said += part
    assert (b'{"size":4}' in said) == sent.endswith(b"abcd")


def test_who_takes_the_longest_goes_first(patient: str, hostile: Callable[..., socket.socket]) -> None:
    """Where memory is short, the oldest request is put out, and the newer one taken."""
    head = HEAD.replace(b"/v1/complete", b"/") % 900_000
    old = hostile(patient, head, b"x" * 800_000)
    new = hostile(patient, head, b"x" * 900_000)
    assert answer_on(new) == (200, {"size": 900_000})
    assert "1 MiB of requests" in (answer_on(old) or (0, {}))[1]["error"]["message"]


# --- what is being answered


def test_calls_have_a_number_and_a_weight() -> None:
    """One more than there is room for is refused, and room that was given back is room again."""
    calls = Calls(most_bytes=100, most=2)
    with calls.room_for(60):
        with pytest.raises(CallFailure, match="1 calls are under way") as caught, calls.room_for(41):
            pass
        assert (caught.value.type, caught.value.retry_after_seconds) == ("unavailable", 1.0)
        with calls.room_for(40), pytest.raises(CallFailure, match="2 calls are under way"), calls.room_for(0):
            pass
    with calls.room_for(100):
        pass
    with pytest.raises(CallFailure, match="make it shorter") as caught, calls.room_for(101):
        pass
    assert caught.value.type == "context_overflow"
    assert MAX_CALLS < MAX_CONNECTIONS, "there is always a connection that can be ended"


@pytest.mark.parametrize(
    "value", ["[]", "{}", '"ab"', "1.5", '{"":1}', "[[[[[[[[]]]]]]]]"], ids=lambda value: value[:8]
)
def test_a_request_takes_no_more_memory_than_it_weighs(value: str) -> None:
    """Many small values are weighed as what they become, not as what they are written in."""
    count = 100_000
    body = (
        '{"system":["s"],"tools":[],"messages":[{"role":"user","content":[{"type":"text","text":"x"}]},'
        '{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{"a":['
        + ",".join([value] * count)
        + "]}}]}]}"
    ).encode()
    program = """if True:
        import sys
        from infra.keep.model_door.incoming import read_request
        body = sys.stdin.buffer.read()
        def most():
            return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
        before = most()
        read_request(body)
        print((most() - before) * 1024)
    """
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, input=body, capture_output=True, check=True)
    assert count < int(done.stdout) < weight_of(body)


def test_a_long_conversation_has_room() -> None:
    """The control: a million tokens of text and code are far below the limit."""
    text = "if (a[0], b[1]): {call(x, y)}  # and some words of an ordinary kind beside it\n" * 50_000
    body = json.dumps(to_plain(a_request(text))).encode()
    assert len(body) > 3_500_000
    assert weight_of(body) < HELD_BYTES / 2
    assert read_request(body)
