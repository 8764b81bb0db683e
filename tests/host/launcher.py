"""`launcher.py PROJECT WATCHER words…`: the minifram command of PROJECT with a stand-in for the watcher.

`launcher.py --serve` makes all imports once, and forks such a command for each request (`tests/host/ready.py`)."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

import host  # noqa: E402
from host.cli import main  # noqa: E402
from host.home import Context  # noqa: E402


def served() -> list[str]:
    """Returns only in a forked command, with its words; the server ends with the socket on its stdin."""
    for each in pkgutil.walk_packages(host.__path__, "host."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
    gc.freeze()  # no command looks through all that was made before it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a command tells of its end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=os.dup(0)) as requests:
        while True:
            message, handed, _, _ = socket.recv_fds(requests, 1, 4)
            if not message:
                sys.exit(0)
            if os.fork() == 0:
                break
            for descriptor in handed:
                os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, out, err, told = handed
    if pid := os.fork():
        os.write(told, f"{pid}\n".encode())
        os.write(told, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = json.loads(os.pread(request, os.fstat(request).st_size, 0))
    for stream, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(descriptor, stream)
    for descriptor in (request, out, err, told):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(asked["environ"])
    return [str(word) for word in asked["words"]]


if __name__ == "__main__":
    project, watcher, *words = served() if sys.argv[1:] == ["--serve"] else sys.argv[1:]
    if "LAUNCH_WITH_FILES_OF_AT_MOST" in os.environ:  # bytes; what a full disk does to whoever writes
        most = int(os.environ["LAUNCH_WITH_FILES_OF_AT_MOST"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    program = (sys.executable, "-s", "-P", str(HERE / "stand_in.py"), watcher)
    agent = os.environ.get("MINIFRAM_AGENT") or "agent"
    network = os.environ.get("LAUNCH_WITH_NETWORK", "")
    sys.exit(main(words, Context(dict(os.environ), os.getuid(), project, program, agent, network)))
