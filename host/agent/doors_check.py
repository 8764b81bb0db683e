"""For `minifram doctor`: the doors of an agent."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from host.agent.web import read_web
from host.context import Context
from host.paths import AgentPaths
from host.repository.checks import FAIL, OK, WARN, Result
from host.running.record import PODMAN, is_running, sandbox_in_use
from infra.shared.sockets import connect

DOOR_SECONDS = 3.0
_NOBODY = "nobody listens"


def check_doors(context: Context, home: AgentPaths) -> Iterator[Result]:
    """Whether the doors answer while the agent runs, and nothing else stands in their places while it does not."""
    running = is_running(home)
    if sandbox_in_use(home) == PODMAN:  # the others are in the container, and its watcher asks them
        if running:
            yield _as_told(home)
        return
    for name, path, question, expected in (
        ("git door", home.places.git_socket, b"", b"main "),
        ("model door", home.places.model_socket, b"GET /health HTTP/1.0\r\n\r\n", b"HTTP/1."),
    ):
        problem = _problem_with_door(path, question, expected)
        if running and problem:
            text = f"{path}: {problem}; its reason is in {home.doors_log}, 'minifram restart' opens it again"
            yield Result(name, FAIL, text)
        elif running:
            yield Result(name, OK, f"{path} answers")
        elif os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
            yield Result(name, FAIL, f"{path} is not a socket, and the door cannot open there; move it away")
        elif not problem or not problem.startswith(_NOBODY):
            text = f"another program listens at {path} though the agent is down; find and end it: fuser {path}"
            yield Result(name, FAIL, text)
    yield from _web_door(home, running)


def _web_door(home: AgentPaths, running: bool) -> Iterator[Result]:
    """It is not asked: that would start it."""
    path = home.places.web_socket
    if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
        yield Result("web door", FAIL, f"{path} is not a socket, and the door cannot open there; move it away")
    elif running and not os.path.lexists(path):
        yield Result("web door", WARN, f"there is no socket at {path}; the watcher makes it again within seconds")
    elif running:
        yield _as_told(home)


def _as_told(home: AgentPaths) -> Result:
    """By the watcher's log."""
    state = read_web(home, True).state
    return Result("web door", WARN if state.startswith("died") else OK, f"{state}; its words are in {home.doors_log}")


def _problem_with_door(path: str, question: bytes, expected: bytes) -> str | None:
    try:
        with connect(path, DOOR_SECONDS) as door:
            door.sendall(question)
            answer = door.recv(100)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        return f"{_NOBODY} ({error.strerror})"
    except OSError as error:
        return f"no answer within {DOOR_SECONDS:g} s ({error})"
    return None if answer.startswith(expected) else f"answered {answer[:40]!r}, expected {expected.decode()!r}"
