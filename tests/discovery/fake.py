"""A stand-in for a container engine: what it executes runs on this machine, in a directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MAIN = ROOT / "discovery/orchestrator/main.py"
SECONDS = 60.0
PRE = "<Intent>\nwhy\n\n<Command>\n{}\n\n<Expected>\nwhat\n\n<OnError>\nelse\n\n"
POST = "<Observation>\nseen\n\n<Inference>\nmeant\n\n<Next>\nnext\n\n"

ENGINE = r"""#!/bin/bash
# Its state is the files beside it: `running` while the container runs, `broken` when the engine answers nothing.
export FAKE=${0%/*/*}
[ ! -e "$FAKE/broken" ] || { echo 'Cannot connect to the daemon.' >&2; exit 125; }
word=$1
shift
case $word in
inspect)
    [ "$5" = fake ] || { echo "Error: no such container: $5" >&2; exit 125; }
    case $4 in *Image*) echo fake-image ;; *) [ -e "$FAKE/running" ] && echo true || echo false ;; esac
    ;;
exec)
    shift
    [ -e "$FAKE/running" ] || { echo 'Error: the container is not running' >&2; exit 255; }
    mkdir -p "$FAKE/home" && cd "$FAKE/home" && exec setsid --wait bash -c 'echo $$ >"$FAKE/pid"; exec "$@"' - "$@"
    ;;
start | restart)
    [ ! -e "$FAKE/gone" ] || { echo 'Error: no such container: fake' >&2; exit 125; }
    [ "$word" = start ] || kill -9 -- -"$(cat "$FAKE/pid")"
    echo "$word" >>"$FAKE/started"
    : >"$FAKE/running"
    ;;
*) echo "the stand-in knows no $word" >&2; exit 125 ;;
esac
"""
END = 'rm "$FAKE/running"; exit 137'
"""A command by which the container ends, as an engine then tells it."""


class Fake:
    """A stand-in's place, and runs of the orchestrator in it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        program = place / "bin/podman"
        program.parent.mkdir()
        program.write_text(ENGINE)
        program.chmod(0o755)
        (place / "running").touch()
        self.environ = {
            "PATH": f"{place}/bin:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": str(place),
            "AGENT_CONTAINER": "fake",
            "DISCOVERY_ENGINE": "podman",
        }

    def words(self, *words: str | Path) -> list[str]:
        return [sys.executable, str(MAIN), "--runs", str(self.place / "runs"), *map(str, words)]

    def run(self, stdin: str | bytes, *words: str | Path, code: int = 0, **environ: str) -> str:
        """The orchestrator with a text through the pipe, to its end; what it says."""
        ended = subprocess.run(
            self.words(*words),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environ | environ,
            timeout=SECONDS,
            check=False,
        )
        assert ended.returncode == code, ended.stdout.decode()
        return ended.stdout.decode()

    def begin(self, *words: str | Path, **streams: Any) -> subprocess.Popen[bytes]:
        """The same, not waited for."""
        given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(self.words(*words), env=self.environ, **(given | streams))

    @property
    def kept(self) -> Path:
        """The directory of the one run."""
        (run,) = (self.place / "runs").glob("2*")
        return run

    def lines(self, name: str = "events.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.kept / name).read_text().splitlines()]

    @property
    def commands(self) -> list[str]:
        return [event["command"] for event in self.lines() if "command" in event]

    @property
    def notes(self) -> list[str]:
        return [event["post"] for event in self.lines() if "post" in event]

    def json(self, name: str) -> Any:
        return json.loads((self.kept / name).read_text())
