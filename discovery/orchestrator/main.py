"""The loop: a block, its command in the container, the result, a note. LLM_MODE says who explores.

python3 main.py [--known FILE] [--steps N] [--seconds S] [--output-bytes B]"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import blocks
from llm_driver import MODES, DoorFailure, LLMDriver
from record import Record
from shell import INTERRUPTED, EngineError, Limits, Shell

HERE = Path(__file__).resolve().parent
CONTAINER = "ai_discovery_agent"
ARTIFACTS = ("MAP.md", "LOG.md", "TOOLS.md", "PLAN.md")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def explore(driver: LLMDriver, shell: Shell, record: Record, steps: int) -> str:
    """The loop; why it ended."""
    done = 0
    while done < steps:
        try:
            plan = driver.decide()
            if not plan.strip():
                return driver.ended_by
            command = blocks.command_of(plan)
        except blocks.BlockError as error:
            record.refuse(error.block, str(error).partition("\n")[0])
            driver.refused(str(error))
            continue
        result = shell.run(command)
        done += 1
        record.event(plan=plan, **result._asdict(), **({} if driver.usd is None else {"usd": driver.usd}))
        restarted = shell.settle(result)
        if result.exit_code == INTERRUPTED:
            return "interrupt"
        note = driver.note(result, restarted)
        if note.strip():
            record.event(post=note)
    return "steps"


def run(driver: LLMDriver, shell: Shell, runs: Path, mode: str, steps: int, known: dict[str, Any]) -> Path:
    """Let `driver` explore; the run's directory. It is complete whatever ends the run."""
    record = Record(
        runs,
        {"container": shell.container, "mode": mode, "prompt": prompt()},
        model=driver.model,
        image=shell.image,
        limits={**shell.limits._asdict(), "steps": steps},
    )
    if known:
        record.put("known.json", known)
    ended_by = "error"
    try:
        try:
            ended_by = explore(driver, shell, record, steps)
        except KeyboardInterrupt:
            ended_by = "interrupt"
        record.put("artifacts.json", {name: shell.read(f"/home/agent/{name}") for name in ARTIFACTS})
        if known and ended_by != "interrupt":
            questions = [{"id": one["id"], "text": one["text"]} for one in known["questions"]]
            record.put("answers.json", driver.answer(questions))
    finally:
        for number in SIGNALS:  # a second Ctrl-C does not cut the end short
            signal.signal(number, signal.SIG_IGN)
        record.end(ended_by)
    return record.path


def prompt() -> str:
    return (HERE / "prompt.txt").read_text(encoding="utf-8")


def main() -> int:
    """Exit codes: 0 for a run, also an interrupted one; 1 when it failed; 2 for wrong words."""
    parser = argparse.ArgumentParser(description="Explore a container by the action protocol.")
    parser.add_argument("--container", default=os.environ.get("AGENT_CONTAINER") or CONTAINER)
    parser.add_argument("--runs", type=Path, default=HERE.parent / "runs", help="default: beside this folder")
    parser.add_argument("--known", type=Path, help="the known.json that world.py wrote beside the mounted world")
    parser.add_argument("--steps", type=_count, default=1_000_000, help="commands at most")
    parser.add_argument("--seconds", type=_count, default=Limits().seconds, help="of a command (default %(default)s)")
    parser.add_argument(
        "--output-bytes", type=_count, default=Limits().output_bytes, help="of each stream (default %(default)s)"
    )
    given = parser.parse_args()
    mode = os.environ.get("LLM_MODE") or "manual"
    if mode not in MODES:
        parser.error(f"LLM_MODE is {mode!r}; expected one of {', '.join(MODES)}")
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        known = json.loads(given.known.read_text(encoding="utf-8")) if given.known else {}
        shell = Shell(given.container, Limits(given.seconds, max(2, given.output_bytes)))
        driver = MODES[mode](prompt(), os.environ)
        print(f"run: {run(driver, shell, given.runs, mode, given.steps, known)}")
    except (EngineError, DoorFailure, OSError, ValueError) as error:
        print(f"discovery: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
