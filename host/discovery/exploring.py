"""One run, from the world to the score: the story, in order.

What was made for the run is removed at its end, however it ends: the container, its volume, the door and its key."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from host.context import Context
from host.discovery import door, engine, leftovers, runs, scripts
from host.discovery.door import DoorSettings
from host.discovery.engine import Engine, Explorer
from host.discovery.worlds import World
from host.display import Say
from host.errors import CommandError, failure, not_found
from host.paths import DiscoveryPaths
from infra.shared.exit_codes import Exit
from infra.shared.files import make_directories

LOOK_SECONDS = 0.5
END_SECONDS = 150.0
"""For the orchestrator to complete an interrupted run: it copies the home."""
COMMAND_CHARS = 80
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Wanted(NamedTuple):
    """What the PM asks for."""

    world: World
    model: DoorSettings | None
    """None: the PM explores by hand."""
    engine: Engine
    image: str
    name: str = ""
    """Of the container; empty for one of its own."""
    steps: int | None = None
    seconds: float | None = None
    keep: bool = False
    to_terminal: bool = True
    """By hand, what the orchestrator says goes to stdout; else to stderr, because a result goes there."""


class Ended(NamedTuple):
    summary: runs.Summary
    score: dict[str, Any] | None
    kept: str
    """The container, when the PM asked to keep it."""


def run(context: Context, places: DiscoveryPaths, wanted: Wanted, say: Say) -> Ended:
    """Raises CommandError, and KeyboardInterrupt once everything is removed."""
    make_directories(places.runs, 0o700)
    id = secrets.token_hex(4)
    name = wanted.name or f"{engine.IMAGE}_{id}"
    explorer = Explorer(name, wanted.image, wanted.world.directory, id, context.network)
    before = frozenset(runs.names(places))
    with _signals() as signals, contextlib.ExitStack() as stack, signals.ignored_at_the_end():
        socket = stack.enter_context(door.opened(context, places, id, wanted.model)) if wanted.model else ""
        leftovers.clear(places, wanted.engine, say)
        note = None if wanted.keep else stack.enter_context(leftovers.noted(places, wanted.engine, explorer))
        engine.start(wanted.engine, explorer)
        if wanted.keep:
            stack.callback(say, _kept(wanted.engine, explorer))
        else:
            stack.callback(_remove, wanted.engine, explorer, say)
        say(f"container {name} started; explored by {wanted.model.words if wanted.model else 'you'}")
        try:
            code = _orchestrate(context, places, wanted, explorer, socket, before, note, say)
        except KeyboardInterrupt:
            code = Exit.INTERRUPTED
        directory = _made(places, name, before)
        if code in (Exit.INTERRUPTED, 128 + signal.SIGTERM):
            if directory:
                say(f"the run was interrupted and is complete; score it with 'minifram discover score {directory}'")
            raise KeyboardInterrupt
        if code or not directory:
            raise failure(f"the orchestrator ended with {code}" + (f"; the run is {directory}" if directory else ""))
        score = _score(context, directory, wanted, say)
    return Ended(runs.summary(directory), score, name if wanted.keep else "")


def _orchestrate(
    context: Context,
    places: DiscoveryPaths,
    wanted: Wanted,
    explorer: Explorer,
    socket: str,
    before: Collection[str],
    note: int | None,
    say: Say,
) -> int:
    """Its exit code."""
    words = [f"--container={explorer.name}", f"--world={wanted.world.directory}", f"--runs={places.runs}"]
    words += [f"--known={wanted.world.known}"] if wanted.world.known else []
    words += [f"--steps={wanted.steps}"] if wanted.steps is not None else []
    words += [f"--seconds={wanted.seconds:g}"] if wanted.seconds is not None else []
    environ = script_environ(wanted.engine) | {"LLM_MODE": "minifram" if wanted.model else "manual"}
    if wanted.model:
        environ |= {
            "MINIFRAM_MODEL_SOCKET": socket,
            "DISCOVERY_USD": str(wanted.model.settings.budget.unit_usd),
            "DISCOVERY_RUN": explorer.run,
        }
    by_hand = wanted.model is None
    # setpriv(1): when this process is killed, it completes the run and ends.
    with_us = [] if by_hand else ["setpriv", "--pdeathsig", "INT"]
    process = subprocess.Popen(
        [*with_us, *scripts.words(context.root, scripts.MAIN, *words)],
        env=environ,
        stdin=None if by_hand else subprocess.DEVNULL,
        stdout=None if by_hand and wanted.to_terminal else sys.__stderr__ if by_hand else subprocess.DEVNULL,
        stderr=None if by_hand else subprocess.PIPE,
        text=True,
        errors="replace",
        # By hand it reads the terminal, which sends Ctrl-C to it as well; a model's is told by us alone.
        start_new_session=not by_hand,
        pass_fds=() if note is None else (note,),  # with its lock: the container stays until the run is complete
    )
    try:
        made = partial(_made, places, explorer.name, before)
        return _watched(process, made, say) if not by_hand else process.wait()
    except BaseException:
        _interrupt(process)
        raise
    finally:
        if process.stderr:
            process.stderr.close()


def _watched(process: subprocess.Popen[str], made: Callable[[], str], say: Say) -> int:
    """Shows each step as it comes, and at the end what it said."""
    steps = _Steps()
    while True:
        try:
            _, said = process.communicate(timeout=LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            said = ""
        steps.directory = steps.directory or made()
        for line in steps.new():
            say(line)
        if process.returncode is not None:
            for line in said.splitlines()[-20:]:
                say(line)
            return process.returncode


class _Steps:
    """The command events of a run while they are written."""

    def __init__(self) -> None:
        self.directory = ""
        self._read = 0
        self._count = 0

    def new(self) -> Iterator[str]:
        """A line for each since the last time."""
        if not self.directory:
            return
        with contextlib.suppress(FileNotFoundError), open(f"{self.directory}/events.jsonl", "rb") as file:
            file.seek(self._read)
            while (line := file.readline()).endswith(b"\n"):
                self._read += len(line)
                event = json.loads(line)
                if "command" not in event:
                    continue
                self._count += 1
                spent = f", ${event['usd']:.4f}" if isinstance(event.get("usd"), float) else ""
                yield f"step {self._count}: exit {event['exit_code']}{spent}  {event['command'][:COMMAND_CHARS]}"


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Let it complete the run; end it when it does not. By hand it may have been told by the terminal: told twice, it
    does the same."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _score(context: Context, directory: str, wanted: Wanted, say: Say) -> dict[str, Any] | None:
    """A run that cannot be scored now is not lost."""
    say("scoring the run")
    try:
        report, said = runs.score(directory, context.root, script_environ(wanted.engine), wanted.engine.name)
    except CommandError as error:
        say(f"the run is there, and could not be scored: {error}")
        return None
    for line in said:
        say(line)
    return report


def script_environ(found: Engine) -> dict[str, str]:
    """What a script gets that calls this engine: no key is in it."""
    return found.environ | {"DISCOVERY_ENGINE": found.name}


def _made(places: DiscoveryPaths, container: str, before: Collection[str]) -> str:
    """The directory of the run that is made in this container; empty while there is none. Those that were there
    `before` are of others, which may have had the same name."""
    for name in reversed(runs.names(places)):
        if name in before:
            continue
        with (
            contextlib.suppress(OSError, ValueError),
            open(f"{places.runs}/{name}/meta.json", encoding="utf-8") as file,
        ):
            if json.load(file).get("container") == container:
                return f"{places.runs}/{name}"
    return ""


def _kept(found: Engine, explorer: Explorer) -> str:
    remove = f"{found.name} rm --force {explorer.name} && {found.name} volume rm {explorer.volume}"
    return f"the container {explorer.name} and its volume {explorer.volume} are kept; remove them: {remove}"


def _remove(found: Engine, explorer: Explorer, say: Say) -> None:
    for line in engine.remove(found, explorer):
        say(line)


class _Signals:
    """Each that ends the run does so as Ctrl-C does, until what was made is removed: then the PM is impatient."""

    @contextlib.contextmanager
    def ignored_at_the_end(self) -> Iterator[None]:
        """From the end of the body on."""
        try:
            yield
        finally:
            for number in (signal.SIGINT, *_ENDING):
                signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def _signals() -> Iterator[_Signals]:
    """As they were before, afterwards."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDING)}
    for number in _ENDING:
        signal.signal(number, leave)
    try:
        yield _Signals()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def image_of(context: Context, found: Engine, image: str | None, rebuild: bool, say: Say) -> str:
    """The name of an image that is there: the one asked for, or discovery's own, built when it is missing. Raises
    CommandError."""
    if image:
        if not engine.has_image(found, image):
            raise not_found(f"{found.name} has no image {image!r}; pull or build it, or leave --image out")
        return image
    if rebuild or not engine.has_image(found, engine.IMAGE):
        engine.build(found, context.root, context.environ, say)
    return engine.IMAGE
