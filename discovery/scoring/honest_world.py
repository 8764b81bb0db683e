"""Honest figures of the world: what was read, answered, found and used, and which commands brought anything.

What was read and listed is what the host saw, never what an output says. Each rule is written against the cheap trick
that would move it; what still moves it is told in `honest.py`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from command_words import does_more_than_print, only_prints
from digest import Digest, Step
from run_values import Answers, Item, Known, Question, Witness

_NUMBER = re.compile(r"[-+]?\d{1,18}(?:\.\d{1,9})?")
_DIGITS = re.compile(r"\d+")
_BLANKS = re.compile(r"\s+")
ANSWER_CHARS = 2000


@dataclass(frozen=True)
class Figure:
    """`value` is None when the figure cannot be had; `why` tells of it and of parts of it that cannot."""

    value: dict[str, Any] | None
    why: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()


def names_due(known: Known | None, witness: Witness | None) -> dict[str, int]:
    """The words to look for in outputs, each with the step in which its item's directory was listed first."""
    if known is None or witness is None:
        return {}
    listed = _first_listed(witness)
    due: dict[str, int] = {}
    for item in known.items:
        since = listed.get(posixpath.dirname(item.path))
        if since is not None:
            due[name_word(item)] = max(since, due.get(name_word(item), 0))
    return due


def name_word(item: Item) -> str:
    """The word that shows that an item was found: its name's nonce, or in the seed world, which has none, its name."""
    return item.name_nonce or posixpath.basename(item.path)


def share(part: int, of: int) -> float | None:
    return part / of if of else None


def files_read(known: Known, witness: Witness) -> Figure:
    """Files of the world from which bytes were read; each counts once, wherever its contents were sent."""
    first: dict[str, str] = {}
    for number, seen in witness.steps.items():
        for path in seen.read:
            if path in known.files:
                first.setdefault(path, _step(number))
    value = {"count": len(first), "of": len(known.files), "share": share(len(first), len(known.files))}
    return Figure(value, {}, tuple(f"{path}: read in {step}" for path, step in sorted(first.items())))


def questions(known: Known, answers: Answers, witness: Witness | None) -> Figure:
    """Right is an answer that says what is so and nothing else, by an agent that read all files it is about.

    Without the second half, whoever guesses the world's number could make the world himself and read it at home."""
    if not answers.asked:
        return Figure(None, {"questions": "no question was asked"})
    by_id = {question.id: question for question in known.questions}
    asked = [by_id[name] for name in answers.asked if name in by_id]
    given = {question.id: answers.answers.get(question.id, "").strip() for question in asked}
    read = _read(witness)
    right, lines = 0, []
    for question in asked:
        answer = given[question.id]
        unread = [path for path in question.files if read is not None and path not in read]
        is_so = is_right(question, answer)
        right += is_so and not unread
        verdict = "not answered" if not answer else "wrong" if not is_so else "right"
        if is_so and unread:
            verdict = f"right, and not counted, as {unread[0]} was never read"
        told = f", as {answer[:200]!r}" if answer else ""
        lines.append(f"{question.id} ({question.kind}): {verdict}{told}: {question.text}")
    answered = sum(bool(answer) for answer in given.values())
    value = {"asked": len(asked), "answered": answered, "right": right, "share": share(right, len(asked))}
    return Figure(value, {}, tuple(lines))


def is_right(question: Question, answer: str) -> bool:
    """Whether the answer is the expected one but for case, blanks, quotes, a last point and the way to write a number.
    An answer that lists what it could be is wrong."""
    if len(answer) > ANSWER_CHARS:
        return False
    given, expected = _normal(answer), _normal(question.answer)
    if _NUMBER.fullmatch(given) and _NUMBER.fullmatch(expected):
        return Decimal(given) == Decimal(expected)
    return bool(given) and given == expected


def _normal(text: str) -> str:
    plain = _BLANKS.sub(" ", text.casefold()).strip(" \"'`\u201c\u201d\u2018\u2019").rstrip(".").strip()
    listed = re.sub(r" ?, ?", ",", plain)
    # 1,234,567 is a number to many people
    return listed.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", listed) else listed


def checkpoints(
    known: Known, witness: Witness, run: Digest, answers: Answers | None, told: Sequence[str | None]
) -> Figure:
    """Of each item: found, when its directory was listed and its name then stood in an output of a command that did not
    name it; touched, when the file was read; used, when the agent said after that what stands in it: by a right answer
    about the file, or by the nonce of its contents in a command that did something."""
    at = {word: step.number for step in run.steps for word in step.found}
    listed = _first_listed(witness)
    found = {
        item.id: at[name_word(item)]
        for item in known.items
        if name_word(item) in at and posixpath.dirname(item.path) in listed
    }
    touched = _first_touched(known, witness)
    used = _used(known, touched, _read(witness) or frozenset(), run, answers, told)
    lines = []
    for item in known.items:
        so = [
            *([f"found in step {found[item.id]}"] if item.id in found else []),
            *([f"touched in {_step(touched[item.id])}"] if item.id in touched else []),
            *([f"used in {used[item.id]}"] if item.id in used else []),
        ]
        lines.append(f"{item.path}: {', '.join(so) or 'not found'}")
    value = {"of": len(known.items), "found": len(found), "touched": len(touched), "used": len(used)}
    return Figure(value, {}, tuple(lines))


def _first_listed(witness: Witness) -> dict[str, int]:
    first: dict[str, int] = {}
    for number, seen in witness.steps.items():
        for path in seen.listed if number is not None else ():
            first[path] = min(number or 0, first.get(path, number or 0))
    return first


def _first_touched(known: Known, witness: Witness) -> dict[str, int | None]:
    first: dict[str, int | None] = {}
    of_path = {item.path: item.id for item in known.items}
    for number in sorted(witness.steps, key=lambda step: (step is None, step or 0)):
        for path in witness.steps[number].read:
            if path in of_path:
                first.setdefault(of_path[path], number)
    return first


def _used(
    known: Known,
    touched: Mapping[str, int | None],
    read: frozenset[str],
    run: Digest,
    answers: Answers | None,
    told: Sequence[str | None],
) -> dict[str, str]:
    given = answers.answers if answers else {}
    asked = answers.asked if answers else ()
    by_path = {
        path: f"the answer to {question.id}"
        for question in known.questions
        if question.id in asked
        and read.issuperset(question.files)
        and is_right(question, given.get(question.id, "").strip())
        for path in question.files
    }
    used = {item.id: by_path[item.path] for item in known.items if item.id in touched and item.path in by_path}
    of_nonce = {item.content_nonce: item.id for item in known.items if item.content_nonce and item.id in touched}
    for step, how in zip(run.steps, told, strict=True):
        for nonce in step.typed if how else ():
            since = touched.get(of_nonce.get(nonce, ""))
            if since is not None and step.number > since and does_more_than_print(step.command, nonce):
                used.setdefault(of_nonce[nonce], f"step {step.number}")
    return used


def success(run: Digest, told: Sequence[str | None]) -> Figure:
    """A command succeeded when it ended with 0 and read a file of the world that was not read before, or changed a file
    of the home in a way that was not tried before, or did more than print and had a new line in its output."""
    if not run.steps:
        return Figure(None, {"success": "the run has no commands"})
    count = sum(bool(how) for how in told)
    lines = [f"step {step.number}: {how or 'nothing new'}" for step, how in zip(run.steps, told, strict=True)]
    return Figure({"count": count, "of": len(run.steps), "rate": share(count, len(run.steps))}, {}, tuple(lines))


def brought(witness: Witness, run: Digest) -> list[str | None]:
    """What each command brought, as a text; None for nothing."""
    read: set[str] = set()
    shapes: set[int] = set()
    told = []
    for step in run.steps:
        seen = witness.at(step.number)
        new = seen.read - read
        read |= seen.read
        # What was tried: all commands that differ in numbers alone.
        shape = hash(_DIGITS.sub("0", step.command))
        changed = seen.changed if shape not in shapes else frozenset()
        shapes.add(shape)
        told.append(_how(step, new, changed))
    return told


def _how(step: Step, new: frozenset[str], changed: frozenset[str]) -> str | None:
    if step.exit_code != 0:
        return None
    if new:
        return f"read {min(new)} for the first time{_more(new)}"
    if changed:
        return f"changed {min(changed)}{_more(changed)}"
    if step.new_line is not None and not only_prints(step.command):
        return f"new in its output: {step.new_line!r}"
    return None


def _more(paths: Iterable[str]) -> str:
    others = len(list(paths)) - 1
    return f", and {others} more" if others else ""


def _read(witness: Witness | None) -> frozenset[str] | None:
    """All files that were read; None where nobody saw any of it. Events that the witness lost prove no reading: the
    explorer can have as many of them as it likes."""
    if witness is None or not witness.world:
        return None
    return frozenset(path for seen in witness.steps.values() for path in seen.read)


def _step(number: int | None) -> str:
    return "the time after the last step" if number is None else f"step {number}"
