"""One step end to end: from the last byte of a provider's reply to the last byte of the next request, on the loopback
device. A whole agent beside mini-swe-agent and a bare client, and the layers in between, so that it is seen where the
milliseconds go. The same conversations say how many bytes a hundred steps send.

Each command also makes a file, so that no step is without an effect: a run of such steps would be ended."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.decisions import Answer, Shell, Step, by_bash, by_tools
from bench.provider import Provider, Turn
from bench.stamps import progress
from bench.tables import Figure, Table, Verdict, milliseconds, quantile, spread, times
from bench.wire import BARE, DOOR, MINI, SDK, Player
from bench.wire_agent import WireAgent

ROUNDS = 4
STEPS = 100
AGENT = "minifram: watcher, doors, runner"
COMMANDS = ("true", "seq 1 20000")
GOAL_MS = {"true": 4.0, "seq 1 20000": 8.0}
MOST_OF_FLOOR, MOST_BYTES = 1.15, 10_000_000
LAYERS = {
    BARE: "JSON, the shell",
    SDK: "the provider's SDK; no shell",
    DOOR: "the door: checks, ledger; no shell",
    AGENT: "the shell, record, effects, news",
    MINI: "",
}


class Conversation(NamedTuple):
    turns: list[Turn]
    cpu_seconds: float

    @property
    def steps(self) -> list[float]:
        """Of each step, from the reply's end to the end of the next request."""
        return [after.arrived - before.answered for before, after in zip(self.turns, self.turns[1:], strict=False)]

    @property
    def sent(self) -> int:
        return sum(turn.received_bytes for turn in self.turns[: STEPS + 1])


def run(directory: Path, rounds: int | None) -> Figure:
    wanted = rounds or ROUNDS
    provider = Provider(keeps_bodies=True)
    found: dict[str, dict[str, list[Conversation]]] = {command: {name: [] for name in LAYERS} for command in COMMANDS}
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(provider.close)
        agent = WireAgent(directory / "agent", provider)
        cleanup.callback(agent.close)
        players = {name: Player(name, provider.url, directory) for name in LAYERS if name != AGENT}
        for player in players.values():
            cleanup.callback(player.close)
        for number in range(-1, wanted):  # the first is for what is imported and compiled at the first use
            progress("wire", f"round {number + 1} of {wanted}")
            names = list(LAYERS)
            by = number % len(names)
            for command in COMMANDS:
                for name in names[by:] + names[:by]:
                    steps = _steps(command, number)
                    if name == AGENT:
                        one = Conversation(*agent.converse(by_tools(steps)))
                    else:
                        place = directory / f"work-{name.replace(' ', '-')}"
                        place.mkdir(exist_ok=True)
                        answers = by_bash(steps) if name in (BARE, MINI) else by_tools(steps)
                        one = _played(provider, players[name], place, answers)
                    if number >= 0:
                        found[command][name].append(one)
    return _figure(found)


def _steps(command: str, number: int) -> list[Step]:
    return [(Shell(f"{command}; true > made-{number}-{at}"),) for at in range(STEPS)]


def _played(provider: Provider, player: Player, place: Path, answers: Sequence[Answer]) -> Conversation:
    provider.play(answers)
    player.begin(place)
    ran = player.ended()
    return Conversation(provider.turns, ran.cpu_seconds)


def _figure(found: dict[str, dict[str, list[Conversation]]]) -> Figure:
    return Figure(
        (*(_times(command, found[command]) for command in COMMANDS), _bytes(found)),
        (*_verdicts_on_times(found), *_verdicts_on_bytes(found)),
    )


def _times(command: str, ways: dict[str, list[Conversation]]) -> Table:
    bare = spread(_all_steps(ways[BARE])).median
    rows = []
    for name, adds in LAYERS.items():
        steps = sorted(_all_steps(ways[name]))
        seen = spread(steps)
        cpu = spread([one.cpu_seconds / len(one.turns) for one in ways[name]]).median
        cells = (milliseconds(seen.median), milliseconds(seen.least), milliseconds(quantile(steps, 0.95)))
        rows.append((name, *cells, milliseconds(cpu), str(seen.rounds), times(seen.median / bare), adds))
    return Table(
        f"one step end to end, `{command}`: the provider's last byte -> the next request's last byte",
        ("", "median ms", "least", "p95", "CPU ms", "steps", "ratio", "what it adds"),
        tuple(rows),
        (
            "CPU: processor time of the program and its children for each step, the beginning of a run included; "
            "of the SDK behind the door without the door's.",
        ),
    )


def _bytes(found: dict[str, dict[str, list[Conversation]]]) -> Table:
    names = (AGENT, MINI, BARE)
    rows = tuple(
        (
            name,
            *(f"{spread([float(one.sent) for one in found[command][name]]).median / 1e6:.2f}" for command in COMMANDS),
        )
        for name in names
    )
    floor = ("the floor of the agent's `true`", f"{_floor(found['true'][AGENT][-1]) / 1e6:.2f}", "")
    return Table(
        f"MB sent in {STEPS} steps",
        ("", *(f"`{command}`" for command in COMMANDS)),
        (*rows, floor),
        ("The floor: the same system prompt and tools, and the smallest messages, with all history sent again.",),
    )


def _floor(conversation: Conversation) -> int:
    """What the same conversation takes at least: no words beside the calls, results without a text, no marks for the
    cache, no heads of requests."""
    last: dict[str, Any] = json.loads(conversation.turns[-1].body)
    messages = [
        {"role": message["role"], "content": [_least(block) for block in message["content"] if _is_needed(block)]}
        for message in last["messages"]
    ]
    plain = {key: value for key, value in last.items() if key not in ("messages", "system", "tools", "cache_control")}
    plain |= {key: [_unmarked(block) for block in last[key]] for key in ("system", "tools")}
    opening = len(messages) - 2 * (len(conversation.turns) - 1)
    return sum(
        len(json.dumps(plain | {"messages": messages[: opening + 2 * at]}, separators=(",", ":")).encode())
        for at in range(len(conversation.turns))
    )


def _is_needed(block: dict[str, Any]) -> bool:
    return bool(block["type"] != "text" or block["text"] == "Continue.")


def _least(block: dict[str, Any]) -> dict[str, Any]:
    least = _unmarked(block)
    is_step = least["type"] == "tool_result" and not least["tool_use_id"].startswith("opening")
    return least | {"content": ""} if is_step else least


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _verdicts_on_times(found: dict[str, dict[str, list[Conversation]]]) -> list[Verdict]:
    verdicts = []
    for command, goal in GOAL_MS.items():
        ours, mini = (spread(_all_steps(found[command][name])).median for name in (AGENT, MINI))
        met = ours * 1000 <= goal
        told = f"a step of `{command}` end to end: {milliseconds(ours)} ms, {times(ours / mini)} of mini-swe-agent's"
        quiet = f" (load {os.getloadavg()[0]:.1f})"
        verdicts.append(
            Verdict(met, f"{told}; goal on a quiet machine at most {goal:g} ms: {'met' if met else 'MISSED'}{quiet}")
        )
    return verdicts


def _verdicts_on_bytes(found: dict[str, dict[str, list[Conversation]]]) -> list[Verdict]:
    small, large = (found[command][AGENT][-1] for command in COMMANDS)
    share = small.sent / _floor(small)
    return [
        Verdict(
            share <= MOST_OF_FLOOR,
            f"{STEPS} steps of `{COMMANDS[0]}` send {times(share)} of the floor; goal at most {MOST_OF_FLOOR:g}x",
        ),
        Verdict(
            large.sent <= MOST_BYTES,
            f"{STEPS} steps of `{COMMANDS[1]}` send {large.sent / 1e6:.2f} MB; goal at most {MOST_BYTES / 1e6:g}",
        ),
    ]


def _all_steps(conversations: Sequence[Conversation]) -> list[float]:
    return [step for one in conversations for step in one.steps]
