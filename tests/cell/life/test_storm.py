"""A storm: a real model door before a provider that fails one call in five, and a runner that is killed again and
again; no act is done twice, and each directive is done and reported once."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import time
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from tests.cell.cell import Cell, Runner, limits, read
from tests.cell.doors import ModelDoor
from tests.cell.loop.waiting import wait_for
from tests.keep.model_door.dialects import Called, Chat
from tests.keep.model_door.doors import KEY, DoorProcess
from tests.keep.model_door.peer import Answer, Peer

PARTS = ("begin", "middle", "end")
"""Each directive takes three acts, one step each."""
JOB = re.compile(r"\bjob-\d+\b")
ACT = re.compile(r"echo (job-\d+ \w+) >> logs/acts")
FAILURES = (
    Answer((b'{"error": {"message": "slow down"}}',), status=429, headers=(("retry-after", "1"),)),
    Answer((b'{"error": {"message": "busy"}}',), status=503),
    Answer(Chat().reply(("I am about to",))[:2]),
    Answer(Chat().reply(("I am about to",))[:2], then="reset"),
)


class Provider:
    """What the model says follows from the conversation alone; one call in five fails."""

    def __init__(self) -> None:
        self.calls = self.failed = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.calls += 1
        if self.calls % 5 == 0:
            self.failed += 1
            return FAILURES[self.failed % len(FAILURES)]
        act = self._next_act(body["messages"])
        dialect = Chat()
        if act is None:
            return Answer(dialect.reply((f"Done: {', '.join(sorted(self._jobs(body['messages'])))}.",)))
        return Answer(dialect.reply((), (Called(f"call_{len(body['messages'])}", input={"command": act}),)))

    def _jobs(self, messages: list[dict[str, Any]]) -> set[str]:
        """The directive of the run, as the opening names it."""
        opening = next(str(each["content"]) for each in messages if each["role"] == "tool")
        return set(JOB.findall(opening.partition("## Your work")[2].partition("\n## ")[0]))

    def _next_act(self, messages: list[dict[str, Any]]) -> str | None:
        made: dict[str, str] = {}
        looked = ""
        for each in messages:
            for call in each.get("tool_calls") or ():
                made[call["id"]] = json.loads(call["function"]["arguments"]).get("command", "")
            command = made.get(each.get("tool_call_id", ""), "")
            if each["role"] == "tool" and command == "cat logs/acts":  # a look that was cut short shows nothing
                looked = "?" if str(each["content"]).startswith("ERROR: ") else str(each["content"])
            elif each["role"] == "tool" and ACT.match(command) and str(each["content"]).startswith("ERROR: "):
                looked = "?" if "how far it came is unknown" in str(each["content"]) else looked
                del made[each["tool_call_id"]]
        if looked == "?":  # a call was cut short: what came of it is looked for before it is made again
            return "cat logs/acts"
        done = {found[1] for found in map(ACT.match, made.values()) if found} | set(looked.splitlines())
        open_acts = (f"{job} {part}" for job in sorted(self._jobs(messages)) for part in PARTS)
        act = next((act for act in open_acts if act not in done), None)
        return act and f"echo {act} >> logs/acts; tail -n 1 logs/acts; sleep 0.1"  # shown: logs are no changed file


class Door(DoorProcess):
    """The real model door at a cell's sockets."""

    def __init__(self, cell: Cell, url: str, directory: Path) -> None:
        model = {"provider": "openai", "name": "gpt-6.1-terra", "base_url": url}
        super().__init__(directory, {"model": model, "budget": {"daily_usd": 1000}})
        self.places = cell.places
        self.write_key(KEY, name="openai_api_key")

    def close(self) -> None:
        self.stop()


def end_all_of(run: Runner) -> None:
    """As the kernel and the watcher do: the runner at once, then all that it had started."""
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(run.process.pid).children(recursive=True)
    run.process.kill()
    run.ended()
    for each in below:
        with contextlib.suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(below, 5)


def storm(cell: Cell, tmp_path: Path, jobs: int, between: float, lull: float, seed: int) -> None:
    chance, provider = random.Random(seed), Provider()
    with Peer(Chat.content_type, provider) as peer:
        door = Door(cell, peer.url, tmp_path / "door")
        door.start()
        cell._model = cast("ModelDoor", door)
        run, kills, told, next_job = cell.start(cell.boot(limits=limits(run_seconds=600))), 0, 0, 0.0
        began = time.monotonic()
        while told < jobs or cell.open():
            if told < jobs and time.monotonic() - began >= next_job:
                told, next_job = told + 1, next_job + between
                cell.tell(f"do job-{told}")
            asked = provider.calls
            # Every third time before the model is reached: three of these in a row would have the run begun anew.
            until = time.monotonic() + chance.uniform(0.1, 2 * lull)
            run.serves()
            while time.monotonic() < until or (kills % 3 and provider.calls == asked and cell.open()):
                assert time.monotonic() < until + 60, run.log()[-3000:]
                time.sleep(0.02)
            if told < jobs or kills % 4 != 3:
                end_all_of(run)
                kills += 1
                if kills % 5 == 0:
                    door.signal(signal.SIGKILL)
                    door.start()
                run = cell.start(cell.boot(limits=limits(run_seconds=600)))
            else:
                kills += 1
                wait_for(lambda: not cell.open(), "the rest", 60)
        wait_for(lambda: '"sleeping"' in run.doing(), "sleep")
        end_all_of(run)
        door.stop()
    acts = read(f"{cell.checkout}/logs/acts").splitlines()
    assert sorted(acts) == sorted(f"job-{job} {part}" for job in range(1, jobs + 1) for part in PARTS)
    done = [report for report in cell.all_reports() if " done: " in report.partition("\n")[0]]
    named = [job for report in done for job in JOB.findall(report.partition("Done: ")[2].partition("\n")[0])]
    assert sorted(named) == sorted(f"job-{job}" for job in range(1, jobs + 1)), "each is reported once"
    assert not [report for report in cell.all_reports() if " stopped (" in report.partition("\n")[0]]
    assert provider.failed >= jobs // 2, "it was a storm"
    assert kills >= 3


@pytest.mark.heavy
def test_a_short_storm_does_no_act_twice(cell: Cell, tmp_path: Path) -> None:
    """Five directives in ten seconds."""
    storm(cell, tmp_path, jobs=5, between=2.0, lull=1.0, seed=1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3])
def test_a_long_storm_does_no_act_twice(cell: Cell, tmp_path: Path, seed: int) -> None:
    """A directive every five seconds, for four minutes."""
    storm(cell, tmp_path, jobs=48, between=5.0, lull=2.0, seed=seed)
