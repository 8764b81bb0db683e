"""The PM's settings for the mind: the thresholds of promotion, the size of its part of the context, and what
exploration may use up in a UTC day."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from infra.shared.labels import EXPLORATION
from infra.shared.section import Section


class MindSettings(Section, frozen=True):
    context_tokens: int = 12_000
    """How much of the mind is placed before a run, in tokens."""
    recall_results: int = 8
    """The most sections that a search gives."""
    independent_runs: int = 2
    """A statement that so many runs made by themselves, or that was validated once, becomes long-term memory."""
    belief_runs: int = 3
    """A statement that so many runs made, or that was validated in two of them, becomes a belief."""
    promotions_per_day: int = 10
    """The most statements that are promoted in one UTC day."""
    quiet_days: int = 7
    """With events but nothing promoted for so long, `minifram status` warns."""
    skill_successes: int = 3
    """A procedure that succeeded so often becomes a candidate skill, and a candidate needs so many uses."""
    skill_failures: int = 3
    """A skill that failed more often than this is disabled."""
    skill_trials: Annotated[int, msgspec.Meta(ge=1, le=9)] = 3
    """So often the held-out task of a candidate is done with it, and as often without, before it becomes a skill; 1 to
    9."""
    unused_reviews: int = 4
    """A skill that was not used for so many weekly reviews is deprecated."""
    on_drift: Literal["report", "safe_mode"] = "report"
    """What follows when a file of the mind that is the PM's alone is not as the PM wrote it."""
    keep_daily: int = 7
    """So many daily snapshots are kept."""
    keep_weekly: int = 4
    keep_monthly: int = 12


class ExplorationSettings(Section, frozen=True):
    """What the agent may use up on its own curiosity in a UTC day; used up, only directives, tasks and maintenance go
    on."""

    usd: float | None = None
    """US dollars; None: nothing is explored, and with nothing to do no model is called."""
    tokens: int = 500_000
    calls: int = 200
    """Model calls."""
    seconds: float = 3600.0
    web: float = 0.5
    """The share of all this that exploring the web may use."""
    tool_installation: float = 0.25
    skill_refactoring: float = 0.5

    def share(self, label: str) -> tuple[str, float]:
        """Of calls with this label, and its name in minifram.yaml; all, under no name, for one that has none."""
        shares = {
            f"{EXPLORATION}/web": ("exploration.web", self.web),
            f"{EXPLORATION}/tools": ("exploration.tool_installation", self.tool_installation),
            f"{EXPLORATION}/skills": ("exploration.skill_refactoring", self.skill_refactoring),
        }
        return shares.get(label, ("", 1.0))


class RunnerMind(msgspec.Struct, frozen=True):
    """The runner's part of the settings, as `boot.Boot` carries it."""

    mind: MindSettings = MindSettings()
    exploration: ExplorationSettings = ExplorationSettings()


def to_json(given: RunnerMind) -> str:
    return msgspec.json.encode(given).decode()


def from_json(text: str) -> RunnerMind:
    """The defaults for what the text does not say: a keep from before, or a later one, knows other keys.

    Raises ValueError."""
    raw = msgspec.json.decode(text) if text else {}
    mind, exploration = (
        {name: raw.get(part, {})[name] for name in kind.__struct_fields__ if name in raw.get(part, {})}
        for part, kind in (("mind", MindSettings), ("exploration", ExplorationSettings))
    )
    return msgspec.convert({"mind": mind, "exploration": exploration}, RunnerMind)
