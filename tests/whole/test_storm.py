"""Minutes of kill -9 over everything that an agent is made of, while its PM goes on giving it work."""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from infra.keep.programs import keep_command
from infra.shared import comms
from infra.shared.exit_codes import Exit
from infra.shared.paths import ARCHIVE
from tests.keep.model_door.wire import Reaction, Say, Use, Wire, overloaded
from tests.whole.owner import Owner

SECONDS, SEED = 480.0, 12
"""Of the storm. Sleeps, hand-overs and growing delays take up to a minute each; eight of them meet all of these."""
DIRECTIVE_SECONDS = 30.0
FAILS_EVERY = 5
PAUSES = (0.3, 4.0)
KEY = "sk-ant-test-0123456789abcdefghijklmnop"
SETTINGS = {"sandbox": "process", "budget": {"daily_usd": 1e5}}
"""What a killed call may have cost stays reserved."""
TIMING = {"probation_seconds": 1.0, "grace_seconds": 2.0, "work_seconds": 5.0}
"""A version that has not served its probation is blamed for each death, and is pinned."""
_ACT = re.compile(r"[0-9a-f]{8}: act (\d+)\b")


class CarefulModel:
    """Does each act by one command, and looks before it does one again whose outcome nobody knows."""

    def __init__(self, acts: Path) -> None:
        self._acts = acts
        self.calls = 0

    def __call__(self, request: dict[str, Any]) -> Reaction:
        self.calls += 1
        if self.calls % FAILS_EVERY == 0:
            return overloaded()
        tried: Counter[int] = Counter()
        done: set[int] = set()
        of_call: dict[str, int] = {}
        page = request["system"][1]["text"]
        told = " ".join(f"{directive.id}: {directive.text}" for directive in comms.open_directives(page))
        for block in (block for message in request["messages"] for block in message["content"]):
            if block["type"] == "tool_use" and "# act" in str(block["input"].get("command")):
                number = of_call[block["id"]] = int(block["input"]["command"].rpartition(" ")[2])
                tried[number] += 1
            elif block["type"] == "tool_result" and block["tool_use_id"] in of_call:
                if "[exit status 0]" in str(block["content"]):
                    done.add(of_call[block["tool_use_id"]])
            elif block["type"] == "text" and "The PM has added" in block["text"]:
                told += f" {block['text']}"
        wanted = sorted({int(number) for number in _ACT.findall(told)})
        for number in wanted:
            if number not in done:
                act = f"echo {number} >>{self._acts}"
                command = f"grep -qx {number} {self._acts} || {act}" if tried[number] else f"sleep 1; {act}"
                return [Use("bash", {"command": f"{command} # act {number}"})]
        return [Say(" ".join(f"did {number};" for number in wanted))]


class Storm:
    """Who is there to be killed, and what came of it."""

    def __init__(self, owner: Owner, seed: int) -> None:
        self._owner = owner
        self._chance = random.Random(seed)
        self.killed: Counter[str] = Counter()

    def strike(self) -> None:
        """Kill one of them, whoever is there. Nobody but the PM starts a watcher of the process sandbox again."""
        there = self._there()
        kind = self._chance.choice([*sorted(there), *(["tool"] * 4 if "tool" in there else [])]) if there else ""
        if there:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._chance.choice(there[kind]).kill()
                self.killed[kind] += 1
        if kind == "watcher" or "watcher" not in there:
            self.start()

    def pause(self) -> None:
        time.sleep(self._chance.uniform(*PAUSES))  # the moment is the test

    def start(self) -> None:
        """`up` may find that what it waits for was killed as well."""
        for _ in range(5):
            done = self._owner.run_command(keep_command("host", "up"), Path("/"))
            if done.returncode in (Exit.OK, Exit.CONFLICT):
                return
        raise AssertionError(f"up: {done.returncode} {done.stdout} {done.stderr}")

    def _there(self) -> dict[str, list[psutil.Process]]:
        there: dict[str, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                ours = str(self._owner.directory) in " ".join(words)
                for kind in ("watcher", "git_door", "model_door"):
                    if ours and {f"infra.{kind}", f"tests.keep.supervision.timed_{kind}"} & set(words):
                        there.setdefault(kind, []).append(process)
                if "infra.runner" in words and process.cwd().startswith(str(self._owner.bot)):
                    there.setdefault("runner", []).append(process)
                    there |= {"tool": tools} if (tools := process.children(recursive=True)) else {}
        return there


def tell(owner: Owner, number: int) -> None:
    """A lock that a killed git left keeps the PM waiting for some seconds; the words are on the page once."""

    def said() -> bool:
        done = owner.run_command(keep_command("host", "tell", f"act {number}"), Path("/"))
        assert done.returncode in (Exit.OK, Exit.CONFLICT, Exit.TRY_AGAIN), done.stderr
        return done.returncode != Exit.TRY_AGAIN

    owner.until(60.0, said, f"directive {number} told")


@pytest.mark.long
@pytest.mark.timeout(2 * SECONDS + 240)
def test_each_directive_is_done_and_reported_once(owner: Owner) -> None:
    """Watcher, doors, runner and tools are killed at random, one call of the model in five fails, a directive comes
    every 30 s; when it is over each was done once and reported once, and the repository is whole."""
    acts = owner.directory / "acts"
    acts.touch()
    with Wire(CarefulModel(acts)) as wire:
        owner.minifram("init", "--sandbox", "process")
        model = {"model": {"provider": "anthropic", "base_url": wire.url}}
        owner.settings.write_text(yaml.safe_dump(SETTINGS | model))
        owner.settings.with_name("minifram.yaml.timing").write_text(yaml.safe_dump(TIMING))
        owner.program = "tests.host.timed"
        owner.env["ANTHROPIC_API_KEY"] = KEY
        owner.minifram("up")
        owner.until(60.0, lambda: list((owner.remote / "refs/minifram/good").glob("*")), "a known good version")
        storm, told = Storm(owner, SEED), 0
        began = time.monotonic()
        while time.monotonic() < began + SECONDS:
            if time.monotonic() >= began + told * DIRECTIVE_SECONDS:
                told += 1
                tell(owner, told)
            storm.strike()
            storm.pause()
        storm.start()
        owner.until(SECONDS, lambda: not comms.open_directives(owner.page()), "all directives ticked")
    archive = owner.run_command(["git", "--git-dir", str(owner.remote), "show", f"main:{ARCHIVE}"], Path("/")).stdout
    reports = f"{owner.page()}\n{archive}"
    print(f"{told} directives, killed: {dict(storm.killed)}")
    assert min(storm.killed[kind] for kind in ("watcher", "git_door", "model_door", "runner", "tool")) >= SECONDS // 160
    assert {number: reports.count(f"did {number};") for number in range(1, told + 1)} == dict.fromkeys(
        range(1, told + 1), 1
    )
    assert sorted(map(int, acts.read_text().split())) == list(range(1, told + 1))
    subprocess.run(["git", "-C", owner.remote, "fsck", "--strict"], check=True, capture_output=True)
