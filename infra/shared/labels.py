"""What a model call is for, by the runner's word."""

from __future__ import annotations

TASK, MAINTENANCE, EXPLORATION = "task", "maintenance", "exploration"
EXPLORATION_PARTS = ("web", "tools", "skills")
LABELS = (TASK, MAINTENANCE, EXPLORATION, *(f"{EXPLORATION}/{part}" for part in EXPLORATION_PARTS))
"""Money is counted by them. Directives and tasks of the inbox are both `task`."""

SHARES = {f"{EXPLORATION}/web": 0.5, f"{EXPLORATION}/tools": 0.25, f"{EXPLORATION}/skills": 0.5}
"""Of what may be explored in a day: no kind takes all of it."""
