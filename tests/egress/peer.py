"""Processes that are told what to do by lines of JSON on stdin and answer on stdout: how the tests reach into the
namespaces they made. A process ends when its stdin does."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]


class PeerError(Exception):
    """What the other process could not do, with its traceback."""


def serve(calls: Mapping[str, Callable[..., Any]], asked: IO[str] = sys.stdin, told: IO[str] = sys.stdout) -> None:
    """Answer until the other side closes. A failure is an answer too: its traceback belongs to who asked."""
    for line in asked:
        wanted = json.loads(line)
        try:
            reply = {"value": calls[wanted["call"]](**wanted["with"])}
        except Exception:
            reply = {"error": traceback.format_exc()}
        told.write(json.dumps(reply) + "\n")
        told.flush()


def methods_of(one: object) -> dict[str, Callable[..., Any]]:
    """What it can be told to do."""
    return {name: getattr(one, name) for name in dir(type(one)) if not name.startswith("_")}


def ask(to: IO[str], back: IO[str], call: str, words: Mapping[str, Any]) -> Any:
    """Raises PeerError."""
    to.write(json.dumps({"call": call, "with": words}) + "\n")
    to.flush()
    line = back.readline()
    if not line:
        raise PeerError(f"the process ended during {call}{dict(words)}")
    reply = json.loads(line)
    if "error" in reply:
        raise PeerError(f"{call}{dict(words)}: {reply['error']}")
    return reply["value"]


FRUGAL = {"MALLOC_ARENA_MAX": "2"}
"""There is a thread for each listener, and addresses may be limited (`ulimit -v`); so their stacks are small, too."""
STACK_BYTES = 1 << 18


class Peer:
    """A program that was started with such pipes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    @property
    def pipes(self) -> tuple[IO[str], IO[str]]:
        if self.process.stdin is None or self.process.stdout is None:
            raise AssertionError("unreachable: both are pipes")
        return self.process.stdin, self.process.stdout

    def ask(self, call: str, **words: Any) -> Any:
        return ask(*self.pipes, call, words)

    def end(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def begun(command: list[str], errors: Path) -> Peer:
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"} | FRUGAL
    pipe = subprocess.PIPE
    with errors.open("ab") as stderr:
        return Peer(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, cwd=ROOT, env=environ))
