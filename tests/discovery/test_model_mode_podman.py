"""`minifram discover` with a scripted model in a real container, which has no network."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.sealed.project import Project
from bench.sealed.rootless import Rootless
from tests.discovery.site import commands_of, lines_of

SECONDS = 300.0
AGENTS_KEY = "sk-ant-of-the-agent-0123456789"
LOOK = "env; ls -a / /run /home/agent; find / -xdev -type s 2>/dev/null; grep -c . /proc/mounts; cat /proc/mounts"


def block(command: str) -> str:
    return f"<Intent>\nto see\n\n<Command>\n{command}\n\n<Expected>\nit\n\n<OnError>\nstop"


def note(text: str) -> str:
    return f"<Observation>\n{text}\n\n<Inference>\nit is so\n\n<Next>\ngo on"


class Explorers:
    """The command as the ordinary user runs it, with directories of its own."""

    def __init__(self, user: Rootless) -> None:
        self.user = user
        self.project = Project(user)
        self.place = user.directory(f"discover-{secrets.token_hex(4)}")
        self.name = f"discover-test-{secrets.token_hex(4)}"
        self.environ = {
            "XDG_DATA_HOME": f"{self.place}/data",
            "XDG_STATE_HOME": f"{self.place}/state",
            "XDG_CONFIG_HOME": f"{self.place}/config",
            "PATH": f"{self.place}/bin:/usr/local/bin:/usr/bin:/bin",
            "ANTHROPIC_API_KEY": AGENTS_KEY,
            "LAUNCH_WITH_NETWORK": "none",
            "PYTHONPATH": str(self.project.root),
            "CONTAINERS_REGISTRIES_CONF": str(self.project.no_registry),
        }
        # Podman keeps its images where this user's are, not in the directories of this test.
        words = " ".join(user.command()[1:])
        unset = "unset XDG_DATA_HOME XDG_CONFIG_HOME XDG_STATE_HOME"
        self.put("bin/podman", f'#!/bin/sh\n{unset}\nexec {shutil.which("podman")} {words} "$@"\n', 0o755)

    def put(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def script(self, *replies: str) -> list[str]:
        """Options of `run` for a scripted model."""
        scene = {"name": "explore", "replies": [{"text": reply} for reply in replies]}
        self.put("settings/script.yaml", json.dumps({"scenes": [scene]}))
        settings = json.dumps({"model": {"provider": "scripted", "script": "script.yaml"}})
        return ["--settings", str(self.put("settings/discovery.yaml", settings)), "--name", self.name]

    def begin(self, *words: str) -> subprocess.Popen[str]:
        given = [f"{name}={value}" for name, value in self.environ.items()]
        launcher = f"{self.project.root}/tests/host/launcher.py"
        python = str(self.user.python())
        return self.user.popen(
            "/usr/bin/env", *given, python, "-s", launcher, str(self.project.root), "none", "discover", *words
        )

    def done(self, *words: str) -> Any:
        """What the command says as JSON."""
        with self.begin(*words, "--json") as process:
            try:
                out, err = process.communicate(timeout=SECONDS)
            except BaseException:
                process.send_signal(signal.SIGINT)
                raise
        assert process.returncode == 0, err
        return json.loads(out)

    def left(self) -> list[str]:
        """Containers, volumes and directories of sockets of these runs."""
        names = self.user.podman("ps", "--all", "--format={{.Names}}").stdout.split()
        names += self.user.podman("volume", "ls", "--format={{.Name}}").stdout.split()
        # The runtime directory is the user's one: others' runs may be there, too.
        ours = {line["unit"] for line in lines_of(self.place / "state/minifram-discovery/ledger.jsonl")}
        here = [path.name for path in (self.user.runtime_dir / "minifram-discovery").iterdir()]
        return [name for name in names if name.startswith(self.name)] + [name for name in here if name in ours]

    def clear(self) -> None:
        self.user.podman("rm", "--force", "--time=0", "--ignore", self.name, check=False)
        self.user.podman("volume", "rm", "--force", f"{self.name}_home", check=False)


@pytest.fixture
def explorers(user: Rootless) -> Iterator[Explorers]:
    made = Explorers(user)
    try:
        yield made
    finally:
        made.clear()


@pytest.mark.heavy
def test_a_scripted_model_explores_a_generated_world(explorers: Explorers) -> None:
    """The image is built; three steps, seen by the host; the container held no key and no socket, and nothing of it is
    left."""
    reading = "find /world -type f | sort | head -n 3 | xargs cat"
    commands = [LOOK, reading, "printf '%s\\n' '- /world/README.md' > MAP.md"]
    replies = [block(commands[0]), *(f"{note('seen')}\n\n{block(command)}" for command in commands[1:])]
    words = explorers.script(*replies, f"{note('enough')}\n\n<Done>", "no answers")
    with explorers.user.alone("discovery-image"):
        told = explorers.done("run", "--seed", "7", "--size", "small", "--rebuild", *words)
    run = Path(told["directory"])
    events = commands_of(run)
    assert [(event["command"], event["exit_code"]) for event in events] == [(command, 0) for command in commands]
    for secret in (AGENTS_KEY, "MINIFRAM", "ANTHROPIC", "model.sock", "DISCOVERY_USD"):
        assert secret not in events[0]["stdout"]
    assert (told["ended_by"], told["score"]["honest"]["files_read"]["count"]) == ("model", 3)
    assert json.loads((run / "known.json").read_text())["seed"] == 7
    assert (run / "home.tar").stat().st_size > 0
    assert set(json.loads((run / "answers.json").read_text())["answers"].values()) == {None}
    assert explorers.left() == []
    compared = explorers.done("compare", str(run))
    assert compared["models"]["scripted demo"]["files_read"]["median"] == told["score"]["honest"]["files_read"]["share"]


@pytest.mark.heavy
def test_ctrl_c_leaves_nothing_but_the_run(explorers: Explorers) -> None:
    """In the middle of a command."""
    words = explorers.script(block("touch begun; sleep 300"))
    with explorers.begin("run", *words) as process:
        until = time.monotonic() + SECONDS
        while explorers.user.podman("exec", explorers.name, "test", "-e", "begun", check=False).returncode:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "was interrupted and is complete" in err
    (run,) = (explorers.place / "data/minifram-discovery/runs").glob("2*")
    assert json.loads((run / "meta.json").read_text())["ended_by"] == "interrupt"
    assert [event["exit_code"] for event in commands_of(run)] == [130]
    assert explorers.left() == []
