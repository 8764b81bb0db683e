"""The same decisions of a model, carried out by mini-swe-agent, which keeps everything in the conversation, and by a
whole agent of ours: by tools, and by operations in text. On loopback, at the wire of the provider: how long a step
takes, from the last byte of a reply to the last byte of the next request; how many bytes are sent; and whether the
work is done.

What is decided is written down beforehand. Each command changes a file, so that no step is without an effect: a run of
such steps would be ended. Ours is answered by a stream, as it asks; the peer, which cannot read one, at once."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import MINI, installed, mini
from bench.tables import Table, against, rounds, times
from tests.keep.model_door import peer
from tests.keep.model_door.wire import Answer, Counts, Reaction, Say, Use, Wire
from tests.whole.owner import Owner

ROUNDS = 4
OURS, BY_TEXT = "minifram, tools", "minifram, operations"
MOST_BYTES = 1.2
HEAD = ("bytes of all requests", "calls", "MB", "ratio", "goal", "done")
SUBMIT = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
"""So mini-swe-agent is told that the work is done."""
Act = dict[str, str]
"""A command for bash, or a path and the content that is written there."""


class Player(NamedTuple):
    name: str
    place: Path
    """Where the files come to lie."""
    work: Callable[[], object]


class Task(NamedTuple):
    acts: Sequence[Act]
    files: Mapping[str, str]
    """What they hold when the work is done."""
    most: float | None = None
    """The goal of a step by tools, beside the peer."""


NUMBERS = {"numbers": "".join(f"{number}\n" for number in range(100))}
PAGES = {f"pages/{number}.md": f"# Page {number}\n" + "A line of a page.\n" * 100 for number in range(40)}
TASKS = {
    "small steps": Task([{"command": f"echo {number} >> numbers"} for number in range(100)], NUMBERS, 0.65),
    "large outputs": Task(
        [{"command": f"seq 1 20000; echo {number} >> numbers"} for number in range(100)], NUMBERS, 0.7
    ),
    "many files": Task([{"path": path, "content": text} for path, text in PAGES.items()], PAGES),
}


def run(directory: Path, count: int) -> list[Table]:
    there, notes = installed(MINI)
    tables, rows = list[Table](), list[tuple[str, ...]]()
    with Provider() as provider, contextlib.ExitStack() as cleanup:
        players = [Player(name, directory, partial(mini, directory, provider.url)) for name in there]
        for name in (OURS, BY_TEXT):
            agent = cleanup.enter_context(contextlib.closing(WholeAgent(directory / name, provider.url, name == OURS)))
            players.append(Player(name, agent.bot / "main/minifram", agent.work))
        for name, task in TASKS.items():
            came: dict[str, tuple[int, int, bool]] = {}
            ways = {player.name: partial(_played, provider, player, task, came) for player in players}
            goals = {OURS: task.most} if there and task.most else {}
            tables.append(times(f"{name}: a step", rounds(count, ways), goals))
            for who, (calls, sent, is_done) in came.items():
                ratio = against(sent / came[players[0].name][1], MOST_BYTES if who in goals else None)
                rows.append((f"{name}: {who}", str(calls), f"{sent / 1e6:.3f}", *ratio, "yes" if is_done else "NO"))
    return [*tables, Table("the same work, said in different ways", HEAD, rows, notes)]


def _played(provider: Provider, player: Player, task: Task, came: dict[str, tuple[int, int, bool]], _: int) -> float:
    """Seconds of a step; into `came` go the calls, the bytes, and whether the work is done."""
    files = {player.place / path: text for path, text in task.files.items()}
    for path in files:
        path.unlink(missing_ok=True)
    provider.play(task.acts)
    player.work()
    asked = [request for request in provider.requests if request.body]
    is_done = all(path.is_file() and path.read_text() == text for path, text in files.items())
    came[player.name] = len(asked), sum(request.size for request in asked), is_done
    pairs = zip(provider.answered, asked[1:], strict=False)
    return statistics.median(after.arrived - answered for answered, after in pairs)


class Provider(Wire):
    """Says what `play` was given, one act in each reply."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self._acts: Iterator[Act] = iter(())

    def play(self, acts: Sequence[Act]) -> None:
        self._acts = iter(acts)
        self.requests.clear()
        self.answered.clear()

    def _say(self, body: dict[str, Any]) -> Reaction:
        act = next(self._acts, None)
        if not body.get("stream"):
            whole = json.dumps(_chat(act or SUBMIT, len(self.requests))).encode()
            return peer.Answer((whole,), content_type="application/json")
        if not act:
            blocks: tuple[Say | Use, ...] = (Say("The work is done.", 1),)
        elif body.get("tools"):
            blocks = Say("Next.", 1), Use("bash" if "command" in act else "write_file", act, piece_length=1 << 20)
        else:
            kind = {"type": "shell"} if "command" in act else {"type": "createFile", "replace": True}
            blocks = (Say(f"Next.\n{json.dumps([kind | act])}", 1),)
        cached = self.requests[-1].size // 32  # fewer would not be believed
        return Answer(blocks, usage=Counts(1, 10, cache_read=cached), pings=0)


def _chat(act: Act, number: int) -> dict[str, Any]:
    """OpenAI's format, with the one tool that mini-swe-agent has."""
    write = "mkdir -p $(dirname {path}) && cat > {path} <<'END'\n{content}END"
    arguments = json.dumps({"command": act.get("command") or write.format(**act)})
    call = {"id": f"call_{number:020}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    message = {"role": "assistant", "content": "Next.", "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


class WholeAgent(Owner):
    """Watcher, doors and runner, as a PM starts them; each conversation is one directive."""

    def __init__(self, directory: Path, url: str, tools: bool) -> None:
        directory.mkdir()
        super().__init__(directory, {"ANTHROPIC_API_KEY": "bench-key-that-opens-nothing"})
        self.minifram("init", "--sandbox", "process")
        model = {"provider": "anthropic", "name": "bench", "base_url": url, "tools": tools}
        model |= {"prices": {"bench": {"input": 0.001, "output": 0.001}}}
        self.settings.write_text(json.dumps({"sandbox": "process", "model": model}))
        self.minifram("up")
        self._said = 0

    def work(self) -> None:
        """Until its report is on main."""
        self._said += 1
        self.minifram("tell", f"Work, time {self._said}.")
        self.told(f"done: Work, time {self._said}.", 120)
