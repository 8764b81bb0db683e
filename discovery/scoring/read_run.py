"""Reads a run directory, strictly and bounded. All of it was written by others, part of it by the agent.

A part that is missing or broken is told, and the rest is read: a run that was killed is still worth its score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import run_files
from home_tar import read_home
from run_files import Unreadable, finite, parse_json, text_or_none, whole
from run_values import Answers, Command, Home, Item, Known, KnownFile, Meta, Question, Run, Seen, Witness

VERSION = 1
EVENTS_BYTES, WITNESS_BYTES, SMALL_BYTES = 1 << 30, 256 << 20, 64 << 20
MOST_WARNINGS = 20
NO_VERSION = (
    "meta.json names no version: nobody but the run's own log tells what happened. Runs of this orchestrator have it"
)
_NONE: frozenset[str] = frozenset()
T = TypeVar("T")


class Refused(Exception):
    """This cannot be scored; the text says what to do."""


@dataclass
class Warnings:
    """What was wrong with the input, a line each; beyond MOST_WARNINGS only counted."""

    told: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, text: str) -> None:
        if len(self.told) < MOST_WARNINGS:
            self.told.append(text)
        else:
            self.more += 1

    def all(self) -> list[str]:
        return self.told + ([f"and {self.more} more of such lines"] if self.more else [])


def read_run(directory: Path) -> Run:
    """All but the events. Raises Refused for what is no run directory, and for one of another version."""
    if not directory.is_dir():
        raise Refused(f"{directory}: there is no such directory. Name a run: a directory below runs/")
    if not any((directory / name).is_file() for name in ("meta.json", "events.jsonl")):
        raise Refused(f"{directory} has neither meta.json nor events.jsonl, so it is no run. Name one below runs/")
    warnings, missing = Warnings(), {}
    meta, named = _meta(directory / "meta.json", warnings)

    def part(name: str, read: Callable[[Path], T | None]) -> T | None:
        if not named:
            missing[name] = NO_VERSION
            return None
        try:
            found = read(directory / name)
        except (Unreadable, ValueError) as error:
            missing[name] = f"{name} cannot be read: {error}"
            warnings.add(missing[name])
            return None
        if found is None:
            missing[name] = f"the run has no {name}"
        return found

    witness = part("witness.jsonl", lambda path: _witness(path, warnings))
    known: Known | None = part("known.json", _known)
    answers: Answers | None = part("answers.json", _answers)
    home: Home | None = part("home.tar", read_home)
    for text in home.warnings if home else ():
        warnings.add(text)
    return Run(directory.resolve().name, meta, witness, known, answers, home, missing, tuple(warnings.all()))


def commands(directory: Path, warnings: Warnings) -> Iterator[Command]:
    """The command events in order, one in memory at a time. What cannot be read is told in `warnings`, and passed."""
    try:
        file = run_files.open_regular(directory / "events.jsonl")
    except Unreadable as error:
        warnings.add(f"{error}; scored as a run without events")
        return
    if file is None:
        warnings.add("the run has no events.jsonl; scored as a run without events")
        return
    count = 0
    with file:
        for number, line in run_files.bounded_lines(file, EVENTS_BYTES):
            if line is None:
                warnings.add(f"events.jsonl line {number} has more than {run_files.LINE_BYTES} bytes; it is left out")
                continue
            if line.isspace():
                continue
            try:
                event = parse_json(line)
            except ValueError as error:
                cut = (
                    "is cut: the run ended while it was written" if not line.endswith(b"\n") else f"is broken ({error})"
                )
                warnings.add(f"events.jsonl line {number} {cut}; the rest is scored")
                continue
            command = text_or_none(event.get("command")) if isinstance(event, dict) else None
            if command is None:
                if not isinstance(event, dict) or "post" not in event:
                    warnings.add(f"events.jsonl line {number} is neither a command nor a note; it is left out")
                continue
            count += 1
            yield _command(event, command, count, number, warnings)
        if file.read(1):
            warnings.add(f"events.jsonl has more than {EVENTS_BYTES} bytes; the rest is not scored")


def _command(event: dict[str, Any], command: str, count: int, line: int, warnings: Warnings) -> Command:
    exit_code, latency = whole(event.get("exit_code")), finite(event.get("latency_s"))
    for name, value in (("exit_code", exit_code), ("latency_s", latency)):
        if value is None:
            warnings.add(f"events.jsonl line {line}: {name} is missing or no number; it counts as unknown")
    step = whole(event.get("step"))
    return Command(
        step if step is not None and step > 0 else count,
        command,
        text_or_none(event.get("stdout")) or "",
        text_or_none(event.get("stderr")) or "",
        exit_code,
        latency if latency is not None and latency >= 0 else None,
        finite(event.get("t")),
        finite(event.get("usd")),
    )


def _meta(path: Path, warnings: Warnings) -> tuple[Meta, bool]:
    """And whether it names the version that this scorer reads."""
    try:
        content = run_files.read_bounded(path, SMALL_BYTES)
        value = {} if content is None else parse_json(content)
        if not isinstance(value, dict):
            raise ValueError("expected an object")
    except (Unreadable, ValueError) as error:
        warnings.add(f"meta.json cannot be read ({error}); scored as a run without it")
        return Meta(), False
    if value.get("version") is None:
        return Meta(mode=text_or_none(value.get("mode"))), False
    if whole(value["version"]) != VERSION:
        told = repr(value["version"])[:40]
        raise Refused(
            f"{path.parent} is a run directory of version {told}; this scorer reads version {VERSION}. "
            "Score it with the scorer of the version that recorded it"
        )
    limits, world = _object(value.get("limits")), _object(value.get("world"))
    size = world.get("size")
    return Meta(
        VERSION,
        text_or_none(value.get("engine")),
        text_or_none(value.get("image")),
        text_or_none(value.get("mode")),
        text_or_none(value.get("model")),
        finite(limits.get("seconds")),
        text_or_none(world.get("directory")),
        whole(world.get("seed")),
        text_or_none(size) if isinstance(size, str) else whole(size),
        whole(world.get("contents")),
    ), True


def _witness(path: Path, warnings: Warnings) -> Witness | None:
    file = run_files.open_regular(path)
    if file is None:
        return None
    steps: dict[int | None, Seen] = {}
    header: dict[str, Any] | None = None
    with file:
        for number, line in run_files.bounded_lines(file, WITNESS_BYTES):
            try:
                value = parse_json(line or b"")
                if not isinstance(value, dict):
                    raise ValueError("expected an object")
                if header is None:
                    header = _header(value)
                    continue
                step = value.get("step")
                if step is not None and whole(step) is None:
                    raise ValueError("expected a step's number")
            except ValueError as error:
                if header is None:
                    raise
                warnings.add(f"witness.jsonl line {number} cannot be read ({error}); figures may be too low")
                continue
            seen = _seen(value)
            if seen.overflow:
                warnings.add(f"the witness lost events in step {step}: honest figures may be too low")
            steps[step] = _joined(steps[step], seen) if step in steps else seen
    if header is None:
        raise ValueError("it is empty")
    why = {name: text for name, text in _object(header.get("why")).items() if isinstance(text, str)}
    return Witness(header.get("world") is True, header.get("home") is True, why, steps)


def _header(value: dict[str, Any]) -> dict[str, Any]:
    _of_this_version(value)
    return value


def _of_this_version(value: dict[str, Any]) -> None:
    if whole(value.get("version")) != VERSION:
        raise ValueError(f"version {repr(value.get('version'))[:40]}; expected {VERSION}")


def _seen(value: dict[str, Any]) -> Seen:
    tools = {path: text for path, text in _object(value.get("tools")).items() if isinstance(text, str)}
    return Seen(
        _paths(value.get("read")),
        _paths(value.get("listed")),
        tools,
        _paths(value.get("changed")),
        value.get("overflow") is True,
    )


def _paths(value: object) -> frozenset[str]:
    return frozenset(_texts(value)) if value else _NONE


def _joined(one: Seen, other: Seen) -> Seen:
    return Seen(
        one.read | other.read,
        one.listed | other.listed,
        {**one.tools, **other.tools},
        one.changed | other.changed,
        one.overflow or other.overflow,
    )


def _known(path: Path) -> Known | None:
    value = _read_object(path)
    return None if value is None else known_of(value)


def known_of(value: object) -> Known:
    """What known.json says. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    _of_this_version(value)
    files = [
        KnownFile(_text(one, "path"), _text(one, "sha256"), _count(one, "bytes"), _count(one, "lines"))
        for one in _objects(value, "files")
    ]
    items = [
        Item(_text(one, "id"), _text(one, "path"), _text(one, "name_nonce"), _text(one, "content_nonce"))
        for one in _objects(value, "items")
    ]
    questions = [
        Question(
            _text(one, "id"),
            _text(one, "kind"),
            _text(one, "text"),
            _text(one, "answer"),
            tuple(_texts(one.get("files"))),
        )
        for one in _objects(value, "questions")
    ]
    return Known({file.path: file for file in files}, tuple(items), tuple(questions))


def _answers(path: Path) -> Answers | None:
    value = _read_object(path)
    if value is None:
        return None
    answers = {name: text for name, text in _object(value.get("answers")).items() if isinstance(text, str)}
    return Answers(tuple(dict.fromkeys(_texts(value.get("asked")))), answers)


def _read_object(path: Path) -> dict[str, Any] | None:
    content = run_files.read_bounded(path, SMALL_BYTES)
    if content is None:
        return None
    value = parse_json(content)
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    return value


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = value.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{name}: expected a list of objects")
    return found


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _text(value: dict[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name}: expected a text")
    return found


def _count(value: dict[str, Any], name: str) -> int:
    found = whole(value.get(name))
    if found is None or found < 0:
        raise ValueError(f"{name}: expected a count")
    return found
