"""What a runner asks of the git door besides git (`shared.door`). The cell writes the requests: what is not of these
types is refused by the decoder, and the keep decides about the rest."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from infra.shared.branches import version
from infra.shared.door import DoorRequest

MAX_BYTES = 256 << 10
"""Of one request."""
MAX_TICKS, MAX_EVENTS = 1000, 200
MAX_ORIGINS = 50
TITLE_CHARS, TEXT_CHARS = 500, 16_000
"""Of a report."""
TIPS_SECONDS = 30.0
"""How long `Tips` waits for news."""

Branch = Annotated[str, Meta(min_length=1, max_length=200)]
"""`branches.problem_with_branch` says the rest."""
Commit = Annotated[str, Meta(pattern=r"\A[0-9a-f]{7,64}\Z")]
Tick = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}\Z")]
Task = Annotated[str, Meta(pattern=r"\A[A-Z]{1,12}-[0-9]{1,12}\Z")]
Run = Annotated[str, Meta(pattern=r"\A([A-Za-z0-9][A-Za-z0-9._-]{0,99})?\Z")]


class Report(DoorRequest, frozen=True):
    """A report for the page, and the directives and tasks of the inbox that are done with it. The keep stamps it."""

    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    """The same id is the same report, however often it is handed over."""
    branch: Branch
    commit: Commit
    title: Annotated[str, Meta(max_length=TITLE_CHARS)]
    """Without the leading `branch@commit`, which the keep writes itself, as the watcher launched it."""
    text: Annotated[str, Meta(max_length=TEXT_CHARS)]
    ticks: Annotated[tuple[Tick, ...], Meta(max_length=MAX_TICKS)] = ()
    tasks: Annotated[tuple[Task, ...], Meta(max_length=MAX_TICKS)] = ()

    @property
    def whole_title(self) -> str:
        return f"{version(self.branch, self.commit)} {self.title}"


class Ask(DoorRequest, frozen=True):
    """May this call of a tool be made? Asked again, it gives the state of the same question."""

    tool: Annotated[str, Meta(max_length=200)]
    input: dict[str, Any]
    why: str
    branch: Branch
    commit: Commit
    work: Annotated[str, Meta(max_length=100)] = ""
    """The directive or task that the run is for, as the runner says: with its end the question is over."""


class Examine(DoorRequest, frozen=True):
    """Examine this commit of a branch; asked again, it tells how far that is."""

    branch: Branch
    commit: Commit


class AskTaint(DoorRequest, frozen=True, tag="taint"):
    """Is the agent tainted by the web, and what was it served lately?"""

    since: Annotated[float, Meta(ge=0)] = 0.0
    """When the run began that asks; seconds since the epoch."""


class Record(DoorRequest, frozen=True):
    """Events of the mind, of one step: the keep stamps time and number, and appends them."""

    events: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MAX_EVENTS)]


class Tips(DoorRequest, frozen=True):
    """Where are `main` and `mind`? Answered when either is not at the commit that is named here, or after
    TIPS_SECONDS."""

    main: str = ""
    mind: str = ""


class Where(msgspec.Struct, frozen=True):
    """Commits; empty for a branch that is not there."""

    main: str
    mind: str = ""


class Done(msgspec.Struct, frozen=True):
    """The report is on main."""

    main: str
    """Where it is then."""


class QuestionState(msgspec.Struct, frozen=True):
    """The state of a question."""

    id: str
    state: Literal["waiting", "approved", "denied"]
    why: str = ""


class Examination(msgspec.Struct, frozen=True):
    """The state of the examination, and what the verdict says."""

    state: Literal["waiting", "examined"]
    passed: bool = False
    words: str = ""
    """In one line: what ran, or why it has not passed."""
    needs_word: tuple[str, ...] = ()
    """What only the PM may agree to."""
    text: str = ""
    """What failed, as the tests tell it."""


class TaintedBy(msgspec.Struct, frozen=True):
    origins: tuple[str, ...] = ()
    """Whose text was served since then, the last one first."""
    is_tainted: bool = False
    """The agent has read the web since the PM last trusted it."""


class Recorded(msgspec.Struct, frozen=True):
    """The events are in the log."""

    last: int
    """The number of the last one."""
    at: str
    """When, as `clock.timestamp` gives it."""
