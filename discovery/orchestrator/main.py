"""The loop: a block, its command in the container, the result, a note.

python3 main.py                 explore the container AGENT_CONTAINER, by hand or as LLM_MODE says
python3 main.py --replay RUN    a run's commands again, in a fresh container"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import blocks
import known
import record
import replay
import witness
from engine import Container, Engine, EngineError, check_name
from llm_driver import MODES, LLMDriver, ModeError, Question, Result
from record import Record, RunError
from shell import Limits, Shell
from stop import Interrupted, Stop

PROMPT = Path(__file__).resolve().with_name("prompt.txt")
RUNS = known.DISCOVERY / "runs"
CONTAINER = "ai_discovery_agent"
HOME_BYTES = 64 << 20

EXIT_CODES = """\
exit codes:
  0  the run ended
  1  a replay came out differently
  2  the command was not understood, or LLM_MODE cannot be used as it is
  3  there is no container engine, or it does not answer
  4  there is no such container or image, it is not of this experiment, or its world is another
  5  a run's directory, or the list of what can be known, cannot be made, read or used
  129, 130, 143  SIGHUP, Ctrl-C or SIGTERM; the run's directory is complete
  141  what the output went to is closed; the run's directory is complete
"""


@dataclass(frozen=True)
class Options:
    """How a run is made. Places are the host's."""

    container: str = CONTAINER
    runs: Path = RUNS
    world: Path | None = None
    """None: the one that is mounted, as the engine tells."""
    known: Path | None = None
    """None: the list beside the world."""
    limits: Limits = field(default_factory=Limits)
    steps: int | None = None
    engine: Engine | None = None
    """None: the one that the environment names."""


def run(driver: LLMDriver, options: Options) -> Path:
    """Let `driver` explore; the run's directory. Raises EngineError, RunError, KnownError, and Interrupted once a run
    that was interrupted is complete."""
    engine = options.engine or Engine.find(os.environ)
    container, mounted = _ready(engine, options.container)
    world = _world(engine, mounted, options.world)
    if (world / known.NAME).exists():
        raise EngineError(
            f"{world} has {known.NAME} in it, and is mounted where an explorer reads it. Make the container with the "
            f"directory beside it: cd {known.DISCOVERY} && DISCOVERY_WORLD={world / 'world'} {engine.compose} up -d"
        )
    known_file = known.find(world, options.known)
    facts = known.read(known_file)
    asked = known.questions(facts)
    stop = Stop()
    with record.alone(options.runs, container.name), stop.installed():
        with stop.shielded():  # a run that has begun is complete in the end
            written = Record(options.runs, _meta(driver, options, engine, container, world, facts))
            if known_file:
                written.put("known.json", facts)
            seen = witness.Witness.open(world, _readable(container.home))
        try:
            stop.check()
            seen.check(lambda: engine.call("exec", container.name, "ls", "/world"))
            written.line("witness.jsonl", seen.first())
            ended_by = "end of input"
            interrupted: Interrupted | None = None
            try:
                shell = Shell(container.name, engine, options.limits)
                ended_by = _explore(driver, options.steps, shell, written, seen, stop)
            except Interrupted as signalled:
                interrupted, ended_by = signalled, "interrupt"
            with stop.shielded():
                home = _keep_home(engine, container.name, written)
                written.line("witness.jsonl", seen.step(None))  # who reads when asked has not explored
            try:
                if not interrupted:
                    stop.check()  # one that came while the home was copied
                    _ask(driver, asked, written)
            except Interrupted as signalled:
                interrupted = signalled
            with stop.shielded():
                written.end(ended_by, home_tar=home)
        except BaseException as error:
            with stop.shielded():
                written.end("interrupt" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}")
            raise
        finally:
            seen.close()
        if interrupted:
            interrupted.run = written.path
            raise interrupted
        return written.path


def _explore(
    driver: LLMDriver, steps: int | None, shell: Shell, written: Record, seen: witness.Witness, stop: Stop
) -> str:
    """The loop; why it ended."""
    last: Result | None = None
    step = 0
    while steps is None or step < steps:
        plan = ""
        try:
            plan = driver.decide(last)
            if not plan.strip():
                return driver.ended_by or "empty input"
            command = blocks.parse(plan)
        except blocks.BlockError as error:
            written.refused(plan, str(error))
            driver.refused(plan, str(error))
            continue
        step += 1
        with stop.shielded():
            last = shell.run(step, command, stop.seen)
            written.event(plan, last, _spent(driver))
            written.line("witness.jsonl", seen.step(step))
        if shell.lost:
            raise shell.lost
        stop.check()
        note = driver.note(last)
        if note.strip():
            written.note(note)
    return "steps"


def _spent(driver: LLMDriver) -> dict[str, float | int]:
    spent = {"usd": driver.usd, "tokens": driver.tokens}
    return {name: value for name, value in spent.items() if value is not None}


def _ready(engine: Engine, name: str) -> tuple[Container, Path]:
    """The container, started when it was not, and where its world lies on the host. Raises EngineError."""
    container = engine.look(name)
    if container.world is None:
        raise EngineError(
            f"the container {name} has no /world: it is not of this experiment, and has taken the name. Choose "
            "another: AGENT_CONTAINER=another-name, for the compose command and for this one"
        )
    if not container.running:
        engine.start(name)
    return container, container.world.resolve()


def _world(engine: Engine, mounted: Path, wanted: Path | None) -> Path:
    """Where the world lies on the host. Raises EngineError when the container has another than the one wanted."""
    if wanted is None:
        return mounted if mounted.is_dir() else known.SEED_WORLD
    if mounted.is_dir() and mounted != wanted.resolve():
        raise EngineError(
            f"the container's /world is {mounted}, and --world is {wanted}. Make the container with that world: "
            f"cd {known.DISCOVERY} && DISCOVERY_WORLD={wanted.resolve()} {engine.compose} up -d"
        )
    if not wanted.is_dir():
        raise EngineError(f"--world: there is no directory {wanted}")
    return wanted.resolve()


def _readable(path: Path | None) -> Path | None:
    return path if path and os.access(path, os.R_OK | os.X_OK) else None


def _meta(
    driver: LLMDriver, options: Options, engine: Engine, container: Container, world: Path, facts: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "container": container.name,
        "mode": driver.mode,
        "prompt": PROMPT.read_text(encoding="utf-8"),
        "started_at": None,
        "ended_at": None,
        "version": record.VERSION,
        "ended_by": None,
        "engine": engine.program,
        "image": container.image,
        "model": driver.model or None,
        "limits": {
            "seconds": options.limits.seconds,
            "output_bytes": options.limits.output_bytes,
            "steps": options.steps,
        },
        "world": {"directory": str(world), **{name: facts.get(name) for name in ("seed", "size", "contents")}},
        "refused_blocks": 0,
    }


def _keep_home(engine: Engine, container: str, written: Record) -> dict[str, object]:
    """`home.tar`, as it is at the end."""
    path = written.path / "home.tar"
    try:
        with open(path, "wb") as file:
            size = engine.copy(container, "/home/agent", file, HOME_BYTES)
    except (EngineError, OSError) as error:
        path.unlink(missing_ok=True)
        return {"bytes": 0, "cut": False, "error": str(error)}
    return {"bytes": min(size, HOME_BYTES), "cut": size > HOME_BYTES}


def _ask(driver: LLMDriver, questions: list[Question], written: Record) -> None:
    if not questions:
        return
    ids = [question.id for question in questions]
    answers = driver.answer(questions)
    written.put("answers.json", {"asked": ids, "answers": {name: answers.get(name) for name in ids}})


# --- the command ---------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    """The exit code; `--help` lists them."""
    environ = os.environ
    given = _parser(environ).parse_args(words)
    limits = Limits(given.seconds, given.output_bytes)
    try:
        engine = Engine.find(environ)
        if given.replay:
            return replay.run(given.replay, engine, given.world, given.network)
        check_name(given.container)
        driver = _driver(environ)
        options = Options(given.container, given.runs, given.world, given.known, limits, given.steps, engine)
        path = run(driver, options)
    except (EngineError, ModeError, RunError, known.KnownError) as error:
        print(f"discovery: {error}", file=sys.stderr)
        codes = {EngineError: 4, ModeError: 2}
        return error.exit_code if isinstance(error, EngineError) else codes.get(type(error), 5)
    except Interrupted as signalled:
        if signalled.run:
            print(f"\ninterrupted; the run is complete: {signalled.run}", file=sys.stderr)
        return 128 + signalled.number
    except KeyboardInterrupt:  # before a run began
        return 128 + signal.SIGINT
    except BrokenPipeError:  # who read the output is gone; the run says so
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    print(f"run: {path}")
    return 0


def _driver(environ: Mapping[str, str]) -> LLMDriver:
    """Raises ModeError."""
    mode = environ.get("LLM_MODE") or "manual"
    if mode not in MODES:
        raise ModeError(f"LLM_MODE is {mode!r}; expected one of {', '.join(MODES)}")
    return MODES[mode](PROMPT.read_text(encoding="utf-8"), environ)


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="main.py",
        description="Explore a container by the action protocol. LLM_MODE says who explores (manual, minifram), "
        "DISCOVERY_ENGINE by which engine (docker, podman). Each option is also an environment variable, in brackets.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    limits = Limits()

    def add(flag: str, variable: str, kind: Any, default: object, text: str) -> None:
        value = environ.get(variable) or default  # argparse reads a default that is text like a word
        parser.add_argument(flag, type=kind, default=value, help=f"{text} [{variable}]")

    add("--container", "AGENT_CONTAINER", str, CONTAINER, "the container's name; default: %(default)s")
    # Compose takes that variable from its own folder, wherever it is called.
    named = environ.get("DISCOVERY_WORLD") and known.DISCOVERY / environ["DISCOVERY_WORLD"]
    text = "the world on the host; default: the one that is mounted [DISCOVERY_WORLD]"
    parser.add_argument("--world", type=Path, default=named or None, help=text)
    add("--known", "DISCOVERY_KNOWN", Path, None, "the list of what can be known; default: the one beside the world")
    add("--runs", "DISCOVERY_RUNS", Path, RUNS, "where runs are written; default: discovery/runs")
    add("--seconds", "DISCOVERY_SECONDS", _positive, limits.seconds, "of a command; default: %(default)s")
    add("--output-bytes", "DISCOVERY_OUTPUT_BYTES", _count, limits.output_bytes, "of each stream; default: %(default)s")
    add("--steps", "DISCOVERY_STEPS", _count, None, "commands at most; default: no bound")
    parser.add_argument("--replay", type=Path, metavar="RUN", help="play the commands of a run in a fresh container")
    parser.add_argument("--network", help="of --replay's container, as the engine names it; default: the engine's own")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
