"""What is said to a model and by it for the same work, in bytes at the provider's wire, and whether the work is done:
by mini-swe-agent, which keeps everything in the conversation, by our loop with tools, and by our loop with operations.

What the model decides is written down beforehand and the same for all. Each works for real, in a directory of its own;
what lies there in the end is compared with what should. The same is done with failures put in between."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.decisions import (
    Answer,
    Broken,
    BrokenOff,
    Busy,
    ModelReply,
    Move,
    Shell,
    Write,
    by_bash,
    by_operations,
    by_tools,
)
from bench.provider import Provider
from bench.stamps import progress
from bench.tables import Figure, Table, Verdict, quantile, spread, times
from bench.tasks import LARGE, Task, tasks
from bench.wire import MINI, OPERATIONS, TOOLS, Player
from infra.shared.protocol.read import Requested, read

GOAL = 0.5
"""Of mini-swe-agent's bytes, on tasks with large outputs."""
LEAST_OPERATIONS_PER_SECOND = 20_000
SECONDS = 120.0
GOOD_ENDS = ("Submitted", "completed")
WAYS: dict[str, Callable[[Sequence[Move]], list[Answer]]] = {MINI: by_bash, TOOLS: by_tools, OPERATIONS: by_operations}


class Talk(NamedTuple):
    """One task in one way."""

    sent: int
    """To the provider, heads of requests included."""
    received: int
    last: int
    """Of what was sent, the last request."""
    turns: int
    done: bool
    """It ended well, and what should lie there does."""


def run(directory: Path) -> Figure:
    provider = Provider()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(provider.close)
        players = {name: Player(name, provider.url, directory) for name in WAYS}
        for player in players.values():
            cleanup.callback(player.close)
        every = tasks()
        talks: dict[str, list[Talk]] = {name: [] for name in WAYS}
        for task in every:
            progress("talk", task.name)
            for name, player in players.items():
                place = directory / f"{task.name} {name}".replace(" ", "-")
                talks[name].append(_talk(provider, player, name, place, task, task.steps))
        recovered = {
            name: [(fault, _recovery(provider, player, name, directory, fault)) for fault in FAULTS]
            for name, player in players.items()
        }
    return _figure(every, talks, recovered, operations_per_second())


def _talk(provider: Provider, player: Player, way: str, place: Path, task: Task, moves: Sequence[Move]) -> Talk:
    place.mkdir()
    for name, content in task.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    provider.play(WAYS[way](moves))
    player.begin(place)
    ran = player.ended()
    turns = provider.turns
    lies_there = all(_text(place / name) == content for name, content in task.expected.items())
    sent, received = sum(turn.received_bytes for turn in turns), sum(turn.sent_bytes for turn in turns)
    last = turns[-1].received_bytes if turns else 0
    return Talk(sent, received, last, len(turns), ran.end in GOOD_ENDS and lies_there)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


FAULTS: dict[str, tuple[Move, ...]] = {
    "a command that fails": ((Shell("cat nowhere.txt; exit 3"),),),
    "a refused act": ((Write("sealed/0.txt", "broken open\n"),),),
    "a reply that cannot be read": (Broken(),),
    "a command over its time": ((Shell("sleep 20", 0.3),),),
    "status 503": (Busy(),),
    "a reply that breaks off": (BrokenOff(),),
}
"""What happens in the middle of a task; the next move is the scripted model's answer to it."""


def _recovery(provider: Provider, player: Player, way: str, directory: Path, fault: str) -> bool | None:
    """Whether the work was done all the same; None where this cannot happen."""
    if way == MINI and fault in ("a refused act", "a command over its time"):
        return None  # it has no policy, and one time for all commands
    progress("talk", f"{fault}, {way}")
    before: list[Move] = [(Write(f"{n}.txt", f"before {n}\n"),) for n in range(3)]
    after: list[Move] = [(Write(f"{n}.txt", f"after {n}\n"), Shell(f"cat {n}.txt")) for n in range(3, 6)]
    expected = {f"{n}.txt": f"{'before' if n < 3 else 'after'} {n}\n" for n in range(6)}
    task = Task(fault, "", {}, (), expected)
    place = directory / f"{fault} {way}".replace(" ", "-")
    return _talk(provider, player, way, place, task, [*before, *FAULTS[fault], *after]).done


def operations_per_second(seconds: float = 0.5) -> float:
    """Read and checked on one core, by processor time; the replies are those of the tasks."""
    answers = [answer for task in tasks() for answer in by_operations(task.steps)[:-2]]
    replies = [answer.text for answer in answers if isinstance(answer, ModelReply)]
    count, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        for reply in replies:
            found = read(reply)
            if not isinstance(found, Requested):
                raise RuntimeError(f"{reply[:200]!r} was not taken; expected operations")
            count += len(found.items)
    return count / (time.process_time() - began)


def _figure(
    every: Sequence[Task],
    talks: dict[str, list[Talk]],
    recovered: dict[str, list[tuple[str, bool | None]]],
    rate: float,
) -> Figure:
    rows = tuple(_row(task, name, talks[name][at], talks[MINI][at]) for at, task in enumerate(every) for name in WAYS)
    bytes_table = Table(
        "bytes at the provider's wire for the same decisions",
        ("", "calls", "sent MB", "received MB", "of mini's", "done"),
        rows,
        (
            "Ours has a short system prompt and the guide or the tools; mini-swe-agent its mini.yaml.",
            "With operations the last reply is asked about (was that the report?), which is one call more.",
        ),
    )
    kinds = tuple(dict.fromkeys(task.kind for task in every))
    reductions: list[tuple[str, ...]] = []
    for kind in (*kinds, "all"):
        places = [at for at, task in enumerate(every) if kind in (task.kind, "all")]
        for name, than in ((TOOLS, MINI), (OPERATIONS, MINI), (OPERATIONS, TOOLS)):
            left = sorted(1 - _bytes(talks[name][at]) / _bytes(talks[than][at]) for at in places)
            # The 95th percentile of the worse end: all but a twentieth of the tasks save at least that.
            cells = (f"{spread(left).median:.0%}", f"{quantile(left, 0.05):.0%}")
            reductions.append((f"{kind}: {name} against {than}", str(len(places)), *cells))
    verdicts = [_verdict(task, talks, at) for at, task in enumerate(every)]
    reduction_table = Table(
        "fewer bytes, sent and received together",
        ("", "tasks", "median", "p95"),
        tuple(reductions),
        ("p95: all but a twentieth of the tasks save at least that.",),
    )
    completion = Table(
        "work that was done, and done after a failure",
        ("", "tasks done", *FAULTS),
        tuple(
            (
                name,
                f"{sum(talk.done for talk in talks[name])} of {len(every)}",
                *(_mark(ok) for _, ok in recovered[name]),
            )
            for name in WAYS
        ),
        ("-: cannot happen there. mini-swe-agent has no policy, and one limit of time for all commands.",),
    )
    for name in (TOOLS, OPERATIONS):
        done = sum(talk.done for talk in talks[name])
        verdicts.append(Verdict(done == len(every), f"{name}: {done} of {len(every)} tasks done; goal all"))
        held = sum(bool(ok) for _, ok in recovered[name])
        verdicts.append(Verdict(held == len(FAULTS), f"{name}: {held} of {len(FAULTS)} failures recovered; goal all"))
    reading = (
        f"operations read and checked on one core: {rate:,.0f} a second; goal at least {LEAST_OPERATIONS_PER_SECOND:,}"
    )
    verdicts.append(Verdict(rate >= LEAST_OPERATIONS_PER_SECOND, reading))
    return Figure((bytes_table, reduction_table, completion), tuple(verdicts))


def _row(task: Task, name: str, talk: Talk, mini: Talk) -> tuple[str, ...]:
    sizes = f"{talk.sent / 1e6:.3f}", f"{talk.received / 1e6:.3f}", times(_bytes(talk) / _bytes(mini))
    return f"{task.kind}, {task.name}: {name}", str(talk.turns), *sizes, "yes" if talk.done else "NO"


def _verdict(task: Task, talks: dict[str, list[Talk]], at: int) -> Verdict:
    than, goal = (MINI, GOAL) if task.kind == LARGE else (TOOLS, 1.0)
    ours, theirs = talks[OPERATIONS][at], talks[than][at]
    share = ours.sent / theirs.sent
    unasked = f"{times((ours.sent - ours.last) / theirs.sent)} without the question whether that was the report"
    told = f"{task.name}: operations send {times(share)} of {than} ({unasked}); goal at most {goal:g}x"
    return Verdict(share <= goal, f"{told}: {'met' if share <= goal else 'MISSED'}")


def _bytes(talk: Talk) -> int:
    return talk.sent + talk.received


def _mark(ok: bool | None) -> str:
    return "-" if ok is None else "yes" if ok else "NO"
