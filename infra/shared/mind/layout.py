"""The tree of the mind: names of its files, and who may write which. Paths are relative to its root, which the cell
sees as `/agent`."""

from __future__ import annotations

from typing import Final

ROOT: Final = "/agent"
"""In the container, a link to the clone of the branch `mind`."""

IDENTITY, INVARIANTS = "boot/identity.md", "boot/invariants.md"
PRINCIPLES, CONTEXT_POLICY = "boot/operating_principles.md", "boot/context_policy.md"
WORKING, LONG_TERM, BELIEFS = "memory/working.md", "memory/long_term.md", "memory/beliefs.md"
ARCHIVE: Final = "memory/archive"
SKILLS_INDEX: Final = "skills/index.md"
CORE, CANDIDATES, LEARNED = "skills/core", "skills/candidates", "skills/learned"
DEPRECATED, FAILED = "skills/deprecated", "skills/failed"
EVENTS, DAILY, WEEKLY, HEALTH = "logs/events", "logs/daily", "logs/weekly", "logs/health"
INBOX, ACTIVE, COMPLETED, BLOCKED = "tasks/inbox.md", "tasks/active.md", "tasks/completed", "tasks/blocked"
IMPROVEMENTS, FAILURES = "reflection/improvements.md", "reflection/failures.md"
OPEN_QUESTIONS, DRIFT_REPORTS = "reflection/open_questions.md", "reflection/drift_reports.md"
METRICS, SCRATCH = "metrics", "scratch"
PUT_BACK: Final = f"{SCRATCH}/put-back"
"""Where a clone keeps what did not come onto the branch, by run."""
FOLDERS: Final = (
    *("boot", "memory", ARCHIVE, CORE, CANDIDATES, LEARNED, DEPRECATED, FAILED, DAILY, WEEKLY, HEALTH),
    *(COMPLETED, BLOCKED, "reflection", "snapshots/daily", "snapshots/weekly", "snapshots/monthly"),
    *(METRICS, SCRATCH, "tools"),
)
"""All that a mind is born with; an empty one holds a file KEEP."""
KEEP: Final = ".gitkeep"

PM_ONLY: Final = (IDENTITY, INVARIANTS, CORE)
"""The git door takes no change of these, or of what lies below them, from the agent."""
EVENTS_LINK: Final = "../../../events"
"""What `EVENTS` is in the clone: a link to `Paths.events`, in the container and on the host alike."""
NOT_COMMITTED: Final = (EVENTS, SCRATCH)
"""They are in the clone alone."""
MODIFIABLE_WHEN_TAINTED: Final = (HEALTH, INBOX, COMPLETED, BLOCKED, CANDIDATES, FAILED, "reflection", METRICS)
"""What may change while the agent is tainted by the web: nothing of it is placed before later runs, or is an order to
them. Of the inbox and of the open questions a tainted agent only takes out (the git door)."""
NOTED: Final = (LONG_TERM, BELIEFS)
"""A tainted agent changes these alone by what rests on notes of runs that had read no page (the git door)."""
MOST_FILE_BYTES: Final = 1 << 20
"""A file of the mind may be no larger in the branch."""
MOST_FILES: Final = 10_000
"""The branch may hold no more."""


def is_guarded_in_mind(path: str) -> bool:
    """Whether it may steer later work. A name that is written in other letters is none that may be changed."""
    return not is_below(path, (*MODIFIABLE_WHEN_TAINTED, *NOT_COMMITTED))


def is_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)
