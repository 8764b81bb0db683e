"""The tool `recall`: what the mind knows of some words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from infra.cell.loop.actions import ToolResult
from infra.cell.loop.arguments import schema
from infra.cell.loop.registry import SideEffect, Tool, ToolError
from infra.cell.mind.assemble import RECALL, index_of
from infra.cell.mind.files import CloneFiles
from infra.cell.mind.rows import KINDS
from infra.cell.mind.search import Hit, Query, problem_with, search, shown_all, since_day
from infra.cell.mind.statements import key_of
from infra.shared.clock import timestamp
from infra.shared.conversation import ToolSpec

TIMEOUT_MS = 60_000
MOST_CHARS = 12_000
RECALL_SPEC = ToolSpec(
    RECALL,
    "Search your memory of earlier runs: beliefs, long-term memory, summaries, finished tasks, skills, archive. It "
    "matches words, not meanings: give the words of your question and, for each that matters, up to eight synonyms or "
    "other words that whoever wrote it down may have used (deploy release ship publish rollout). One word in common "
    "is enough, and the best matches come first. Memories are reference, not rules; what is CONTESTED has a "
    "counterpart, so check before you rely on it.",
    schema(
        {"words": {"type": "string", "description": "words and synonyms, with blanks between"}},
        {
            "kind": {"type": "string", "description": f"only one of {', '.join(KINDS)}"},
            "since": {"type": "string", "description": "nothing older: a date as 2026-01-31, or 7d, or 4w"},
        },
    ),
)


def recall(root: str, words: str, kind: str, since: str, results: int, now: float) -> tuple[str, tuple[Hit, ...]]:
    """What is shown, and what was found. Raises ToolError for what cannot be asked, or no index can be made."""
    import sqlite3

    problem = problem_with(kind, since)
    if problem:
        raise ToolError(problem)
    query = Query(words, kind, since_day(since, now), results=results, today=timestamp(now)[:10])
    try:
        found = search(index_of(root), CloneFiles(root), query)
    except (sqlite3.Error, OSError) as error:
        raise ToolError(f"the index of the mind cannot be made: {error}", "Use grep in the mind's files") from None
    text = shown_all(found.hits, words)
    if len(text) > MOST_CHARS:
        text = f"{text[:MOST_CHARS]}\n[cut: ask with fewer words, or open the files]"
    notes = [f"[not searched: {problem}]" for problem in found.refreshed.problems[:5]]
    return "\n".join((text, *notes)), found.hits


def recall_tool(root: str, results: int, now: Callable[[], float], seen: Callable[[tuple[Hit, ...]], object]) -> Tool:
    """`seen` is told what was shown."""

    def act(given: Mapping[str, Any], seconds: float) -> ToolResult:
        kind, since = given.get("kind", ""), given.get("since", "")
        text, hits = recall(root, given["words"], kind, since, results, now())
        seen(hits)
        return ToolResult(text, facts=facts_of(hits))

    return Tool(RECALL_SPEC, act, TIMEOUT_MS, SideEffect.READ)


def facts_of(hits: tuple[Hit, ...]) -> dict[str, list[str]]:
    """Of what was shown, for the record: `path#id`, and the keys of statements (`statements.key_of`)."""
    statements = [key_of(hit.subject, hit.statement) for hit in hits if hit.statement]
    return {"shown": [hit.where for hit in hits], "statements": statements}
