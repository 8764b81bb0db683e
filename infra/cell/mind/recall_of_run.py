"""What one run reads of the mind: what is placed before it, what it recalls, and a profile of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.loop.loop import Event, RunResult
from infra.cell.loop.registry import Tool

if TYPE_CHECKING:
    from infra.cell.mind.mind import MindContext
    from infra.cell.mind.profile import RunProfile
    from infra.cell.mind.search import Hit


class RecallOfRun:
    """None of its methods raises, but Interrupted."""

    def __init__(self, context: MindContext, shown: Callable[[str], object]) -> None:
        """`shown` gets each text of the mind that is placed before the run."""
        self._context = context
        self._shown = shown
        self._profile: RunProfile | None = None
        self.shown_ids = set[str]()
        """`path#id` of all that this run was shown by placing and recalling."""

    def opening(self, words: str) -> tuple[tuple[ToolCall, ToolResult], ...]:
        from infra.cell.mind.assemble import opening
        from infra.cell.mind.profile import RunProfile

        context, settings = self._context, self._context.thresholds
        try:
            made = opening(context.places.mind, words, settings.context_tokens, settings.recall_results, context.now())
        except Exception as error:  # a run without its memory is better than none
            context.note("mind.not_placed", error=f"{type(error).__name__}: {error}")
            return ()
        for _, got in made.reads:
            self._shown(got.payload)
        placed = made.placed
        self.shown_ids.update(section for part in placed.parts for section in part.sections)
        self._profile = RunProfile(placed, words)
        context.note(
            "mind.placed",
            parts=len(placed.parts),
            tokens=placed.tokens,
            compressed=list(placed.compressed),
            left_out=list(placed.left_out)[:20],
            seconds=round(made.seconds, 4),
        )
        for problem in made.problems:
            context.note("mind.problem", problem=problem)
        return made.reads

    def forget_index(self) -> None:
        """It is made anew of the files: in this one, a page may have changed what they say."""
        from infra.cell.mind.assemble import INDEX
        from infra.cell.mind.index import remove

        remove(f"{self._context.places.mind}/{INDEX}")

    def tools(self) -> tuple[Tool, ...]:
        from infra.cell.mind.recall_tool import recall_tool

        context = self._context
        results = context.thresholds.recall_results
        return (recall_tool(context.places.mind, results, context.now, self._found),)

    def record(self, event: Event) -> None:
        if self._profile:
            self._profile.seen(event)

    def end(self, run: str, result: RunResult) -> None:
        if not self._profile:
            return
        from infra.cell.mind.profile import keep

        try:
            keep(self._context.places.mind, self._profile.line(run, result, self._context.now()))
        except (OSError, ValueError, RecursionError) as error:
            self._context.note("mind.profile_not_kept", error=str(error))

    def _found(self, hits: tuple[Hit, ...]) -> None:
        self.shown_ids.update(hit.where for hit in hits)
        if self._profile:
            self._profile.recalled(hits)
