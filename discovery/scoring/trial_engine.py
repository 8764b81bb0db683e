"""Runs one line of bash in a fresh container without a network, with a bound on time and output; nothing stays."""

from __future__ import annotations

import os
import re
import secrets
import selectors
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

OUTPUT_BYTES = 1 << 20
STARTING_SECONDS = 60.0
"""For the engine, beside the time that the line has."""
CALL_SECONDS = 60.0
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,255}")
ENGINES = ("docker", "podman")
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
_READY = b"ready\n"
_SCRIPT = 'tar -xf - -C /home/agent && echo ready && exec timeout -s KILL {seconds:d} /bin/bash -lc "$1" </dev/null'
"""The tar is made by the scorer from what it read itself; it ends before the line begins. What stands before `ready` is
no word of the tool."""


class NoEngine(Exception):
    """No container can be run; the text says why, and what to do."""


@dataclass(frozen=True)
class Ended:
    """`exit_code` is None when the line was ended: it took too long or printed too much."""

    exit_code: int | None
    stdout: bytes
    told: str


@dataclass(frozen=True)
class Engine:
    """Docker or Podman, and the image in which tools are tried."""

    program: str
    image: str

    @staticmethod
    def find(program: str | None, image: str | None) -> Engine:
        """`program` is a name on PATH or a path; without it docker if it is installed, else podman. Raises NoEngine."""
        found = next((name for name in ([program] if program else ENGINES) if shutil.which(name)), None)
        if found is None:
            named = f"there is no program {program}" if program else "neither docker nor podman is on PATH"
            raise NoEngine(
                f"{named}. Install one of them, name another by --engine, or leave the tools out: --no-tools"
            )
        if not image:
            raise NoEngine("the run names no image. Name the one that its container was made from by --image")
        if not IMAGE.fullmatch(image):
            raise NoEngine(f"{image[:80]!r} is no name of an image. Name one by --image")
        engine = Engine(found, image)
        ended = engine._call("image", "inspect", image)
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise NoEngine(
                f"{found} has no image {image} ({said[:200]}). Build it: {found} compose up -d --build in discovery/, "
                "or name one by --image"
            )
        return engine

    def run(self, world: Path, home_tar: Path, line: str, seconds: int) -> Ended:
        """The line, in the agent's home with what is in the tar, and /world. Raises NoEngine."""
        name = f"discovery-trial-{os.getpid()}-{secrets.token_hex(8)}"
        script = _SCRIPT.format(seconds=seconds)
        words = [
            *(self.program, "run", "--rm", "--interactive", "--name", name, "--network", "none", "--pull", "never"),
            *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
            *("--pids-limit", "256", "--memory", "512m", "--ulimit", f"nproc={_processes()}:{_processes()}"),
            *("--ulimit", f"fsize={1 << 28}:{1 << 28}", "--volume", f"{world}:/world:ro", "--workdir", "/home/agent"),
            *("--entrypoint", "/bin/bash", self.image, "-c", script, "trial", line),
        ]
        try:
            with (
                open(home_tar, "rb") as tar,
                subprocess.Popen(
                    words,
                    stdin=tar,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=_environment(),
                    start_new_session=True,  # Ctrl-C is the scorer's, which ends what it began
                ) as process,
            ):
                whole = False
                try:
                    output, told = _read(process, seconds + STARTING_SECONDS)
                    whole = not told
                finally:
                    if not whole:
                        process.kill()
                        self._call("rm", "--force", name)
        except OSError as error:
            raise NoEngine(f"{self.program} cannot be run: {error.strerror}") from None
        if not told and not output.startswith(_READY):
            raise NoEngine(
                f"{self.program} could not start a container of the image {self.image}, or it has no /home/agent that "
                "its user can write. Name another image by --image"
            )
        output = output[len(_READY) :]
        if process.returncode == 137 and not told:
            told = f"it was ended after {seconds} s"
        return Ended(None if told else process.returncode, output, told or f"it ended with {process.returncode}")

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self.program, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=CALL_SECONDS,
                env=_environment(),
                start_new_session=True,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoEngine(f"{self.program} does not answer: {error}. Or leave the tools out: --no-tools") from None


def _read(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, str]:
    """What it prints, and why it has to be ended; "" when it ended by itself."""
    stream = process.stdout
    if stream is None:
        return b"", "its output cannot be read"
    deadline, parts, size = time.monotonic() + seconds, [], 0
    with selectors.DefaultSelector() as ready:
        ready.register(stream, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not ready.select(left):
                continue
            part = os.read(stream.fileno(), 1 << 16)
            if not part:
                break
            parts.append(part)
            size += len(part)
            if size > OUTPUT_BYTES:
                return b"", f"it printed more than {OUTPUT_BYTES} bytes"
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return b"", f"it did not end within {seconds:g} s"
    return b"".join(parts), ""


def _environment() -> dict[str, str]:
    """Podman hands the proxies of its caller on into containers; a tool has no use for them."""
    return {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}


def _processes() -> int:
    """As docker-compose.yml bounds them."""
    text = os.environ.get("DISCOVERY_PROCESSES", "")
    return int(text) if text.isascii() and text.isdecimal() and text else 4096
