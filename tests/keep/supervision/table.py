"""The table of states and events in `spec/TABLE_SUPERVISION.md`, made by asking `decide` for each pair.

`python -m tests.keep.supervision.table` writes it anew; a test compares."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace

from infra.keep.active import Level, Runner
from infra.keep.supervision.decide import events
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Event
from infra.keep.supervision.decide.state import Instant, Patience, Phase, State
from infra.keep.watcher_file import BootRecord, Pin, SignalRequest, Version

PAGE = Path(__file__).parents[3] / "spec/TABLE_SUPERVISION.md"
NOW = Instant(1000.0, 1_800_000_000.0)
MAIN, OTHER = Version(commit="a" * 40, id="one"), Version(commit="b" * 40, id="two")
BOOT = "c" * 32
BOOTED = BootRecord(id=BOOT, branch="main", commit=MAIN.commit, reason="start", started_at="t")


def runner(level: Level) -> Runner:
    return Runner(BOOT, "better" if level is Level.BRANCH else "main", MAIN.commit, 7, 1.0, level, MAIN.id)


def state(phase: Phase, level: Level = Level.MAIN) -> State:
    alive = phase in (Phase.BOOTING, Phase.RUNNING, Phase.ENDING)
    return State(
        phase=phase,
        since=Instant(990.0, NOW.wall - 10),
        patience=Patience(60.0, 10.0, 600.0),
        deadline=1000.0 if phase not in (Phase.STARTING, Phase.RUNNING) else None,
        runner=runner(level) if alive else None,
        main=MAIN,
        boots=(replace(BOOTED, outcome="success" if phase is Phase.RUNNING else "booting"),) if alive else (),
    )


COLUMNS: tuple[tuple[str, State], ...] = (
    ("starting", state(Phase.STARTING)),
    ("starting, attempt recorded", replace(state(Phase.STARTING), attempt=runner(Level.MAIN), boots=(BOOTED,))),
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
    ("the watcher starts, nobody lives", events.Started()),
    ("the watcher starts, a runner serves", events.Started(runner(Level.MAIN), served=True)),
    ("main was looked at", events.MainSeen(MAIN, "start")),
    ("main cannot be read", events.LaunchFailed("main", "main could not be read")),
    ("main moved to another version", events.MainSeen(OTHER)),
    ("ready to launch", events.LaunchReady(runner(Level.MAIN), "start")),
    ("launched", events.Launched(runner(Level.MAIN))),
    ("main cannot be launched", events.LaunchFailed("main", "why")),
    ("a preparation began", events.Preparing("b", 60.0)),
    ("found unfit", events.LaunchFailed("better", "why", runner(Level.BRANCH))),
    ("well", events.Probed(BOOT)),
    ("not well", events.Probed(BOOT, "why")),
    ("a limit is exceeded, or SIGSTOP", events.MustEnd(BOOT, "why")),
    ("the runner died", events.Died(BOOT, "SIGKILL")),
    ("the mind has drifted", events.MindDrifted("why")),
    ("the mind is right again", events.MindDrifted("")),
    ("bootstrap is asked for", events.Asked(SignalRequest(name="bootstrap", target="better", identity="1"))),
    ("rollback is asked for", events.Asked(SignalRequest(name="rollback", target="main~1", identity="1"))),
    ("a signal is refused", events.SignalRefused("why")),
    ("rolled back", events.RolledBack("main~1", OTHER.commit)),
    ("rollback failed", events.RolledBack("main~1", problem="why")),
    ("the PM says retry", events.RetryAsked()),
    ("something to tell", events.Observed("title", "text")),
    ("the seal is not proved", events.SealFailed("why", BOOT)),
    ("the seal is broken", events.SealFailed("why")),
    ("an outage is over", events.OutageOver("the disk was full")),
    ("time is up", events.TimeIsUp()),
    ("stop", events.StopAsked()),
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
