"""The runner's end of a probe: a thread that answers with the runner's identity and the main loop's heartbeat, and that
does one real operation through each door when asked.

A main loop that hangs breaks the promise of its heartbeat; an interpreter that hangs gives no answer at all. A start is
measured, so modules that only an answer needs are imported with the first question."""

from __future__ import annotations

import os
import socket
import sys
import threading  # by the main thread: whichever imports it first is waited for at the end
import time
from collections.abc import Callable

from infra.shared.boot import Boot
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.sockets import control_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from infra.shared.control import Heartbeat, ProbeAnswer, ProbeQuestion

QUESTION_SECONDS = 1.0
"""For a question: the next caller waits behind it."""
QUESTION_BYTES = 4096
WAITING = 16
AGAIN_SECONDS = 0.1
"""After a connection that could not be taken: no descriptor was left."""
STACK_BYTES = 1 << 20
TROUBLE_CHARS = 500


class LiveHeartbeat:
    """What the main loop last said that it does, when, and for how long at most."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.beat("booting", 0.0)

    def beat(self, doing: str, seconds: float) -> None:
        """The main loop is alive; what it does now takes `seconds` at most."""
        self._last = (doing, self._monotonic(), max(0.0, seconds))  # one value: a thread reads it

    def snapshot(self) -> Heartbeat:
        from infra.shared.control import SLACK_SECONDS, Heartbeat

        doing, at, seconds = self._last
        return Heartbeat(doing, max(0.0, self._monotonic() - at), seconds + SLACK_SECONDS)


def answer_probes(boot: Boot, heart: LiveHeartbeat, question_seconds: float = QUESTION_SECONDS) -> None:
    """Answer from now on, for as long as this process lives. Raises OSError, and RuntimeError when there is no thread
    to be had."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(control_address(boot.id))
        server.listen(WAITING)
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=_serve, args=(server, boot, heart, question_seconds), daemon=True).start()
        finally:
            threading.stack_size(before)
    except BaseException:
        server.close()
        raise


def _serve(server: socket.socket, boot: Boot, heart: LiveHeartbeat, seconds: float) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            time.sleep(AGAIN_SECONDS)
            continue
        try:
            with client:
                if _may_ask(client):
                    _converse(client, boot, heart, seconds)
        except (OSError, ValueError):  # it left, or asked nothing that can be answered
            continue
        except Exception as error:  # a thread that ends would pass for a runner that hangs
            print(f"runner: a probe was not answered: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def _may_ask(client: socket.socket) -> bool:
    """Only the keep's user and our own: an abstract socket is open to everybody in its network."""
    _pid, uid, _gid = memoryview(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)).cast("i")
    return uid in (0, os.geteuid())


def _converse(client: socket.socket, boot: Boot, heart: LiveHeartbeat, seconds: float) -> None:
    """Raises OSError, ValueError."""
    from infra.shared.control import answer_line, read_question

    client.settimeout(seconds)
    client.sendall(answer_line(answer(read_question(_line(client, seconds)), boot, heart)))


def _line(client: socket.socket, seconds: float) -> bytes:
    """What is asked. Raises OSError, ValueError."""
    until = time.monotonic() + seconds
    received = b""
    while b"\n" not in received:
        if time.monotonic() > until:
            raise TimeoutError("the question has no end")
        piece = client.recv(QUESTION_BYTES)
        received += piece
        if not piece or len(received) > QUESTION_BYTES:
            raise ValueError("the question has no end")
    return received.partition(b"\n")[0]


def answer(question: ProbeQuestion, boot: Boot, heart: LiveHeartbeat, door_seconds: float | None = None) -> ProbeAnswer:
    from infra.shared.control import DOOR_SECONDS, ProbeAnswer

    seconds = DOOR_SECONDS if door_seconds is None else door_seconds

    git = model = ""
    troubles = []
    if question.doors:
        git, trouble = _tried("git door", lambda: _told_by_git(boot.remote_url, seconds))
        troubles.append(trouble)
        model, trouble = _tried("model door", lambda: _told_by_model_door(boot.places.model_socket, seconds))
        troubles.append(trouble)
    return ProbeAnswer(
        probe=question.probe,
        boot_id=boot.id,
        branch=boot.branch,
        commit=boot.commit,
        pid=os.getpid(),
        heart=heart.snapshot(),
        git=git,
        model=model,
        trouble="; ".join(filter(None, troubles)),
    )


def _tried(door: str, operation: Callable[[], str]) -> tuple[str, str]:
    """What the door told, or what went wrong."""
    try:
        return operation(), ""
    except Exception as error:  # a bug of ours in here is a trouble like any other: the answer is still due
        return "", redacted_and_cut(f"{door}: {type(error).__name__}: {error}", TROUBLE_CHARS)


def _told_by_git(origin: str, seconds: float) -> str:
    """Names of the refs for probes, as the git door lists them. Raises GitError.

    Not in the checkout: what a run does to its clone says nothing about the door."""
    from infra.cell.services.own_children import OWN_CHILDREN
    from infra.shared.control import MAX_BYTES, REFS
    from infra.shared.repository.git import Git, GitLimits

    git = Git("/", limits=GitLimits(answer_bytes=MAX_BYTES // 2))
    with OWN_CHILDREN:
        listed = git("ls-remote", "--refs", "--end-of-options", origin, f"{REFS}/*", timeout=seconds)
    return " ".join(line.rpartition("/")[2] for line in listed.splitlines())


def _told_by_model_door(path: str, seconds: float) -> str:
    """Raises OSError, and ValueError for an answer that is none."""
    from infra.shared.conversation import Probe, Probed
    from infra.shared.door import Failure, ask

    told = ask(path, Probe(), Probed, seconds)
    if isinstance(told, Failure):
        raise ValueError(told.message)
    return told.probe[:200]
