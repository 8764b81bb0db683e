"""The container engine, Docker or Podman, by its command: containers are looked at, started again and copied from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

ENGINES = ("docker", "podman")
CALL_SECONDS = 60.0
COPY_SECONDS = 120.0
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
HERE = Path(__file__).resolve().parents[1]
"""The folder with docker-compose.yml."""


class EngineError(Exception):
    """The engine, its image or its container is not as needed: what, and what to do about it."""

    exit_code = 4


class NoEngine(EngineError):
    """There is no engine, or it does not answer."""

    exit_code = 3


@dataclass(frozen=True)
class Container:
    """What the engine tells of a container. The places are the host's; None when there is no such mount."""

    name: str
    image: str
    running: bool
    world: Path | None
    home: Path | None


@dataclass(frozen=True)
class Engine:
    """The command that speaks to the engine."""

    program: str

    @staticmethod
    def find(environ: Mapping[str, str]) -> Engine:
        """The one that DISCOVERY_ENGINE names; else Docker when it is installed; else Podman. Raises NoEngine."""
        wanted = environ.get("DISCOVERY_ENGINE", "")
        found = next((name for name in ([wanted] if wanted else ENGINES) if shutil.which(name)), None)
        if found is None:
            raise NoEngine(
                f"DISCOVERY_ENGINE is {wanted!r}, and there is no such program. Set it to docker or podman."
                if wanted
                else "there is no container engine: neither docker nor podman is on PATH. Install one of them, "
                "or name its program in DISCOVERY_ENGINE."
            )
        return Engine(found)

    @property
    def compose(self) -> str:
        """What the operator types to make the container."""
        return "podman-compose" if Path(self.program).name == "podman" else "docker compose"

    def call(self, *words: str, seconds: float = CALL_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run the engine to its end, whatever that is. Raises NoEngine when it cannot be run or does not end."""
        try:
            return subprocess.run(
                [self.program, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                start_new_session=True,  # Ctrl-C is this program's, which ends what it began
                check=False,
            )
        except OSError as error:
            raise NoEngine(f"{self.program} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise NoEngine(
                f"'{self.program} {words[0]}' did not end within {seconds:g} s; is the engine well?"
            ) from None

    def look(self, name: str) -> Container:
        """Raises EngineError when there is no such container, NoEngine when the engine does not answer."""
        check_name(name)
        ended = self.call("inspect", "--type", "container", name)
        if ended.returncode:
            said = last_line(ended.stderr)
            if "no such" in said.lower():
                raise EngineError(
                    f"there is no container {name}. Make it: cd {HERE} && {self.compose} up -d --build "
                    "(AGENT_CONTAINER names another)"
                )
            other = " DISCOVERY_ENGINE=podman chooses Podman." if Path(self.program).name == "docker" else ""
            raise NoEngine(f"{self.program} does not answer: {said} Is it started, and may you use it?{other}")
        try:
            return _container(name, json.loads(ended.stdout)[0])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise NoEngine(f"'{self.program} inspect {name}' says what is not understood: {error!r}") from None

    def start(self, name: str) -> None:
        """Raises EngineError."""
        self._must("start", name)

    def restart(self, name: str) -> None:
        """End everything in the container, and start it again. Raises EngineError."""
        self._must("restart", "-t", "0", name)

    def remove(self, name: str, volume: str) -> None:
        """End a container and remove it with its volume, as far as they are there."""
        self.call("kill", name)  # else Podman waits for bash to end, which ignores what it is told
        self.call("rm", "-f", name)
        self.call("volume", "rm", "-f", volume)

    def copy(self, name: str, path: str, file: IO[bytes], limit: int) -> int:
        """Write a tar of what lies at `path` in the container, at most `limit` bytes of it; how many there were, or
        more than `limit` when that was not all. Raises EngineError."""
        words = [self.program, "cp", f"{name}:{path}", "-"]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            stream, written = cast(IO[bytes], process.stdout), 0
            late = threading.Timer(COPY_SECONDS, process.kill)
            late.start()
            try:
                while written <= limit and (part := stream.read(1 << 16)):
                    file.write(part[: limit - written])
                    written += len(part)
            finally:
                late.cancel()
            if written > limit:
                process.kill()
                return written
        if process.returncode:
            raise EngineError(f"{path} could not be copied out of {name}: exit code {process.returncode}")
        return written

    def _must(self, *words: str) -> None:
        ended = self.call(*words)
        if ended.returncode:
            raise EngineError(f"'{self.program} {' '.join(words)}' failed: {last_line(ended.stderr)}")


def check_name(name: str) -> None:
    """Raises EngineError for what is no container's name."""
    if not NAME.fullmatch(name):
        raise EngineError(f"AGENT_CONTAINER is {name!r}; a container's name has letters, digits and _ . - only")


def last_line(text: str) -> str:
    """The last line that an engine said: the lines before are warnings."""
    return (text.strip().splitlines() or ["(it said nothing)"])[-1]


def _container(name: str, told: dict[str, Any]) -> Container:
    mounts = {mount["Destination"]: Path(mount["Source"]) for mount in told.get("Mounts") or []}
    return Container(
        name,
        str(told["Config"]["Image"]),
        bool(told["State"]["Running"]),
        mounts.get("/world"),
        mounts.get("/home/agent"),
    )
