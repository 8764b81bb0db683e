"""A scripted model on the provider of the tests (`tests/keep/model_door/wire.py`): what it decides is written down
beforehand, and said as each asks for it: by our tools, by operations in text, or by mini-swe-agent's one tool. And a
whole agent of ours on its wire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.keep.model_door import peer
from tests.keep.model_door.wire import Answer, Counts, Reaction, Say, Use, Wire
from tests.whole.owner import Owner

DONE = "Done: the work is finished."
SUBMIT = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
"""So mini-swe-agent is told that the work is done."""
Act = dict[str, str]
"""A command for bash, or a path and the content that is written there."""


class Provider(Wire):
    """Says what `play` was given, one act in each reply."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self._acts: Iterator[Act] = iter(())

    def play(self, acts: Sequence[Act]) -> None:
        self._acts = iter(acts)
        self.requests.clear()
        self.answered.clear()

    def sent(self) -> int:
        """Bytes of all requests."""
        return sum(request.size for request in self.requests)

    def steps(self) -> list[float]:
        """Seconds from the last byte of each reply to the last byte of the next request."""
        asked = [request.arrived for request in self.requests if request.body]
        return [after - answered for answered, after in zip(self.answered, asked[1:], strict=False)]

    def _say(self, body: dict[str, Any]) -> Reaction:
        act = next(self._acts, None)
        if not body.get("stream"):
            whole = json.dumps(_chat(act or SUBMIT, len(self.requests))).encode()
            return peer.Answer((whole,), content_type="application/json")
        if not act:
            blocks: tuple[Say | Use, ...] = (Say(DONE, 1),)
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

    def __init__(self, directory: Path, url: str, tools: bool = True) -> None:
        directory.mkdir()
        super().__init__(directory, {"ANTHROPIC_API_KEY": "bench-key-that-opens-nothing"})
        self.minifram("init", "--sandbox", "process")
        model = {"provider": "anthropic", "name": "bench", "base_url": url, "tools": tools}
        model |= {"prices": {"bench": {"input": 0.001, "output": 0.001}}}
        self.settings.write_text(json.dumps({"sandbox": "process", "model": model}))
        self.minifram("up")
        self.checkout = self.bot / "main/minifram"
        self._said = 0

    def work(self) -> None:
        """Until its report is on main."""
        self._said += 1
        self.minifram("tell", f"Work, time {self._said}.")
        self.told(f"done: Work, time {self._said}.", 120)
