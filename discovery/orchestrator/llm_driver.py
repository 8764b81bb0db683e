"""Who explores: a person by standard input, a model behind a door, or an earlier run that is played again.

Extension point: another driver is a subclass of `LLMDriver` and a name in MODES."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import blocks
from record import commands
from shell import Result

with contextlib.suppress(ImportError):
    import readline  # noqa: F401 - at a terminal, input() then takes lines of any length and whole pastes


class LLMDriver:
    """A stub that ends the run at once, and the interface of all drivers."""

    model: str | None = None
    usd: float | None = None
    """Spent so far; None where nothing is counted."""
    ended_by = "empty input"

    def decide(self) -> str:
        """The next pre-exec block; an empty one ends the run. Raises BlockError for one that cannot be meant."""
        return ""

    def refused(self, why: str) -> None:
        """The last block was not carried out; `decide` is asked again."""

    def note(self, result: Result, restarted: bool) -> str:
        """The post-exec block for an executed command, or empty. `restarted`: its container had to be."""
        return ""

    def answer(self, questions: list[dict[str, str]]) -> dict[str, str]:
        """Answers by the id of their question, asked after the run."""
        return {}


class ManualDriver(LLMDriver):
    """A person at a terminal, or whatever writes to the pipe.

    A block ends with a blank line after the text of its last section, with a line that holds only '.', or with the
    input. At a terminal an empty block ends the run; in a pipe, blank lines between blocks are passed over."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        """Lines that were read and belong to what is asked for next."""
        self._terminal = sys.stdin.isatty()
        for stream in (sys.stdin, sys.stdout):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        print("A block ends with an empty line after <OnError>, or with a line '.'; an empty block ends the run.\n")
        print(f"{blocks.FORM}\n", flush=True)

    def decide(self) -> str:
        return self._block("block> ", blocks.PRE)

    def refused(self, why: str) -> None:
        print(f"refused: {why}\n", flush=True)

    def note(self, result: Result, restarted: bool) -> str:
        text = shown(result, restarted)
        # An output must not steer the terminal.
        print("".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text), flush=True)
        return self._block("note> ", blocks.POST)

    def answer(self, questions: list[dict[str, str]]) -> dict[str, str]:
        print(f"{len(questions)} questions about the world; an empty line skips one.")
        found = {}
        for question in questions:
            print(question["text"], flush=True)
            found[question["id"]] = next(self._lines("answer> "), "").strip()
        return found

    def _block(self, prompt: str, kind: tuple[str, ...]) -> str:
        taken: list[str] = []
        for line in self._lines(prompt):
            text, tag = "\n".join(taken), blocks.tag_of(line)
            no_note = kind is blocks.POST and tag in blocks.PRE and not blocks.sections(text)
            if tag and (blocks.is_whole(text) or no_note):  # the next block has begun
                self._waiting.insert(0, line)
                break
            if line.strip() == ".":
                break
            if line.strip():
                taken.append(line)
            elif not taken:
                if self._terminal:
                    break
            elif blocks.is_whole(text) or not blocks.sections(text):
                break
            else:
                taken.append(line)
        return "\n".join(taken)

    def _lines(self, prompt: str) -> Iterator[str]:
        while True:
            if not self._waiting:
                try:
                    given = input(prompt if self._terminal else "")
                except EOFError:
                    return
                self._waiting = given.split("\n")
                if len(self._waiting) > 1:  # a paste, with any number of blank lines at its end: one counts
                    self._waiting = given.rstrip().split("\n")
                    self._waiting += [""] if self._waiting[-1].strip() != "." else []
            yield self._waiting.pop(0)
            prompt = ""


class ReplayDriver(LLMDriver):
    """The blocks of an earlier run, in any container: one as new as its own was shows what comes out differently."""

    def __init__(self, run: Path) -> None:
        self._plans = iter([str(event["plan"]) for event in commands(run)])

    def decide(self) -> str:
        return next(self._plans, "")


BEGIN = """\
Begin. Each reply of yours is the post-exec block for the result that you were just shown, then the next pre-exec \
block with exactly one command. When you have nothing more to find out, reply with the post-exec block alone."""
QUESTIONS = """\
The exploration is over. Answer from what you have seen, each in a line `ID: ANSWER`; leave out what you do not know."""
SHOWN_CHARS, SHORT_CHARS = 8000, 300
"""Of a result's streams: when it is new, and when it is old."""
WHOLE_TURNS, KEPT_TURNS = 24, 240
"""The last turns, two a step, with whole results; and all that are sent."""
PAUSES_SECONDS = (1, 4, 15, 60, 300)
MOST_REFUSALS = 5
"""In a row; then the run ends."""
PASSING = ("rate_limited", "unavailable", "provider_error")
"""Failures that may be gone at the next try."""


class DoorFailure(Exception):
    """A call that gave no completion, in the door's own words."""


class ModelDriver(LLMDriver):
    """A model behind a door that listens at a unix socket: one call a step. The door has key, ledger and budget."""

    usd = 0.0

    def __init__(
        self, prompt: str, socket_path: str, most_usd: float, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Raises DoorFailure."""
        self._prompt, self._socket, self._most_usd, self._sleep = prompt, socket_path, most_usd, sleep
        self._talk: list[tuple[str, str, str]] = [("user", BEGIN, BEGIN)]
        """Role, text, and the text's place holder once it is old."""
        self._next: str | blocks.BlockError | None = None
        self._refusals = 0
        health = self._asked({"do": "health"})
        if health.get("problem"):
            raise DoorFailure(health["problem"])
        self.model = f"{health.get('provider', '')} {health.get('model', '')}".strip()

    def decide(self) -> str:
        if self._refusals >= MOST_REFUSALS:
            self.ended_by = f"{MOST_REFUSALS} refused blocks in a row"
            return ""
        if self._next is None:
            self._step()
        block, self._next = self._next or "", None
        if isinstance(block, blocks.BlockError):
            raise block
        return block

    def refused(self, why: str) -> None:
        self._refusals += 1
        self._hear(f"This block was not carried out: {why}")

    def note(self, result: Result, restarted: bool) -> str:
        self._refusals = 0
        self._hear(shown(result, restarted, SHOWN_CHARS), shown(result, restarted, SHORT_CHARS))
        return self._step()

    def answer(self, questions: list[dict[str, str]]) -> dict[str, str]:
        self._hear("\n".join([QUESTIONS, *(f"{one['id']}: {one['text']}" for one in questions)]))
        try:
            said, _ = self._complete()
        except DoorFailure:
            return {}
        found = {one["id"]: re.search(rf"^\W*{re.escape(one['id'])}\W*:(.*)$", said, re.M) for one in questions}
        return {name: line[1].strip(" `*.") for name, line in found.items() if line}

    def _step(self) -> str:
        """Keeps the next pre-exec block and returns the post-exec block."""
        self._next, self.ended_by = "", "model"
        if self.usd > 0.8 * self._most_usd:  # the rest is for the answers
            self.ended_by = "budget"
            return ""
        try:
            said, cut = self._complete()
        except DoorFailure as failure:
            self.ended_by = f"model: {failure}"
            return ""
        if cut:
            self._next = blocks.BlockError(said, "your reply was cut at the limit of tokens; reply again, shorter")
            return ""
        post, self._next = blocks.split(said)
        return post

    def _hear(self, text: str, short: str = "") -> None:
        self._talk.append(("user", text, short or text))

    def _complete(self) -> tuple[str, bool]:
        """The model's text, and whether the limit of tokens cut it. Raises DoorFailure."""
        # Turns become short, and leave, many at once: a provider's cache knows a conversation by its beginning.
        old = (len(self._talk) - WHOLE_TURNS) // WHOLE_TURNS * WHOLE_TURNS
        first = max(1, old + WHOLE_TURNS - KEPT_TURNS)
        sent = [(role, short if at < old else text) for at, (role, text, short) in enumerate(self._talk)]
        messages = [
            {"role": role, "content": [{"type": "text", "text": text}]} for role, text in (sent[0], *sent[first:])
        ]
        request = {"system": [self._prompt], "messages": messages, "tools": []}
        answer = self._asked({"do": "complete", "request": request})
        said = "\n".join(block["text"] for block in answer["content"] if block["type"] == "text").strip()
        self.usd += answer.get("usd", 0.0)
        self._talk.append(("assistant", said or "(nothing)", said or "(nothing)"))
        return said, answer["stop_reason"] == "max_tokens"

    def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """Asks again while the failure may pass. Raises DoorFailure."""
        for pause in (*PAUSES_SECONDS, None):
            try:
                told = _exchange(self._socket, request)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                raise DoorFailure(f"nobody listens at {self._socket}: {error.strerror}") from None
            except (OSError, ValueError) as error:
                told = {"failure": {"type": "unavailable", "message": str(error)}}
            failure = told.get("failure")
            if not failure:
                answer: dict[str, Any] = told["answer"]
                return answer
            if failure["type"] not in PASSING or pause is None:
                raise DoorFailure(f"{failure['type']}: {failure['message']}")
            print(f"the model did not answer ({failure['type']}); asked again in {pause} s", file=sys.stderr)
            self._sleep(pause)
        raise AssertionError("unreachable")


def _exchange(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """A line of JSON each way."""
    # Outputs may hold characters that UTF-8 cannot encode.
    line = json.dumps(request, ensure_ascii=False).encode(errors="replace") + b"\n"
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(1800)
        door.connect(path)
        door.sendall(line)
        with door.makefile("rb") as answers:
            told: dict[str, Any] = json.loads(answers.readline())
    return told


def shown(result: Result, restarted: bool, limit: int = 1 << 30) -> str:
    """A result in words; of each stream, `limit` characters."""
    ended = f"--- exit code {result.exit_code}, {result.latency_s:.2f} s"
    parts = [ended + ("; the container had to be started again" if restarted else "")]
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        if len(text) > limit:
            half = limit // 2
            text = f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
        parts += [f"--- {name}\n{text}"] if text else []
    return "\n".join(parts)


def _model(prompt: str, environ: Mapping[str, str]) -> LLMDriver:
    try:
        most_usd = float(environ.get("DISCOVERY_USD") or "inf")
    except ValueError:
        most_usd = 0.0
    if not most_usd > 0:
        raise ValueError(f"DISCOVERY_USD is {environ['DISCOVERY_USD']!r}; expected US dollars for one run, such as 0.5")
    return ModelDriver(prompt, _given(environ, "MINIFRAM_MODEL_SOCKET", "the socket of a model door"), most_usd)


def _given(environ: Mapping[str, str], name: str, what: str) -> str:
    if not environ.get(name):
        raise ValueError(f"{name} is not set; expected {what}")
    return environ[name]


MODES: dict[str, Callable[[str, Mapping[str, str]], LLMDriver]] = {
    "manual": lambda prompt, environ: ManualDriver(),
    "replay": lambda prompt, environ: ReplayDriver(Path(_given(environ, "DISCOVERY_REPLAY", "the directory of a run"))),
    "minifram": _model,
}
"""By the value of LLM_MODE."""
