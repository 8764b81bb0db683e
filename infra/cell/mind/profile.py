"""A profile of the context: what of the mind was placed before a run, what of that the run used, how it ended. One line
for each run; a week of them becomes `logs/health/context-profile-YYYY-Www.json`, and what is placed often and never
used a proposal.

That something was used is seen by its traces in what the model said and did: its id, its file, or enough of the words
that the work itself did not bring. A guess, good for counting alone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from infra.cell.loop.loop import Acting, Answered, Event, RunResult
from infra.cell.mind.duties import Period
from infra.cell.mind.files import read_regular
from infra.cell.mind.reflections import tell_improvement
from infra.cell.mind.search import Hit
from infra.cell.mind.tiers import PlacedContext, tokens_of
from infra.cell.run_states import StopReason
from infra.shared.clock import moment, timestamp
from infra.shared.conversation import Text
from infra.shared.mind import layout
from infra.shared.mind.sections import document_of
from infra.shared.redacted_file import RedactedFile

LINES: Final = f"{layout.SCRATCH}/context-profile.jsonl"
LEAST_LOADED: Final = 10
"""Runs, before a section that was never used is proposed to be left out."""
LEAST_WORDS, LEAST_SHARE = 3, 0.25
"""So many of the distinctive words of a section, and this share of them, are its trace."""
WORD_CHARS = 5
MOST_WORDS, MOST_SAID_WORDS = 60, 50_000
MOST_LINES, MOST_BYTES = 5_000, 16 << 20
MOST_PROPOSED = 20
_WORD = re.compile(rf"[^\W_]{{{WORD_CHARS},}}")
_NAMES_WHAT = re.compile(r"[A-Z]{1,12}-[0-9]{1,12}|[\w./-]+\.md")


class RunProfile:
    """Of one run, while it goes on."""

    def __init__(self, placed: PlacedContext, words: str) -> None:
        self._known = set(_words(words))
        """Of the work; no trace of anything."""
        self._placed = placed
        self._loaded: dict[str, tuple[str, int, set[str]]] = {}
        """Tier, tokens and distinctive words, by `path#section`."""
        self._said = set[str]()
        self._named = set[str]()
        for part in placed.parts:
            if part.path:
                document = document_of(part.text)
                for where, text in [(f"{part.path}#{each.id}", each.text) for each in document.sections] or [
                    (part.path, part.text)
                ]:
                    self._load(where, part.tier.value, text)
        for hit in placed.hits:
            self._load(hit.where, "MEDIUM", f"{hit.heading}\n{hit.text}")

    def recalled(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            self._load(hit.where, "RECALL", f"{hit.heading}\n{hit.text}")

    def seen(self, event: Event) -> None:
        match event:
            case Answered(completion=completion):
                for block in completion.content:
                    self._say(block.text if isinstance(block, Text) else json.dumps(block.input, default=str))
            case Acting(call=call):
                self._say(json.dumps(dict(call.args), default=str, ensure_ascii=False))

    def line(self, run: str, result: RunResult, now: float) -> dict[str, Any]:
        loaded = [
            {"section": where, "tier": tier, "tokens": tokens, "cited": self._is_cited(where, words)}
            for where, (tier, tokens, words) in self._loaded.items()
        ]
        return {
            "at": timestamp(now),
            "run": run,
            "outcome": result.reason.value,
            "steps": result.steps,
            "tokens": self._placed.tokens,
            "compressed": list(self._placed.compressed),
            "left_out": len(self._placed.left_out),
            "loaded": loaded,
        }

    def _load(self, where: str, tier: str, text: str) -> None:
        words = {word for word in _words(text) if word not in self._known}
        self._loaded.setdefault(where, (tier, tokens_of(text), set(sorted(words)[:MOST_WORDS])))

    def _say(self, text: str) -> None:
        if len(self._said) < MOST_SAID_WORDS:
            self._said.update(_words(text))
            self._named.update(_NAMES_WHAT.findall(text))

    def _is_cited(self, where: str, words: set[str]) -> bool:
        path, _, id = where.partition("#")
        if id in self._named or any(name.endswith(path) for name in self._named if name.endswith(".md")):
            return True
        traces = len(words & self._said)
        return traces >= LEAST_WORDS and traces >= LEAST_SHARE * len(words)


def _words(text: str) -> Iterator[str]:
    return (found.casefold() for found in _WORD.findall(text))


def keep(root: str, line: Mapping[str, Any]) -> None:
    """Raises OSError; ValueError and RecursionError for what no line can hold."""
    path = f"{root}/{LINES}"
    if os.path.exists(path) and os.path.getsize(path) > MOST_BYTES:
        raise OSError(f"{LINES} has more than {MOST_BYTES:,} bytes; the weekly profile shortens it")
    RedactedFile(path).append_json(line)


def compile_week(root: str, week: str) -> str:
    """Write the profile of the week (`2026-W05`), and a proposal where there is one. Raises OSError."""
    try:
        content = read_regular(f"{root}/{LINES}", MOST_BYTES)
    except FileNotFoundError:
        content = b""
    lines = list(_read(content))
    profile = compile_profile(lines, week)
    path = f"{root}/{layout.HEALTH}/context-profile-{week}.json"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    RedactedFile(path).replace(json.dumps(profile, indent=1, ensure_ascii=False) + "\n")
    if profile["never_cited"]:
        named = profile["never_cited"]
        rows = [f"- {each['section']}: placed in {each['loaded']} runs, {each['tokens']:,} tokens" for each in named]
        text = (
            f"Of the sections that were placed before runs in {week}, these left no trace in what the runs said and "
            f"did:\n\n{chr(10).join(rows)}\n\nProposal: move them to a lower tier in {layout.CONTEXT_POLICY}, or to "
            f"{layout.ARCHIVE}. Figures: {layout.HEALTH}/context-profile-{week}.json."
        )
        tell_improvement(root, "Context: sections that are placed and not used", text)
    if content:
        later = [line for line in lines if _week_of(line) > week][-MOST_LINES:]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in later)
        RedactedFile(f"{root}/{LINES}").replace(text)
    return f"{profile['runs']} runs, {len(profile['never_cited'])} sections placed and never used"


def compile_profile(lines: Iterable[Mapping[str, Any]], week: str) -> dict[str, Any]:
    """Of the lines of that week. Pure."""
    runs = [line for line in lines if _week_of(line) == week]
    outcomes, sections = dict[str, int](), dict[str, dict[str, Any]]()
    for line in runs:
        outcome = str(line.get("outcome", ""))
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        for each in _loaded(line):
            none = {"section": each["section"], "tier": each["tier"], "loaded": 0, "cited": 0, "tokens": 0}
            counted = sections.setdefault(each["section"], {**none, "completed": 0})
            counted["loaded"] += 1
            counted["cited"] += bool(each["cited"])
            counted["tokens"] += each["tokens"]
            counted["completed"] += outcome == StopReason.COMPLETED.value
    ordered = sorted(sections.values(), key=lambda each: (-each["loaded"], each["section"]))
    unused = [each for each in ordered if each["loaded"] >= LEAST_LOADED and not each["cited"]]
    tokens = [line["tokens"] for line in runs if isinstance(line.get("tokens"), int)]
    return {
        "week": week,
        "runs": len(runs),
        "outcomes": dict(sorted(outcomes.items())),
        "tokens_average": round(sum(tokens) / len(tokens), 1) if tokens else 0,
        "tokens_most": max(tokens, default=0),
        "sections": ordered,
        "never_cited": [each for each in unused if each["section"].partition("#")[0] not in _ALWAYS][:MOST_PROPOSED],
    }


_ALWAYS: Final = (layout.IDENTITY, layout.PRINCIPLES, layout.INVARIANTS)
"""They are placed whether they are quoted or not."""


def _loaded(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    loaded = line.get("loaded")
    for each in loaded if isinstance(loaded, list) else ():
        if isinstance(each, dict) and isinstance(each.get("section"), str) and isinstance(each.get("tokens"), int):
            yield {"tier": "", "cited": False, **each}


def _read(content: bytes) -> Iterator[dict[str, Any]]:
    """The lines that are whole."""
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _week_of(line: Mapping[str, Any]) -> str:
    """Empty for a time that is none."""
    import datetime

    try:
        at = moment(str(line.get("at", "")))
        return Period.WEEK.of(datetime.datetime.fromtimestamp(at, datetime.UTC).date())
    except (ValueError, OverflowError):
        return ""
