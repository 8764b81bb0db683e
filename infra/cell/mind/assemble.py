"""What of the mind is placed before a run: the files of the context policy as results of `read_file`, and what a search
for the words of the work found as one of `recall`. So it stands in the transcript, and a resume needs no files."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.mind.files import CloneFiles, read_regular
from infra.cell.mind.search import FEW_MATCHES, Hit, Query, search
from infra.cell.mind.statements import STOP_WORDS
from infra.cell.mind.tiers import ContextPolicy, MindPart, PlacedContext, Tier, assemble, matches, named, policy_of
from infra.shared.clock import timestamp
from infra.shared.mind import layout

INDEX: Final = f"{layout.SCRATCH}/recall.sqlite"
MOST_BYTES = 1 << 20
"""Of a file that is placed, so much is looked at."""
MOST_WORDS = 12
MOST_NAMES = 10_000
RECALL = "recall"
_WORD = re.compile(r"[^\W_][\w.-]*[^\W_]|[^\W_]")


class Opening(NamedTuple):
    """What is placed, and what is to be said of it in the log."""

    reads: tuple[tuple[ToolCall, ToolResult], ...]
    placed: PlacedContext
    problems: tuple[str, ...]
    seconds: float


def opening(root: str, words: str, budget_tokens: int, results: int, now: float) -> Opening:
    """`root` is the clone of the mind. Raises nothing that the files are to blame for; sqlite3.Error and OSError when
    no index can be made."""
    began = time.monotonic()
    policy = policy_of(_text(root, layout.CONTEXT_POLICY))
    files = {path: _text(root, path) for path in _paths(root, policy, words)}
    asked = " ".join(distinctive(words))
    hits, problems = _hits(root, policy, asked, results, now)
    placed = assemble(policy, files, hits, budget_tokens, asked)
    shown = shown_root(root)
    reads = tuple(_read(shown, part, asked) for part in placed.parts)
    every = tuple(filter(None, (policy.problem, *problems)))
    return Opening(reads, placed, every, time.monotonic() - began)


def distinctive(words: str, most: int = MOST_WORDS) -> list[str]:
    """The words that tell this work from others, in their order: names with digits, dots or capitals, long ones."""
    found = dict[str, str]()
    for word in _WORD.findall(words[:20_000]):
        if word.casefold() not in STOP_WORDS and (len(word) > 2 or any(map(str.isdigit, word))):
            found.setdefault(word.casefold(), word)
    ranked = sorted(found.values(), key=lambda word: (not _is_name(word), -len(word)))[:most]
    return [word for word in found.values() if word in ranked]


def _is_name(word: str) -> bool:
    return any(char.isdigit() or char in "._-" for char in word) or any(map(str.isupper, word[1:]))


def shown_root(root: str) -> str:
    """The mind's directory as the agent knows it."""
    return layout.ROOT if os.path.realpath(layout.ROOT) == os.path.realpath(root) else root


def _hits(
    root: str, policy: ContextPolicy, asked: str, results: int, now: float
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    paths = policy.paths.get(Tier.MEDIUM, ())
    if not asked or not paths:
        return (), ()
    query = Query(asked, paths=paths, results=results, most_matches=FEW_MATCHES, today=timestamp(now)[:10])
    found = search(index_of(root), CloneFiles(root), query, trust_folders=True)
    return found.hits, found.refreshed.problems


def index_of(root: str) -> str:
    """Where the index is; empty for memory, when there is no place for it."""
    path = f"{root}/{INDEX}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path
    return ""


def _text(root: str, path: str) -> str:
    """Empty for what is not there, or no text."""
    try:
        content = read_regular(f"{root}/{path}", MOST_BYTES + 1)
    except OSError:
        return ""
    if b"\0" in content:
        return f"[{path} is binary, where Markdown was expected: put its text back from git]\n"
    if len(content) > MOST_BYTES:
        return content[:MOST_BYTES].decode(errors="replace") + f"\n[{path} has more than {MOST_BYTES:,} bytes]\n"
    return content.decode(errors="replace")


def _paths(root: str, policy: ContextPolicy, words: str) -> list[str]:
    """What ALWAYS and HIGH name and is there: of patterns the candidates, of skills those that the work names."""
    there = list[str]()
    for pattern in (*policy.paths.get(Tier.ALWAYS, ()), *policy.paths.get(Tier.HIGH, ())):
        if not any(char in pattern for char in "*?["):
            there.append(pattern)
            continue
        found = _matching(root, pattern)
        if pattern.endswith("SKILL.md"):
            there += [
                path
                for path in found
                if matches(path, pattern) and not _is_unproven(path) and _names(words, path.split("/")[-2])
            ]
        else:
            there += next(([path] for path in sorted(found, reverse=True) if matches(path, pattern)), [])
    there = [path for path in dict.fromkeys(there) if os.path.lexists(f"{root}/{path}")]
    chosen = {*named(policy, Tier.ALWAYS, there), *named(policy, Tier.HIGH, there)}
    return [path for path in there if path in chosen]


def _is_unproven(path: str) -> bool:
    """Of a skill that work may have written that had read the web; a name such as `report` stands in any words."""
    return layout.is_below(path, (layout.CANDIDATES, layout.FAILED))


def _matching(root: str, pattern: str) -> Iterator[str]:
    """Paths that may match: those of the pattern's folders."""
    steps = pattern.split("/")
    folders = [""]
    for step in steps[:-1]:
        if any(char in step for char in "*?["):
            folders = [f"{folder}{name}/" for folder in folders for name in _entries(f"{root}/{folder}")]
        else:
            folders = [f"{folder}{step}/" for folder in folders]
    for folder in folders[:MOST_NAMES]:
        yield from (f"{folder}{name}" for name in _entries(f"{root}/{folder}"))


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)[:MOST_NAMES]
    except OSError:
        return []


def _names(words: str, skill: str) -> bool:
    """Whether the work names the skill, however its words are joined."""
    name = re.sub(r"[\W_]+", r"[\\W_]+", skill)
    return bool(re.search(rf"(?i)(?<!\w){name}(?!\w)", words)) if skill.strip("._-") else False


def _read(shown: str, part: MindPart, asked: str) -> tuple[ToolCall, ToolResult]:
    if not part.path:
        return ToolCall("", RECALL, {"words": asked}), ToolResult(part.text)
    path = f"{shown}/{part.path}"
    facts = {"path": path, "lines": part.text.count("\n") + (not part.text.endswith("\n"))}
    if part.cut:
        facts["truncated"] = True
    return ToolCall("", "read_file", {"path": path}), ToolResult(part.text, facts=facts)


def as_operations(reads: Sequence[tuple[ToolCall, ToolResult]]) -> list[tuple[ToolCall, ToolResult]]:
    """For a model without tools, which has no `recall` but a program of the shell."""
    return [
        (ToolCall(call.id, "bash", {"command": f"minifram-mind recall {call.args['words']}"}), _as_shell(got))
        if call.name == RECALL
        else (call, got)
        for call, got in reads
    ]


def _as_shell(got: ToolResult) -> ToolResult:
    return got._replace(facts={"stderr": "", "exit": 0})
