"""What a model call is for."""

from __future__ import annotations

TASK, MAINTENANCE, EXPLORATION = "task", "maintenance", "exploration"
EXPLORATION_PARTS = ("web", "tools", "skills")
LABELS = (TASK, MAINTENANCE, EXPLORATION, *(f"{EXPLORATION}/{part}" for part in EXPLORATION_PARTS))
"""What a call is for; money is counted by them. Directives and tasks of the inbox are both `task`."""
