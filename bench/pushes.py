"""The same new commit pushed in several ways, one after another: `DIRECTORY ORIGIN [DAEMON]`.

Run on the host (`python -m bench.pushes`), and as a text in the sealed container, which has this project's `infra` and
not its bench. Whatever is pushed to lies on the same file system, is a copy of ORIGIN and has an agent's settings;
DAEMON is the address of a git door that runs already, without it there is one of our own. Each line on stdin, a size
and a number, is answered with what each way took, in seconds; the number says which is the first."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from infra.keep.git_door import daemon
from infra.keep.git_door.door_files import write_door_files
from infra.keep.services.children import dies_with_us
from infra.shared.paths import Paths
from infra.shared.repository.bare_config import SETTINGS
from infra.shared.settings import Settings

BRANCH = "bench"
SIZES = {"small": (1, 1), "large": (200, 100)}
"""Files of a commit, and lines of a file."""
LINE = "the quick brown fox writes line {} of a file for push {}\n"


def main(directory: str, origin: str, running: str = "") -> None:
    """Until the end of stdin."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    work = f"{directory}/work"
    git("clone", "--quiet", origin, work)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, directory)
        places = {name: placed(directory, name, work) for name in ("direct", "path", "plain", "daemon")}
        write_door_files(places["path"], Settings())
        plain, port = places["plain"], free_port()
        served = [
            *("git", "daemon", "--listen=127.0.0.1", f"--port={port}", "--base-path=" + os.path.dirname(plain.remote)),
            *("--export-all", "--enable=receive-pack", "--reuseaddr"),
        ]
        cleanup.enter_context(serving(served, port, environment()))
        if not running:
            door, door_port = places["daemon"], free_port()
            write_door_files(door, Settings(), by_daemon=True)
            env = daemon.environment(door, Settings().limits.blob_bytes)
            cleanup.enter_context(serving(daemon.command(door, door_port), door_port, env))
            running = daemon.url(door, door_port)
        ways = {
            "direct": [places["direct"].remote],
            "plain daemon": [f"git://127.0.0.1:{port}/{os.path.basename(plain.remote)}"],
            "path door": [f"--receive-pack={places['path'].var}/door/receive-pack", places["path"].remote],
            "daemon door": [running],
        }
        for line in sys.stdin:
            size, number = line.split()
            commit(work, size, int(number))
            by = int(number) % len(ways)
            names = [*list(ways)[by:], *list(ways)[:by]]
            print(json.dumps({name: push_seconds(work, ways[name]) for name in names}), flush=True)


def placed(directory: str, name: str, work: str) -> Paths:
    """A bare repository with the settings of an agent's, and places for a door before it."""
    place = f"{directory}/{name}"
    os.makedirs(f"{place}/bot")
    remote = f"{place}/{name}.git"
    git("clone", "--quiet", "--bare", work, remote)
    for key, value in SETTINGS:
        git("-C", remote, "config", key, value)
    return Paths(f"{place}/bot", remote, f"{place}/run", f"{place}/var")


def commit(work: str, size: str, number: int) -> None:
    """What no repository has yet."""
    files, lines = SIZES[size]
    os.makedirs(f"{work}/bench-notes", exist_ok=True)
    for file in range(files):
        with open(f"{work}/bench-notes/{size}-{file}.md", "w") as output:
            output.writelines(LINE.format(line, number * 1000 + file) for line in range(lines))
    git("-C", work, "add", "--all")
    git("-C", work, "commit", "--quiet", "--message", f"push {number} of the bench")


def push_seconds(work: str, where: list[str]) -> float:
    began = time.perf_counter()
    git("-C", work, "push", "--quiet", *where, f"HEAD:refs/heads/{BRANCH}")
    return time.perf_counter() - began


def git(*words: str) -> None:
    """Raises RuntimeError with what git said."""
    done = subprocess.run(["git", *words], env=environment(), capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"git {' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")


def environment() -> dict[str, str]:
    # The git door takes commits of the agent alone. Here in words: this file also runs where the project is not.
    agent = {"NAME": "minifram agent", "EMAIL": "agent@minifram.invalid"}
    names = {f"GIT_{role}_{what}": word for role in ("AUTHOR", "COMMITTER") for what, word in agent.items()}
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"} | names | alone


@contextlib.contextmanager
def serving(command: list[str], port: int, env: dict[str, str]) -> Iterator[None]:
    """On the process's own loopback, for as long as it lasts. Raises TimeoutError."""
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(dies_with_us(command), env=env, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"{command[0]} does not answer on port {port}")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
