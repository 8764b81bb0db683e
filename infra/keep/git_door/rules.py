"""What the PM's settings say about pushes."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Autonomy(Enum):
    MERGE = "merge"
    """The agent moves main itself."""
    PROPOSE = "propose"
    """The agent pushes branches; only the PM moves main."""
    FROZEN = "frozen"
    """The agent only reports."""


class Rules(NamedTuple):
    autonomy: Autonomy
    blob_bytes: int
    """The largest file that a push may bring in."""
    protected_files: tuple[str, ...]
    """Patterns of files that the agent may not change on main (`shared.protection`)."""
    protected_branches: tuple[str, ...]
    """Patterns of branches that the agent may neither create nor move."""
    web_taints: bool
