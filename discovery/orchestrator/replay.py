"""The commands of a run again, in a fresh container of its own that is removed afterwards."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import known
import record
from engine import HERE, Engine, EngineError, last_line
from llm_driver import Result
from shell import Limits, Shell
from stop import Stop

SHOWN = 100
"""Characters of a line that came out differently."""


def run(directory: Path, engine: Engine, world: Path | None = None, network: str | None = None) -> int:
    """Play it, and print step by step what came out differently. 1 when something did, else 0.

    Raises RunError and EngineError, and Interrupted once its container is removed."""
    meta = record.read_meta(directory)
    events, bad = record.read_events(directory)
    commands = [event for event in events if isinstance(event.get("command"), str)]
    if not commands:
        raise record.RunError(f"{directory} has no command to play")
    if bad:
        print(f"{bad} line of events.jsonl is cut or no JSON, and is left out", flush=True)
    world = world or _world(meta)
    if not world.is_dir():
        raise record.RunError(f"the run's world is not at {str(world)!r} any more; name it with --world")
    different, stop = 0, Stop()
    image = str(meta.get("image") or "ai_discovery_agent")
    with stop.installed(), _fresh(engine, image, world, network, stop) as name:
        shell = Shell(name, engine, _limits(meta))
        for number, event in enumerate(commands, 1):
            found = differences(event, shell.run(number, event["command"]))
            different += bool(found)
            print(f"step {number}: {'; '.join(found) or 'same'}", flush=True)
            if shell.lost:
                raise shell.lost
    print(f"{len(commands)} commands, {different} came out differently")
    return 1 if different else 0


def differences(event: Mapping[str, Any], result: Result) -> list[str]:
    """What is not as it was, in words."""
    found = []
    if event.get("exit_code") != result.exit_code:
        found.append(f"exit code {event.get('exit_code')} -> {result.exit_code}")
    for name, now in (("stdout", result.stdout), ("stderr", result.stderr)):
        before = event.get(name)
        if before != now:
            found.append(f"{name}: {_first_difference(str(before or ''), now)}")
    return found


def _first_difference(before: str, now: str) -> str:
    old, new = before.split("\n"), now.split("\n")
    number = next((n for n, (a, b) in enumerate(zip(old, new, strict=False), 1) if a != b), min(len(old), len(new)) + 1)
    shown = [repr(lines[number - 1][:SHOWN]) if number <= len(lines) else "no such line" for lines in (old, new)]
    return f"line {number}: {shown[0]} -> {shown[1]}"


def _world(meta: Mapping[str, Any]) -> Path:
    """The directory that the run names, when it is a world. A run that somebody else made may name any directory of
    this machine, and its commands may send what they read to anybody. Raises RunError."""
    named = meta.get("world")
    world = Path(str(named.get("directory") or "") if isinstance(named, dict) else "")
    try:
        is_world = not world.is_dir() or bool(known.read(known.find(world.resolve(), None)))
    except known.KnownError:
        is_world = False
    if not is_world:
        raise record.RunError(
            f"the run says that its world was {str(world)!r}, and nothing shows that this is a world: no list of what "
            "can be known lies beside it. The run's commands will read all of it; if they may, name it with --world"
        )
    return world


def _limits(meta: Mapping[str, Any]) -> Limits:
    """As the run had them. Raises RunError."""
    limits, usual = meta.get("limits") or {}, Limits()
    try:
        seconds, size = limits.get("seconds") or usual.seconds, limits.get("output_bytes") or usual.output_bytes
        return Limits(float(seconds), int(size))
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise record.RunError(f"the run's limits are not understood: {limits!r:.100}") from None


@contextlib.contextmanager
def _fresh(engine: Engine, image: str, world: Path, network: str | None, stop: Stop) -> Iterator[str]:
    """Like the one that compose makes, with a name and a volume of its own."""
    if engine.call("image", "inspect", image).returncode:
        raise EngineError(
            f"there is no image {image} to play the run in. Build it: cd {HERE} && {engine.compose} build"
        )
    name = f"discovery-replay-{secrets.token_hex(6)}"
    words = ["run", "-d", "-t", "-i", "--name", name, "-v", f"{name}:/home/agent", "-v", f"{world.resolve()}:/world:ro"]
    if network:
        words += ["--network", network]
    try:
        ended = engine.call(*words, "--entrypoint", "/bin/bash", image)
        if ended.returncode:
            raise EngineError(f"no container could be made of {image}: {last_line(ended.stderr)}")
        yield name
    finally:
        with stop.shielded():
            engine.remove(name, name)
