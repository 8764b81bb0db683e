"""Runners of a few lines, put together from pieces: one that serves as a runner has to (it answers probes and leaves
when it is ordered to), some that are bad in one way each, and one that only goes from boot to boot.

All of them stamp their first statement before anything else; what they need later is imported later."""

from __future__ import annotations

from pathlib import Path

from bench.stamps import FIRST_LINE
from infra.shared.paths import Paths

_START = """
import json
import os

OUT = os.open(FIFO, os.O_WRONLY)


def stamp(word, now):
    os.write(OUT, b"%s %d %d\\n" % (word, now, os.getpid()))


stamp(b"first", NOW)
BOOT = json.loads(os.environ["MINIFRAM_BOOT"])


def say(*words):
    os.makedirs("logs", exist_ok=True)
    with open("logs/bootstrap.log", "a") as log:
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        for word in words:
            log.write(f"{at} {word} {BOOT['branch']} {BOOT['commit']} {BOOT['id']}\\n")


def leave_for(branch):
    beside = SIGNALS + "/.beside"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, branch)
    os.fsync(descriptor)
    os.close(descriptor)
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.rename(beside, SIGNALS + "/bootstrap")
    stamp(b"signal", now)
    os._exit(0)
"""

_ANSWERS = """
def told_by_git():
    import subprocess

    words = ["git", "ls-remote", "--refs", BOOT["remote_url"], "refs/minifram/probe/*"]
    listed = subprocess.run(words, capture_output=True, text=True, timeout=4).stdout
    return " ".join(line.rpartition("/")[2] for line in listed.splitlines())


def told_by_model_door():
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(4)
        door.connect(MODEL_SOCKET)
        door.sendall(b"GET /v1/probe HTTP/1.0\\r\\nHost: model-door\\r\\n\\r\\n")
        received = b"".join(iter(lambda: door.recv(65536), b""))
    return json.loads(received.partition(b"\\r\\n\\r\\n")[2])["probe"]


def answer(client):
    client.settimeout(1)
    asked = json.loads(client.makefile().readline())
    heart = {"doing": "serving", "age": 0, "within": 60}
    said = {"probe": asked["probe"], "boot_id": BOOT["id"], "pid": os.getpid(), "heart": heart, "git": "", "model": ""}
    said |= {name: BOOT[name] for name in ("branch", "commit")}
    if asked["doors"]:
        try:
            said |= {"git": told_by_git(), "model": told_by_model_door()}
        except OSError as error:  # the watcher and its doors have only just begun; it asks again
            said["trouble"] = str(error)
    client.sendall(json.dumps(said).encode() + b"\\n")
    client.close()
    return bool(said["model"])


import socket

CONTROL = socket.socket(socket.AF_UNIX)
CONTROL.bind("\\0minifram-" + BOOT["id"])
CONTROL.listen(16)
say("BOOTSTRAPPING", "SUCCESS")
"""

_SERVES = """
import select

ORDERED = os.open(ORDERS, os.O_RDONLY)
ORDER = b""
while True:
    for ready in select.select([ORDERED, CONTROL], [], [])[0]:
        if ready is CONTROL:
            answer(CONTROL.accept()[0])
            continue
        ORDER += os.read(ORDERED, 4096)
        if ORDER.endswith(b"\\n"):
            leave_for(ORDER)
"""
"""Waits for the name of a branch in a FIFO, signals it and leaves at once."""

_HOPS = """
while not answer(CONTROL.accept()[0]):
    pass
leave_for(b"main\\n")
"""

_DIES = """
import signal

while not answer(CONTROL.accept()[0]):
    pass
stamp(b"wrong", time.clock_gettime_ns(time.CLOCK_MONOTONIC))
os.kill(os.getpid(), signal.SIGKILL)
"""

SERVES = _START + _ANSWERS + _SERVES
HOPS = _START + _ANSWERS + _HOPS
"""Is asked through both doors, as each boot is, and makes way for main again."""

BAD = {
    "cannot be imported": _START + "import no_such_module\n",
    "ends at once with status 0": _START + 'say("BOOTSTRAPPING")\n',
    "dies once it was asked": _START + _ANSWERS + _DIES,
    "says SUCCESS and answers nobody": _START + 'say("BOOTSTRAPPING", "SUCCESS")\ntime.sleep(600)\n',
}
"""Ways to be bad. The last one's word is worth nothing: it is ended when the time for its boot is up."""


def program(body: str, places: Paths, stamps: Path, orders: Path, number: int = 0) -> str:
    """The text of a runner; `number` makes another version of the same."""
    names = {"FIFO": str(stamps), "ORDERS": str(orders), "SIGNALS": places.signals, "MODEL_SOCKET": places.model_socket}
    given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    return f"{FIRST_LINE}{given}VERSION = {number}\n{body}"
