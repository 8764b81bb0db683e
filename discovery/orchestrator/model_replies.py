"""What a model is shown of a result, and what its replies say. Pure.

A reply holds the post-exec block for the last result and the next pre-exec block, in either order. What is in the
pre-exec block is not judged here: that is the same parser's as for a person."""

from __future__ import annotations

import re
from typing import NamedTuple

import blocks
from llm_driver import Question, Result

_DONE = re.compile(r"^[ \t>*#-]*<[ \t]*(?:/[ \t]*)?done[ \t]*(?:/[ \t]*)?>", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(```|~~~)[\w-]*[ \t]*$", re.MULTILINE)
_ANSWER = r"^[ \t>*#-]*[`\"'*\[(]*{id}[`\"'*\])]*[ \t]*[:=.)-]+[ \t]*(.*)$"

STREAM_CHARS = 8000
"""Of stdout, and of stderr, as the model is shown a result."""
SHORT_CHARS = 300
"""The same once the conversation has grown too long."""
_UNKNOWN = frozenset(["", "-", "?", "unknown", "i don't know", "i do not know", "not known", "n/a", "none"])


class Reply(NamedTuple):
    post: str
    """The post-exec block, or empty."""
    pre: str
    """The pre-exec block, or whatever else stands there; empty when the model is done."""


def split_reply(text: str) -> Reply:
    """A reply without a command that says `<Done>`, or nothing, has an empty `pre`."""
    pieces: dict[bool, list[str]] = {True: [], False: []}
    found = list(_tags(text))
    ends = [*(place for place, _ in found[1:]), len(text)]
    for (place, name), end in zip(found, ends[: len(found)], strict=True):
        pieces[name in blocks.POST].append(text[place:end])
    post, pre = ("".join(pieces[is_post]) for is_post in (True, False))
    if not any(name == "command" for _, name in found):
        # Words without a command are for the parser, which says what is missing.
        pre = "" if _DONE.search(text) else text
    return Reply(_unfenced(_DONE.sub("", post)), _unfenced(pre))


def _tags(text: str) -> list[tuple[int, str]]:
    """Places and names of the tags that begin a section. A command may itself write such lines, into a here-document:
    where an <Expected> or <OnError> follows, the command lasts until there, for the parser to refuse it whole."""
    every, place = list[tuple[int, str]](), 0
    for line in text.split("\n"):
        tag = blocks.tag(line)
        if tag and not tag.closes:
            every.append((place, tag.name))
        place += len(line) + 1
    kept: list[tuple[int, str]] = []
    for number, (place, name) in enumerate(every):
        inside = bool(kept) and kept[-1][1] == "command" and name in blocks.POST
        if inside and any(later in ("expected", "onerror") for _, later in _before_command(every[number:])):
            continue
        kept.append((place, name))
    return kept


def _before_command(tags: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Up to the next block's own beginning."""
    names = [name for _, name in tags]
    ends = [names.index(name) for name in ("intent", "command") if name in names]
    return tags[: min(ends, default=len(tags))]


def _unfenced(block: str) -> str:
    """Without a fence that only opens or only closes: the other half went with the other block."""
    fences = list(_FENCE.finditer(block))
    if len(fences) % 2:
        outer = fences[0] if not block[: fences[0].start()].strip() else fences[-1]
        block = block[: outer.start()] + block[outer.end() :]
    return block.strip()


def shown_result(result: Result, limit: int = STREAM_CHARS) -> str:
    """The result in words, each stream cut in its middle to `limit` characters."""
    ended = "it was ended at the time limit" if result.timed_out else f"exit code {result.exit_code}"
    back = "; the container had stopped and was started again" if result.restarted else ""
    lines = [f"Result of step {result.step}: {ended}, {result.latency_s:.2f} s{back}"]
    for name, text, size in (
        ("stdout", result.stdout, result.stdout_bytes),
        ("stderr", result.stderr, result.stderr_bytes),
    ):
        if text or size:
            lines += [f"{name} ({size} bytes):", cut_middle(text, limit)]
        elif name == "stdout":
            lines.append("stdout: empty")
    return "\n".join(lines)


def cut_middle(text: str, limit: int) -> str:
    """`text`, or its two ends and how much is missing between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[len(text) - half :]}"


def asked_questions(questions: list[Question]) -> str:
    """What the model is asked after the run."""
    lines = [f"{question.id}: {question.text}" for question in questions]
    return "\n".join(
        [
            "The exploration is over, and no command is run any more. Answer these questions from what you have seen. "
            "For each, write one line `ID: ANSWER` with nothing but the answer after the colon; where you do not know, "
            "write `ID: unknown`.",
            "",
            *lines,
        ]
    )


def read_answers(text: str, questions: list[Question]) -> dict[str, str]:
    """The answers by the questions' ids, without those that are not known. The last line for an id counts."""
    answers = {}
    for question in questions:
        line = _ANSWER.replace("{id}", re.escape(question.id))
        for found in re.finditer(line, text, re.IGNORECASE | re.MULTILINE):
            answer = found[1].strip().strip("`*\"'").strip()
            if answer.rstrip(".").lower() not in _UNKNOWN:
                answers[question.id] = answer
            else:
                answers.pop(question.id, None)
    return answers
