"""A stand-in for a container engine: what it executes runs on this machine, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAIN = ROOT / "discovery/orchestrator/main.py"
NAME = "fake"
SECONDS = 60.0

ENGINE = r"""#!/bin/bash
# Its state is the files beside it: `running` when the container runs, `broken` when the engine answers nothing.
export FAKE=${0%/*/*}
[ ! -e "$FAKE/broken" ] || { echo 'Cannot connect to the daemon.' >&2; exit 125; }
word=$1
shift
case $word in
inspect)
    [ "$3" = fake ] || grep -qs -e "--name $3 " "$FAKE/made" || { echo "Error: no such container: $3" >&2; exit 125; }
    [ -e "$FAKE/running" ] && running=true || running=false
    mounts=$(cat "$FAKE/mounts")
    printf '[{"Config": {"Image": "fake-image"}, "State": {"Running": %s}, "Mounts": [%s]}]' $running "$mounts"
    ;;
exec)
    while [ "$1" = -e ]; do export "$2"; shift 2; done
    shift
    if [ ! -e "$FAKE/running" ]; then
        echo 'Error: can only create exec sessions on running containers: container state improper' >&2
        exit 255
    fi
    # A session of its own, as in a container: what is ended by its session is never this machine's.
    mkdir -p "$FAKE/home" && cd "$FAKE/home" && exec setsid --wait "$@"
    ;;
start | restart)
    [ ! -e "$FAKE/gone" ] || { echo 'Error: no such container: fake' >&2; exit 125; }
    echo "$word" >>"$FAKE/started"
    : >"$FAKE/running"
    ;;
image) [ "$2" = fake-image ] || exit 125 ;;
run) : >"$FAKE/running"; rm -rf "$FAKE/home"; printf '%s\n' "$*" >>"$FAKE/made" ;;
cp) tar -C "$FAKE" -cf - home ;;
rm) printf '%s\n' "$*" >>"$FAKE/removed" ;;
volume) printf 'volume %s\n' "$*" >>"$FAKE/removed" ;;
*) echo "the stand-in knows no $word" >&2; exit 125 ;;
esac
"""
END = 'rm "$FAKE/running"; exit 137'
"""A command by which the container ends, as an engine then tells it."""


def wait_for(path: Path) -> None:
    """Until there is such a file."""
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.01)


class Fake:
    """A container that is none, and runs of the orchestrator in it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        program = place / "bin/podman"
        program.parent.mkdir()
        program.write_text(ENGINE)
        program.chmod(0o755)
        shutil.copytree(ROOT / "discovery/world", place / "world")
        (place / "mounts").write_text(f'{{"Destination": "/world", "Source": "{place}/world"}}')
        (place / "running").touch()
        self.runs = place / "runs"

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{self.place}/bin:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": str(self.place),
            "AGENT_CONTAINER": NAME,
            "DISCOVERY_ENGINE": "podman",
            "DISCOVERY_RUNS": str(self.runs),
        }

    def words(self, *words: str | Path) -> list[str]:
        return [sys.executable, str(MAIN), *map(str, words)]

    def run(self, stdin: str | bytes, *words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """The orchestrator with a text through the pipe, to its end."""
        ended = subprocess.run(
            self.words(*words),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            env=self.environ | environ,
            timeout=SECONDS,
            check=False,
        )
        return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def begin(self, *words: str | Path, stdin: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """The same, not waited for."""
        return subprocess.Popen(
            self.words(*words),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
        )

    def only_run(self) -> Path:
        """The directory of the one run."""
        (run,) = self.runs.glob("2*")
        return run
