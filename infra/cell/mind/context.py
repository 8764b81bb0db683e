"""What of the mind stands before a run: the files that `boot/context_policy.md` names as results of `read_file`, and
what a search for the words of the work found as one of `recall`. So it is in the transcript, and a resume needs no
files.

The budget has one rule: a file takes at most half of what is left, and what the search found takes the rest. What does
not fit is cut behind a note: of ALWAYS its end, of all others its older sections."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.cell import Cell
from infra.cell.mind.profile import Citations
from infra.cell.mind.recall import (
    RECALL,
    REFERENCE,
    Hit,
    files_of,
    says,
    search,
    shown,
    where,
    words_of,
)
from infra.shared.mind import layout
from infra.shared.mind.sections import sections

BYTES_PER_TOKEN: Final = 3
"""As `cell/loop/context/tokens` counts before a provider has counted."""
MOST_TOKENS: Final = 12_000
"""How much of the mind is placed before a run: less than a tenth of what a conversation may have."""
FRAME_BYTES: Final = 200
"""A call and the frame of its result."""
PM_OWN: Final = (layout.IDENTITY, layout.PRINCIPLES, layout.INVARIANTS)
"""Placed whatever the policy says."""
TIERS: Final[Mapping[str, tuple[str, ...]]] = {
    "ALWAYS": (*PM_OWN, layout.SKILLS_INDEX),
    "HIGH": (f"{layout.DAILY}/*.md", "skills/*/*/SKILL.md"),
    "MEDIUM": (layout.LONG_TERM, layout.BELIEFS, f"{layout.WEEKLY}/*.md"),
}
"""The policy of a mind without one: paths, and patterns of which the last file is meant."""
_LINE = re.compile(r"## +(\w+)|[-*] +`?/?(?:agent/)?([\w.*/-]+)")
Reads = tuple[tuple[ToolCall, ToolResult], ...]


def policy_of(text: str) -> tuple[Mapping[str, tuple[str, ...]], str]:
    """Paths and patterns by tier, and what is wrong: below `## ALWAYS`, `## HIGH` and `## MEDIUM` each bullet begins
    with one. Other bullets and headings are for readers; of a tier that names nothing the built-in policy holds."""
    found, tier = dict[str, list[str]](), list[str]()
    for match in filter(None, map(_LINE.match, text.splitlines())):
        if match[1]:
            tier = found.setdefault(match[1], [])
        else:
            tier.append(match[2])
    missing = ", ".join(f"## {tier}" for tier in TIERS if not found.get(tier))
    tiers = {tier: tuple(found.get(tier) or paths) for tier, paths in TIERS.items()}
    tiers["ALWAYS"] = tuple(dict.fromkeys((*PM_OWN, *tiers["ALWAYS"])))
    return (
        tiers,
        missing and f"{layout.CONTEXT_POLICY}: no bullet names a path below {missing}; the built-in policy is used",
    )


def chosen(patterns: Sequence[str], files: Mapping[str, str], words: str) -> list[str]:
    """The files that are meant, each once: of a pattern the last that says something, of SKILL.md those that the words
    name and no page may have written."""
    found, paths = list[str](), sorted(files, reverse=True)
    for pattern in patterns:
        there = [path for path in paths if path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)]
        if pattern.endswith("SKILL.md"):
            proven = [path for path in there if layout.is_below(path, (layout.CORE, layout.LEARNED))]
            found += [path for path in proven if f" {_joined(path.split('/')[-2])} " in f" {_joined(words)} "]
        else:
            found += next(([path] for path in there if said(files[path])), [])
    return list(dict.fromkeys(found))


def _joined(words: str) -> str:
    return re.sub(r"[\W_]+", " ", words.casefold()).strip()


def said(text: str) -> str:
    """Without sections that hold nothing; empty for a file that says nothing."""
    head, *others = sections(text)
    kept = "".join(each.text for each in others if says(each.body))
    return head.text + kept if kept or says(head.text) else ""


def fit(path: str, text: str, room: int, from_beginning: bool) -> str:
    """The text in so many bytes, behind a note when it is cut; empty when that has no room."""
    if _size(text) <= room:
        return text
    head, *others = (each.text for each in sections(text))
    note = f"[{{}} of {len(others)} sections, for want of room; {path} has all]\n"
    kept, left = list[str](), room - _size(note) - 5 - _size(head)
    while others and not from_beginning and (left := left - _size(others[-1])) >= 0:
        kept.insert(0, others.pop())
    if kept:
        return head + note.format(len(kept)) + "".join(kept)
    note = f"[!! CUT for want of room: read the whole of {path} before you act]\n"
    return note + text.encode()[: room - _size(note)].decode(errors="ignore") if room > _size(note) else ""


def fit_hits(hits: Sequence[Hit], room: int) -> tuple[str, list[Hit]]:
    """What has room, and those hits: beliefs before narrative, recent before old."""
    kept, room = dict[Hit, str](), room - _size(REFERENCE)
    rank = {layout.BELIEFS: 2, layout.LONG_TERM: 1}
    for hit in sorted(hits, key=lambda hit: (rank.get(hit.path, 0), hit.day), reverse=True):
        text = f"\n\n{shown(hit)}"
        if _size(text) <= room:
            kept[hit], room = text, room - _size(text)
    return REFERENCE + "".join(kept[hit] for hit in hits if hit in kept), [hit for hit in hits if hit in kept]


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def _read(root: str, path: str, text: str, is_cut: bool) -> tuple[ToolCall, ToolResult]:
    """The agent knows the mind as `/agent`, where that is it."""
    path = f"{layout.ROOT if os.path.realpath(layout.ROOT) == os.path.realpath(root) else root}/{path}"
    facts = {"path": path, "lines": text.count("\n") + (text[-1:] != "\n")} | ({"truncated": True} if is_cut else {})
    return ToolCall("", "read_file", {"path": path}), ToolResult(text, facts=facts)


def as_operations(reads: Reads) -> Reads:
    """For a model without tools, which has no `recall` but a program of the shell."""
    made = list(reads)
    for at, (call, got) in enumerate(reads):
        if call.name == RECALL:
            command = {"command": f"minifram-mind recall {call.args['words']}"}
            made[at] = ToolCall("", "bash", command), ToolResult(got.payload, facts={"stderr": "", "exit": 0})
    return tuple(made)


def opening(cell: Cell, words: str, citations: Citations, tokens: int = MOST_TOKENS) -> tuple[Reads, Reads]:
    """What is placed before a run for work of these words: first what is the same before most runs, as a provider's
    cache holds what stands at the beginning."""
    root = cell.boot.places.mind
    every, problems = files_of(root)
    files, asked = dict(every), " ".join(words_of(words))
    tiers, problem = policy_of(files.get(layout.CONTEXT_POLICY, ""))
    for each in filter(None, (problem, *problems[:10])):
        cell.log.info("mind.problem", problem=each)
    budget = room = tokens * BYTES_PER_TOKEN
    reads, cut = {tier: Reads() for tier in TIERS}, list[str]()
    for tier in ("ALWAYS", "HIGH"):
        for path in chosen(tiers[tier], files, words):
            text = said(files.pop(path))
            fitted = fit(path, text, room // 2 - FRAME_BYTES, tier == "ALWAYS")
            cut += [path] if fitted != text else []
            if fitted:
                room -= FRAME_BYTES + _size(fitted)
                reads[tier] += (_read(root, path, fitted, fitted != text),)
                named = {where(path, each.id): each.text for each in sections(fitted)[1:]}
                citations.shown |= named or {path: fitted}
    hits = search([(path, files[path]) for path in chosen(tiers["MEDIUM"], files, words)], asked)
    text, kept = fit_hits(hits, room - FRAME_BYTES - _size(asked))
    cut += [hit.where for hit in hits if hit not in kept]
    if kept:
        room -= FRAME_BYTES + _size(asked) + _size(text)
        reads["MEDIUM"] = ((ToolCall("", RECALL, {"words": asked}), ToolResult(text)),)
    citations.found(kept)
    cell.log.info("mind.placed", tokens=-(-(budget - room) // BYTES_PER_TOKEN), cut=cut[:20])
    return reads["ALWAYS"], (*reads["HIGH"], *reads["MEDIUM"])
