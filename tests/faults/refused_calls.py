"""A process whose calls to the kernel fail or take long for a while, by strace(1), which comes and goes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.keep.supervision.agents import within

FORKS = "fork,vfork,clone,clone3"


def _strace() -> str:
    found = shutil.which("strace")
    assert found, "strace(1), which has calls fail, is not installed: apt-get install strace"
    return found


def injected(calls: str, fault: str) -> list[str]:
    """Words before a command: it is the same process, and these calls of it and its children meet the fault."""
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]
    return [_strace(), "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *inject]


@contextmanager
def injecting(pid: int, calls: str, fault: str) -> Iterator[None]:
    """The calls of this running process, and of none of its children, meet the fault."""
    words = [_strace(), "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]
    tracer = subprocess.Popen([*words, "-p", str(pid)], stderr=subprocess.PIPE, text=True)

    def is_traced() -> bool:
        if tracer.poll() is not None:
            pytest.fail(f"no process can be traced here: {tracer.communicate()[1].strip()}")
        with open(f"/proc/{pid}/status") as file:
            return f"TracerPid:\t{tracer.pid}\n" in file

    within(30.0, is_traced, "the tracer")
    try:
        yield
    finally:
        tracer.terminate()
        tracer.communicate()
