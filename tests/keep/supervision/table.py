"""The table of states and events in `spec/TABLE_SUPERVISION.md`, made by asking `decide` for each pair.

`python -m tests.keep.supervision.table` writes it anew; a test compares."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace

from infra.keep.supervision import states
from infra.keep.supervision.decide import decide
from infra.keep.supervision.states import Event, Instant, Launch, Patience, Phase, State
from infra.shared.active import Level, Runner
from infra.shared.watcher_file import BootRecord, Pin, Request, Version

PAGE = Path(__file__).parents[3] / "spec/TABLE_SUPERVISION.md"
NOW = Instant(1000.0, 1_800_000_000.0)
MAIN, OTHER = Version(commit="a" * 40, id="one"), Version(commit="b" * 40, id="two")
BOOT = "c" * 32
LAUNCH = Launch("better", "bootstrap", Level.BRANCH)


def runner(level: Level) -> Runner:
    return Runner(BOOT, "better" if level is Level.BRANCH else "main", MAIN.commit, 7, 1.0, level, MAIN.id)


def state(phase: Phase, level: Level = Level.MAIN) -> State:
    alive = phase in (Phase.BOOTING, Phase.RUNNING, Phase.ENDING)
    boot = BootRecord(id=BOOT, branch="main", commit=MAIN.commit, reason="start", started_at="t")
    return State(
        phase=phase,
        since=Instant(990.0, NOW.wall - 10),
        patience=Patience(60.0, 10.0, 600.0),
        deadline=1000.0 if phase not in (Phase.STARTING, Phase.RUNNING) else None,
        runner=runner(level) if alive else None,
        main=MAIN,
        boots=(replace(boot, outcome="success" if phase is Phase.RUNNING else "booting"),) if alive else (),
    )


COLUMNS: tuple[tuple[str, State], ...] = (
    ("starting", state(Phase.STARTING)),
    ("preparing", replace(state(Phase.PREPARING), preparing="main")),
    ("booting, a branch", state(Phase.BOOTING, Level.BRANCH)),
    ("booting, main", state(Phase.BOOTING)),
    ("running, main", state(Phase.RUNNING)),
    (
        "running, last good",
        replace(
            state(Phase.RUNNING, Level.GOOD),
            pins=(Pin(version="two", commit=OTHER.commit, branch="main", why="it died", at="t"),),
        ),
    ),
    ("ending", state(Phase.ENDING)),
    ("waiting", state(Phase.WAITING)),
)
ROWS: tuple[tuple[str, Event], ...] = (
    ("the watcher starts, nobody lives", states.Started()),
    ("the watcher starts, a runner serves", states.Started(runner(Level.MAIN), served=True)),
    ("an unnoted launch is found", states.LaunchFound("main")),
    ("main was looked at", states.MainSeen(MAIN, "start")),
    ("main cannot be read", states.MainUnseen("gone")),
    ("main moved to another version", states.MainMoved(OTHER)),
    ("launched", states.Launched(runner(Level.MAIN), "start")),
    ("main cannot be launched", states.LaunchFailed("main", "why")),
    ("a preparation began", states.Preparing("b", 60.0)),
    ("prepared", states.Prepared(LAUNCH)),
    ("found unfit", states.Prepared(LAUNCH, "why", runner(Level.BRANCH))),
    ("SUCCESS, and well", states.Served(BOOT)),
    ("not well", states.Unwell(BOOT, "why")),
    ("stopped by SIGSTOP", states.Unwell(BOOT, "why", certain=True)),
    ("well again", states.Well(BOOT)),
    ("a limit is passed", states.Exceeded(BOOT, "why")),
    ("the runner died", states.Died(BOOT, "SIGKILL")),
    ("bootstrap is asked for", states.Asked(Request(name="bootstrap", target="better", identity="1"))),
    ("rollback is asked for", states.Asked(Request(name="rollback", target="main~1", identity="1"))),
    ("a signal is refused", states.SignalRefused("why")),
    ("rolled back", states.RolledBack("main~1", OTHER.commit)),
    ("rollback failed", states.RollbackFailed("main~1", "why")),
    ("the PM says retry", states.RetryAsked()),
    ("something to tell", states.Observed("title", "text")),
    ("the seal is not proved", states.SealUnproved(BOOT, "why")),
    ("the seal is broken", states.SealBroken("why")),
    ("an outage is over", states.OutageOver("the disk was full")),
    ("time is up", states.TimeIsUp()),
    ("stop", states.StopAsked()),
)


def cell(before: State, event: Event) -> str:
    after, actions = decide(before, event, NOW)
    words = [type(action).__name__ for action in actions]
    if after == before and not words:
        return "·"
    phase = after.phase.value if after.phase is not before.phase else ""
    pinned = "pins" if len(after.pins) > len(before.pins) else ""
    return "; ".join(filter(None, (f"**{phase}**" if phase else "", ", ".join(words), pinned))) or "noted"


def text() -> str:
    lines = [
        "# TABLE: what the watcher does",
        "",
        "Made from `decide` by `python -m tests.keep.supervision.table`; not for editing. For each state and event:",
        "the phase that follows (bold, when it is another), and the actions. `·`: nothing changes. `noted`: only",
        "what is remembered does. STOPPED is not shown: nothing follows it. With a request waiting, or the watcher",
        "asked to stop, a runner that leaves is followed by that instead.",
        "",
        "| event | " + " | ".join(name for name, _ in COLUMNS) + " |",
        "|---|" + "---|" * len(COLUMNS),
    ]
    lines += [f"| {name} | " + " | ".join(cell(before, event) for _, before in COLUMNS) + " |" for name, event in ROWS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text())
    sys.exit(0)
