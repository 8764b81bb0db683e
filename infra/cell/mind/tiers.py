"""What of the mind is placed before a run: by the tiers of `boot/context_policy.md`, within a budget in tokens. Pure.

Over the budget the lower tiers are compressed first: fewer sections, then the heads of sections, then none."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from infra.cell.mind.rows import BELIEF, MEMORY, SKILL
from infra.cell.mind.search import REFERENCE, Hit, shown
from infra.shared.mind import layout
from infra.shared.mind.sections import MindSection, document_of

BYTES_PER_TOKEN = 3
"""Of JSON, as `cell/loop/context/tokens` counts before a provider has counted."""
CALL_TOKENS = 40
"""A call and the frame of its result."""
NOTE_TOKENS = 110
"""A file of which nothing but a note has room."""
HEAD_CHARS = 240
"""Of a section that is compressed to its head."""
LEAST_TOKENS = 200
"""No smaller budget is worked with: an empty one could not even say what was left out."""


class Tier(Enum):
    ALWAYS = "ALWAYS"
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class ContextPolicy(NamedTuple):
    """Paths and patterns by tier, in their order."""

    paths: Mapping[Tier, tuple[str, ...]]
    problem: str = ""
    """Why the built-in one is used, or what of the file was left out."""


WHOLE: Final = (layout.IDENTITY, layout.PRINCIPLES, layout.INVARIANTS)
"""Never compressed; only cut when they alone are larger than the budget."""
SKILL_FILES: Final = (f"{layout.CORE}/*/SKILL.md", f"{layout.LEARNED}/*/SKILL.md")
DEFAULT: Final[Mapping[Tier, tuple[str, ...]]] = {
    Tier.ALWAYS: (*WHOLE, layout.SKILLS_INDEX),
    Tier.HIGH: (layout.WORKING, f"{layout.DAILY}/*.md", *SKILL_FILES),
    Tier.MEDIUM: (layout.LONG_TERM, layout.BELIEFS, f"{layout.WEEKLY}/*.md"),
    Tier.LOW: (layout.EVENTS, layout.ARCHIVE),
}
_HEADING = re.compile(r"## +(ALWAYS|HIGH|MEDIUM|LOW)\b.*")
_BULLET = re.compile(r"[-*] +(?:`([^`]+)`|(\S+))")
_PATH = re.compile(r"[\w.*?\[\]-]+(?:/[\w.*?\[\]-]+)*")
_MOST_PATHS = 200


def policy_of(text: str) -> ContextPolicy:
    """Of `boot/context_policy.md`: a heading for each tier, a path or a pattern in each bullet. Of a pattern the file
    with the last name is meant, of one for SKILL.md those that the work names. Bullets that begin with other words are
    for readers. Of a tier without a heading, and of a file that names nothing to place, the built-in policy holds."""
    found: dict[Tier, list[str]] = {}
    tier, odd = None, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            heading = _HEADING.fullmatch(line.rstrip())
            tier = Tier(heading[1]) if heading else None
            if tier:
                found.setdefault(tier, [])
        elif tier and (bullet := _BULLET.match(line.strip())):
            path = _path_of(bullet[1] or bullet[2])
            if path:
                found[tier].append(path)
            elif bullet[1]:
                odd.append(f"line {number}: {bullet[1][:60]!r} is no path in the mind")
    if not any(found.get(tier) for tier in (Tier.ALWAYS, Tier.HIGH, Tier.MEDIUM)):
        return ContextPolicy(
            DEFAULT,
            f"{layout.CONTEXT_POLICY}: no tier in it names a file; expected '## ALWAYS', '## HIGH', '## MEDIUM', "
            "'## LOW' with bullets of paths. The built-in policy is used; put the file back from git.",
        )
    absent = [tier for tier in (Tier.ALWAYS, Tier.HIGH, Tier.MEDIUM) if tier not in found]
    if absent:
        odd.append(f"no heading for {', '.join(tier.value for tier in absent)}: there the built-in policy is used")
    missing = [path for path in WHOLE if path not in found.get(Tier.ALWAYS, WHOLE)]
    paths = {tier: tuple(dict.fromkeys(found.get(tier, DEFAULT[tier])))[:_MOST_PATHS] for tier in Tier}
    paths[Tier.ALWAYS] = (*missing, *paths[Tier.ALWAYS])
    if missing:
        odd.append(f"ALWAYS lacks {', '.join(missing)}: they are placed in any case")
    return ContextPolicy(paths, f"{layout.CONTEXT_POLICY}: {'; '.join(odd[:5])}" if odd else "")


def _path_of(words: str) -> str:
    """From the mind's root; empty for what is no path."""
    path = words.strip().removeprefix(f"{layout.ROOT}/").lstrip("/").rstrip("/.,;:")
    is_one = bool(_PATH.fullmatch(path)) and ("/" in path or path.endswith(".md")) and ".." not in path.split("/")
    return path if is_one else ""


class MindPart(NamedTuple):
    """What is placed of one file; or of the search, whose path is empty."""

    tier: Tier
    path: str
    text: str
    tokens: int
    cut: str = ""
    """What was left out of it, in words; empty for the whole."""
    sections: tuple[str, ...] = ()
    """`path#section` of all that is in it."""


class PlacedContext(NamedTuple):
    parts: tuple[MindPart, ...]
    left_out: tuple[str, ...]
    """Paths, and `path#id` of hits, that found no room."""
    compressed: tuple[str, ...]
    """The same, of which not all is there."""
    tokens: int
    hits: tuple[Hit, ...] = ()
    """Those that are placed."""


def tokens_of(text: str) -> int:
    return -(-len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) // BYTES_PER_TOKEN)


def assemble(
    policy: ContextPolicy, files: Mapping[str, str], hits: Sequence[Hit], budget_tokens: int, words: str = ""
) -> PlacedContext:
    """`files` are those that ALWAYS and HIGH name and that are there, `hits` what the search for `words` found.

    Never more than the budget, and always something of each file of ALWAYS as far as a note of it has room."""
    budget = max(LEAST_TOKENS, budget_tokens)
    paths = named(policy, Tier.ALWAYS, files)
    always = _within_always([_part(Tier.ALWAYS, path, files[path]) for path in paths], budget)
    room = budget - sum(part.tokens for part in always)
    others = [path for path in named(policy, Tier.HIGH, files) if path not in paths and files[path].strip()]
    hits = [hit for hit in hits if hit.path not in (*paths, *others)]
    least = min(_of_hits(hits, words, HEAD_CHARS, len(hits)).tokens, room // 4) if hits else 0
    high = _within_high([_part(Tier.HIGH, path, files[path]) for path in others], room - least, budget // 2)
    room -= sum(part.tokens for part in high)
    medium, kept = _within_hits(hits, words, room)
    every = (*always, *high, *medium)
    parts = tuple(part for part in every if part.text)
    left_out = [part.path for part in every if not part.text]
    left_out += [hit.where for hit in hits if hit not in kept]
    compressed = tuple(part.path or "recall" for part in parts if part.cut)
    return PlacedContext(parts, tuple(left_out), compressed, sum(part.tokens for part in parts), tuple(kept))


def named(policy: ContextPolicy, tier: Tier, files: Collection[str]) -> list[str]:
    """The files that a tier names, each once: of a pattern the last by name, of SKILL.md all that are given."""
    named = list[str]()
    for pattern in policy.paths.get(tier, ()):
        if not any(char in pattern for char in "*?["):
            named += [pattern] if pattern in files else []
            continue
        matching = sorted(path for path in files if matches(path, pattern))
        named += matching if pattern.endswith("SKILL.md") else matching[-1:]
    return list(dict.fromkeys(named))


def matches(path: str, pattern: str) -> bool:
    """With `*` inside one step of the path."""
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def _part(tier: Tier, path: str, text: str, cut: str = "") -> MindPart:
    sections = tuple(f"{path}#{section.id}" for section in document_of(text).sections) or (path,)
    return MindPart(tier, path, text, _tokens(path, text), cut, sections)


def _tokens(path: str, text: str) -> int:
    return CALL_TOKENS + tokens_of(path) + tokens_of(text)


def _within_always(parts: list[MindPart], budget: int) -> list[MindPart]:
    """First what is not identity, principles or invariants gives way; then each of these has its share. No other file,
    here or below, takes more than half of all."""
    order = [part for part in parts if part.path in WHOLE] + [part for part in parts if part.path not in WHOLE]
    placed, room = dict[str, MindPart](), budget
    for at, part in enumerate(order):
        share = room // (len(order) - at)
        later = sum(
            other.tokens if other.path in WHOLE or part.path not in WHOLE else min(other.tokens, NOTE_TOKENS)
            for other in order[at + 1 :]
        )
        allowed = max(share, room - later)
        fitted = _fitted(part, allowed if part.path in WHOLE else min(allowed, budget // 2))
        placed[part.path] = fitted
        room -= fitted.tokens
    return [placed[part.path] for part in parts]


def _within_high(parts: list[MindPart], room: int, most: int) -> list[MindPart]:
    """In the order of the policy: the first are the last to give way."""
    placed = list[MindPart]()
    for part in parts:
        fitted = _fitted(part, min(room, most))
        placed.append(fitted)
        room -= fitted.tokens
    return placed


def _fitted(part: MindPart, room: int) -> MindPart:
    """The part in so many tokens: whole, with its newest sections, with heads of sections, or cut; an empty text when
    not even the note has room."""
    if part.tokens <= room:
        return part
    document = document_of(part.text)
    total = len(document.sections)
    if part.path not in WHOLE and total > 1:
        for texts, how in (
            ([section.text for section in document.sections], "whole"),
            (_heads(document.sections), "by their heads alone"),
        ):
            kept = _newest(document.head, texts, part, room, how)
            if kept:
                return kept
    note = _loud(part.path) if part.path in WHOLE else _note(part.path, "the rest of it")
    return _cut(part, note, room)


def _heads(sections: Sequence[MindSection]) -> list[str]:
    return [head_of(section.text) for section in sections]


def head_of(text: str) -> str:
    """The heading of a section and the beginning of what stands below."""
    if len(text) <= HEAD_CHARS:
        return text
    return f"{text[:HEAD_CHARS].rsplit(None, 1)[0]} …\n\n"


def _newest(head: str, texts: list[str], part: MindPart, room: int, how: str) -> MindPart | None:
    """As many of the last sections as have room: what is written later is the more recent."""

    def made(first: int) -> tuple[str, str]:
        left = f"{len(texts) - first} of {len(texts)} sections {how}"
        return f"{head}{_note(part.path, left)}\n" + "".join(texts[first:]), left

    low, high = int(how == "whole"), len(texts)
    while low < high:
        middle = (low + high) // 2
        if _tokens(part.path, made(middle)[0]) <= room:
            high = middle
        else:
            low = middle + 1
    return _part(part.tier, part.path, *made(low)) if low < len(texts) else None


def _note(path: str, what: str) -> str:
    return f"[{what}, for want of room; {path} has all]\n"


def _loud(path: str) -> str:
    return f"[!! CUT: {path} is larger than its room in the context. READ THE WHOLE FILE before you act.]\n"


def _cut(part: MindPart, note: str, room: int) -> MindPart:
    """The beginning of the text behind the note."""
    if _tokens(part.path, note) > room:
        return part._replace(text="", tokens=0, cut="left out", sections=())
    low, high = 0, min(len(part.text), room * BYTES_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        if _tokens(part.path, note + part.text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return _part(part.tier, part.path, note + part.text[:low], "cut")


def _preference(hit: Hit) -> tuple[bool, int, str]:
    """Which hits stay: those that were found before their neighbours, beliefs before narrative, recent before old."""
    rank = {BELIEF: 3, MEMORY: 2, SKILL: 1}.get(hit.kind, 0)
    return not hit.is_neighbour, rank, hit.date


def _within_hits(hits: Sequence[Hit], words: str, room: int) -> tuple[list[MindPart], list[Hit]]:
    if not hits:
        return [], []
    order = sorted(hits, key=_preference, reverse=True)
    for most_chars in (4_000, HEAD_CHARS):
        for number in range(len(order), 0, -1) if most_chars == HEAD_CHARS else (len(order), -(-len(order) // 2)):
            kept = [hit for hit in hits if hit in order[:number]]
            part = _of_hits(kept, words, most_chars, len(hits))
            if part.tokens <= room:
                return [part], kept
    return [], []


def _of_hits(hits: Sequence[Hit], words: str, most_chars: int, total: int) -> MindPart:
    cut = f"{len(hits)} of {total} sections" if len(hits) < total else ""
    cut += f"{', ' if cut else ''}by their heads alone" if most_chars == HEAD_CHARS else ""
    head = f"{REFERENCE}" + (f" [{cut}, for want of room]" if cut else "")
    text = "\n\n".join((head, *(shown(hit, most_chars) for hit in hits)))
    sections = tuple(hit.where for hit in hits)
    return MindPart(Tier.MEDIUM, "", text, CALL_TOKENS + tokens_of(words) + tokens_of(text), cut, sections)
