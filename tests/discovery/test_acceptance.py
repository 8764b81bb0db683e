"""The customer's acceptance (000 §2, §7.6): his commands, in a real container, by the manual mode through a pipe."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.discovery.fake import PRE, ROOT
from tests.sealed.support.rootless import Ended, Rootless

MAKE = (
    "printf '# Map\\n- /world/data.csv: 7 lines\\n' > MAP.md; for n in LOG TOOLS PLAN; do echo \"# $n\" > $n.md; done"
)
TOOL = (
    "mkdir -p tools && printf '%s\\n' '#!/bin/bash' 'tail -n +2 \"$1\" | cut -d, -f\"$2\"' > tools/parse_csv.sh "
    "&& chmod +x tools/parse_csv.sh"
)
AGAIN = (
    "/home/agent/tools/parse_csv.sh /world/data.csv 3 | sort | uniq -c "
    "&& echo '- `/home/agent/tools/parse_csv.sh FILE COLUMN`: prints a column' >> TOOLS.md"
)
EXAMPLE = """\
<Intent>
Map top-level directories including /world and /home/agent

<Command>
ls -la / /world /home/agent

<Expected>
Confirm world (ro) and home (rw)

<OnError>
List dirs individually

<Observation>
/world present; /home/agent writable…

<Inference>
I can persist MAP/LOG/TOOLS/PLAN under /home/agent

<Next>
Initialize files and scan /world

"""
"""The document's own (§9)."""
COMMANDS = (
    MAKE,
    TOOL,
    "/home/agent/tools/parse_csv.sh /world/data.csv 2 | paste -sd+ | tee sum.txt",
    AGAIN,
    "find /world -type f | sort",
    "kill -HUP 1; sleep 20; echo not reached",
    "cat sum.txt; sleep 1002 & sleep 1001",
    "ps -eo args",
)


PYTHON = "/usr/bin/python3"
"""The host's, which has the standard library alone."""
SECONDS = 100.0
"""For one command of the operator."""


class Site:
    """A copy of the folder, and a container's name. The engine is a program `podman` on PATH, as an operator has it."""

    def __init__(self, user: Rootless, name: str) -> None:
        self.user = user
        self.name = name
        self.root = user.directory(name)
        shutil.copytree(ROOT / "discovery", self.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("2*Z"))
        self._programs = self.root / "bin"
        self._programs.mkdir()
        for program, line in {
            "podman": f'{shutil.which("podman")} {" ".join(user.command()[1:])} "$@"',
            "podman-compose": f'{user.python()} -s -P -m podman_compose "$@"',
        }.items():
            (self._programs / program).write_text(f"#!/bin/sh\nexec {line}\n")
            (self._programs / program).chmod(0o755)
        (self.root / "registries.conf").write_text("unqualified-search-registries = []\n")
        subprocess.run(["chmod", "-R", "a+rX", self.root], check=True)
        subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", self.root], check=True)

    def run(self, *words: str | Path, stdin: str | None = None, check: bool = True) -> Ended:
        """A command in the folder, with the operator's environment."""
        given = {
            "PATH": f"{self._programs}:/usr/bin:/bin",
            "CONTAINERS_REGISTRIES_CONF": str(self.root / "registries.conf"),
            "AGENT_CONTAINER": self.name,
            "DISCOVERY_ENGINE": "podman",
        }
        settings = [f"{name}={value}" for name, value in given.items()]
        command = ["/usr/bin/env", f"--chdir={self.root}", *settings, *map(str, words)]
        return self.user.run(*command, stdin=stdin, check=check, timeout=SECONDS)


@contextlib.contextmanager
def site(user: Rootless) -> Iterator[Site]:
    """With its container up, made by the operator's command."""
    made = Site(user, f"discovery-test-{secrets.token_hex(4)}")
    try:
        with user.alone("discovery-image"):
            made.run("podman-compose", "up", "-d", "--build")
        yield made
    finally:
        made.run("podman-compose", "down", "--volumes", "--timeout=0", check=False)


@pytest.mark.fault("D4", "D8")
@pytest.mark.heavy
def test_the_operators_commands_make_a_run_with_artifacts_and_a_report(user: Rootless) -> None:
    """And a command that ends the container, and one that never ends, are events of the run."""
    with site(user) as place:
        place.run(PYTHON, "orchestrator/main.py", "--seconds=5", stdin=EXAMPLE + "".join(map(PRE.format, COMMANDS)))
        (run,) = (place.root / "runs").glob("2*")
        lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        events = [line for line in lines if "command" in line]
        assert [event["exit_code"] for event in events[:6]] == [0] * 6
        assert events[3]["stdout"] == "17+42+8+23+99+4\n"
        ends, endless, look = events[6:]
        assert ends["exit_code"] not in (0, 124)
        assert (endless["stdout"], endless["exit_code"]) == ("17+42+8+23+99+4\n", 124)
        assert "sleep 100" not in look["stdout"]
        assert [line["post"].split("\n")[1] for line in lines if "post" in line] == [
            "/world present; /home/agent writable…"
        ]
        meta = json.loads((run / "meta.json").read_text())
        assert (meta["container"], meta["mode"], meta["ended_by"]) == (place.name, "manual", "empty input")
        artifacts = json.loads((run / "artifacts.json").read_text())
        assert artifacts["MAP.md"] == "# Map\n- /world/data.csv: 7 lines"
        assert "parse_csv.sh FILE COLUMN" in artifacts["TOOLS.md"]
        assert [artifacts[name] for name in ("LOG.md", "PLAN.md")] == ["# LOG", "# PLAN"]
        assert place.run("podman", "exec", place.name, "touch", "/world/x", check=False).returncode, "it is read-only"
        assert place.run("podman", "exec", place.name, "id", "-un").stdout.strip() == "agent"
        report = json.loads(place.run(PYTHON, "scoring/scorer.py", run).stdout)
    assert report["tools"] == ["/home/agent/tools/parse_csv.sh"]
    assert (report["steps"], report["tools_count"], report["tools_reused"]) == (9, 1, 1)
    assert report["efficiency_success_rate"] == pytest.approx(7 / 9)
    assert report["coverage_files"] >= 3
    assert report["latency_median_s"] > 0
