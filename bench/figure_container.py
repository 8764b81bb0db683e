"""`minifram up` of an agent in its sealed container, with the image present, to its end when the agent is healthy:
beside `podman run` of the bare image printing one word. Then what the image holds, and the memory of an idle agent.

Both commands are started in the same way, as the ordinary user, without a network. Where the time goes is taken from
a shorter series with a command whose steps are timed."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import psutil

from bench import image_parts, timed_up
from bench.sealed.agent import SealedAgent, born
from bench.sealed.project import Project
from bench.sealed.rootless import Rootless
from bench.sealed.scene import image_of, sealed_project
from bench.stamps import now, progress
from bench.tables import (
    TIMES_HEAD,
    Figure,
    Table,
    Verdict,
    distance,
    milliseconds,
    spread,
    times_row,
)
from bench.timed_watcher import Span
from infra.shared.paths import BOOT_LOG

ROUNDS = 6
TIMED_ROUNDS = 3
SETTLE_SECONDS = 3.0
WORD = "podman run --rm of the bare image, to its word"
RUN = "podman run --rm of the bare image, to its end"
COLD, AGAIN = "minifram up of a newborn agent", "minifram up after down"
LIST = 'for pid; do echo "Pid: $pid"; cat "/proc/$pid/smaps_rollup"; done'
PROGRAMS = {
    "infra.seal": "watcher (was the seal)",
    "infra.git_door": "git door",
    "infra.model_door": "model door",
    "git-daemon": "git daemon",
    "dnsmasq": "resolver",
    "infra.runner": "runner",
}
CONMON = "podman's conmon, outside"


class Memory(NamedTuple):
    """Of one process, in MiB."""

    rss: float
    pss: float
    """Resident, with what is shared counted in parts."""


def run(directory: Path, rounds: int | None) -> Figure:
    """Raises Unprepared."""
    wanted = rounds or ROUNDS
    took: dict[str, list[float]] = {name: [] for name in (WORD, RUN, COLD, AGAIN)}
    with sealed_project() as project:
        _bare_run(project.user, {WORD: [], RUN: []})  # reads what the rounds will find in memory
        _ups(project, {COLD: [], AGAIN: []})
        for number in range(wanted):
            progress("container", f"round {number + 1} of {wanted}")
            if number % 2:
                _ups(project, took)
            for _ in range(2):
                _bare_run(project.user, took)
            if not number % 2:
                _ups(project, took)
        steps, memory = _looked_at(project, min(TIMED_ROUNDS, wanted))
        progress("container", "what the image holds")
        image, size = _image(project)
    seals = Table(
        "start of the command -> its end, the agent healthy (image present, no network, scripted model)",
        TIMES_HEAD,
        tuple(times_row(name, values, took[RUN]) for name, values in took.items()),
        (
            "`up` is asked to start an agent: it looks at the machine, checks the image's inputs, makes volumes and",
            "container, compares what the runtime is told, seals, starts four services and a runner, and waits for it.",
        ),
    )
    verdicts = (
        distance("up, newborn", took[COLD], "podman run of the bare image", took[RUN]),
        distance("up, after down", took[AGAIN], "podman run of the bare image", took[RUN]),
        Verdict(None, size),
        _memory_verdict(memory),
    )
    return Figure((seals, steps, image, _memory_table(memory)), verdicts)


def _bare_run(user: Rootless, took: dict[str, list[float]]) -> None:
    words = user.command("run", "--rm", "--pull=never", "--network=none", user.base(), "echo", "word")
    began = now()
    with user.popen(*words) as process:
        assert process.stdout
        said = process.stdout.readline()
        word_at = now()
        _, errors = process.communicate()
        ended = now()
    if said != "word\n" or process.returncode:
        raise RuntimeError(f"podman run of the bare image said {said!r} and ended with {process.returncode}: {errors}")
    took[WORD].append(word_at - began)
    took[RUN].append(ended - began)


def _ups(project: Project, took: dict[str, list[float]]) -> None:
    with born(project) as agent:
        for name in (COLD, AGAIN):
            began = now()
            agent.minifram("up")
            took[name].append(now() - began)
            if name == COLD:
                agent.minifram("down")


# --- where the time goes, and the memory ---------------------------------------------------------


def _looked_at(project: Project, rounds: int) -> tuple[Table, dict[str, list[Memory]]]:
    parts: dict[str, list[float]] = {}
    wholes: list[float] = []
    memory: dict[str, list[Memory]] = {}
    for number in range(rounds):
        progress("container", f"where the time and the memory go, round {number + 1} of {rounds}")
        with born(project) as agent:
            spans_file = project.user.put("spans", "")
            spans_file.chmod(0o666)
            words = project.command("bench.timed_up", str(spans_file), "up", "--agent", agent.name)
            began, began_at = now(), time.time()
            project.user.run(*words)
            ended = now()
            moments = {name: at - began_at + began for name, at in _told(agent).items()}
            spans = [Span(*span) for span in json.loads(spans_file.read_text())]
            for name, seconds in steps_of_up(spans, moments, began, ended):
                parts.setdefault(name, []).append(seconds)
            wholes.append(ended - began)
            time.sleep(SETTLE_SECONDS)
            for name, used in _memory(agent).items():
                memory.setdefault(name, []).append(used)
    rows = [
        (name, milliseconds(sum(values) / rounds), f"{len(values) / rounds:g}", f"{sum(values) / sum(wholes):.0%}")
        for name, values in parts.items()
    ]
    title = f"where it goes ({rounds} newborn agents, steps timed; {milliseconds(sum(wholes) / rounds)} ms on average)"
    return Table(title, ("", "ms a start", "times", "share of all"), tuple(rows)), memory


def _told(agent: SealedAgent) -> dict[str, float]:
    """When what happened in the container, by the logs' own time (seconds since the epoch)."""
    found: dict[str, float] = {}
    for line in Path(agent.home.places.watcher_log).read_text().splitlines():
        event = json.loads(line)
        found.setdefault(event["event"], datetime.fromisoformat(event["timestamp"]).timestamp())
    for line in agent.read(f"{agent.home.places.main_checkout}/{BOOT_LOG}").splitlines():
        at, word, *_ = line.split()
        found.setdefault(word, datetime.fromisoformat(at).timestamp())
    return found


def steps_of_up(spans: list[Span], moments: dict[str, float], began: float, ended: float) -> list[tuple[str, float]]:
    """Steps and their seconds, in order: the command's up to `podman start`, the container's from there. They add up
    to the whole."""
    ordered = sorted(spans)
    start = next(span for span in ordered if span.name == timed_up.STARTED)
    before = [span for span in ordered if span.ended <= start.began]
    found = [(timed_up.INTERPRETER, before[0].began - began)]
    found += [(span.name, span.ended - span.began) for span in before[1:]]
    # What is timed within another step counts there alone.
    other = start.began - began - sum(seconds for _, seconds in found)
    found.append(("all else in the command until then: imports, words, checks", other))
    at = start.began
    for name, moment in (
        ("podman start; seal, to its first service", moments["door.started"]),
        ("services answer, main's clone made, to the runner's launch", moments["runner.launched"]),
        ("runner's start, to its first word", moments["BOOTSTRAPPING"]),
        ("preflight, to SUCCESS", moments["SUCCESS"]),
        ("seen by watcher and command, which ends", ended),
    ):
        found.append((name, moment - at))
        at = moment
    return found


def _memory(agent: SealedAgent) -> dict[str, Memory]:
    """By process; asked in the user's own namespace, where the ordinary user may ask it."""
    inside = agent.inside()
    conmon = psutil.Process(inside[0].pid).ppid()
    names = {conmon: CONMON} | {one.pid: _program(one.words) for one in inside}
    told = agent.podman("unshare", "sh", "-c", LIST, "sh", *map(str, names))
    found: dict[str, Memory] = {}
    for part in told.split("Pid: ")[1:]:
        pid, *lines = part.splitlines()
        sizes = dict(line.split(":", 1) for line in lines[1:])
        before = found.get(names[int(pid)], Memory(0, 0))
        rss, pss = (int(sizes[name].split()[0]) / 1024 for name in ("Rss", "Pss"))
        found[names[int(pid)]] = Memory(before.rss + rss, before.pss + pss)
    missing = set(PROGRAMS.values()) - set(found)
    if missing:
        raise RuntimeError(f"the idle agent lacks {sorted(missing)}; found {sorted(names.values())}")
    return found


def _program(words: str) -> str:
    return next((name for part, name in PROGRAMS.items() if part in words), words[:40].strip() or "(ended)")


def _totals(memory: dict[str, list[Memory]]) -> list[Memory]:
    """Of the agent, in each round."""
    return [
        Memory(sum(one.rss for one in used), sum(one.pss for one in used))
        for used in zip(*(values for name, values in memory.items() if name in PROGRAMS.values()), strict=True)
    ]


def _memory_table(memory: dict[str, list[Memory]]) -> Table:
    in_order = {name: memory[name] for name in sorted(memory, key=lambda name: -spread(_pss(memory[name])).median)}
    rows = [_memory_row(name, values) for name, values in in_order.items()]
    return Table(
        f"memory of an idle agent, {SETTLE_SECONDS:g} s after it was healthy",
        ("", "PSS MiB", "least", "most", "RSS MiB", "agents"),
        (*rows, _memory_row("the agent's six", _totals(memory))),
        (
            "PSS counts what processes share in parts, RSS whole in each. With a network, slirp4netns or pasta come on",
            "top; beside other containers of the same image PSS is less.",
        ),
    )


def _pss(values: list[Memory]) -> list[float]:
    return [one.pss for one in values]


def _memory_row(name: str, values: list[Memory]) -> tuple[str, ...]:
    pss, rss = spread(_pss(values)), spread([one.rss for one in values])
    return (name, f"{pss.median:.1f}", f"{pss.least:.1f}", f"{pss.most:.1f}", f"{rss.median:.1f}", str(pss.rounds))


def _memory_verdict(memory: dict[str, list[Memory]]) -> Verdict:
    totals = _totals(memory)
    pss, rss = spread(_pss(totals)).median, spread([one.rss for one in totals]).median
    return Verdict(None, f"an idle agent: PSS {pss:.0f} MiB, RSS {rss:.0f} MiB in all six processes; no goal, shown")


# --- the image -----------------------------------------------------------------------------------


def _image(project: Project) -> tuple[Table, str]:
    """What takes its room, and a line about it."""
    user, name = project.user, image_of(project)
    text = Path(image_parts.__file__).read_text()
    how = ("run", "--rm", "--interactive", "--pull=never", "--network=none", "--entrypoint=python3.11")
    parts: dict[str, list[int]] = json.loads(user.podman(*how, name, "-I", "-", stdin=text).stdout)
    whole, base = (
        int(user.podman("image", "inspect", "--format={{.Size}}", one).stdout) for one in (name, user.base())
    )
    total = sum(part[0] for part in parts.values())
    rows = [
        (part, f"{size / 1e6:.1f}", f"{bytecode / 1e6:.1f}", str(files), f"{size / total:.0%}")
        for part, (size, bytecode, files) in sorted(parts.items(), key=lambda item: -item[1][0])
    ]
    of_bytecode, files = (sum(part[index] for part in parts.values()) for index in (1, 2))
    rows.append(("all files", f"{total / 1e6:.1f}", f"{of_bytecode / 1e6:.1f}", str(files), "100%"))
    sizes = f"{whole / 1e6:.0f} MB by podman's count: Debian's base {base / 1e6:.0f}, ours {(whole - base) / 1e6:.0f}"
    table = Table(
        f"what takes the room in the image ({sizes})",
        ("", "MB", "bytecode", "files", "share"),
        tuple(rows),
        ("podman counts both of a file that our layer changes, and the archives' own padding.",),
    )
    return table, f"image: {sizes}; no goal, shown"
