"""The table of states and events in `spec/TABLE_SUPERVISION.md`, made by asking `decide` for each pair.

`python -m tests.keep.supervision.table` writes it anew; a test compares."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace

from infra.keep.supervision.decide import events
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Event
from infra.keep.watcher_file import BootRecord, Instant, Level, Outcome, Phase, Request, Runner, State, Strikes, Version

PAGE = Path(__file__).parents[3] / "spec/TABLE_SUPERVISION.md"
NOW = Instant(1000.0, 1_800_000_000.0)
MAIN, OTHER = Version("a" * 40, "one"), Version("b" * 40, "two")
BOOT = "c" * 32
BOOTED = BootRecord(boot_id=BOOT, branch="main", commit=MAIN.commit, reason="start", started_at="t")
PIN = Strikes(version=MAIN.id, commit=MAIN.commit, branch="main", count=2, pinned=True, why="it died", at="t")


def runner(level: Level, pid: int = 7) -> Runner:
    branch, version = "better" if level is Level.BRANCH else "main", "" if level is Level.SAFE else MAIN.id
    return Runner(boot_id=BOOT, branch=branch, commit=MAIN.commit, level=level, version=version, pid=pid)


def state(phase: Phase, level: Level = Level.MAIN, deadline: float | None = NOW.watch) -> State:
    is_alive, outcome = phase in (Phase.BOOTING, Phase.RUNNING, Phase.ENDING), Outcome.BOOTING
    return State(
        phase=phase,
        since=Instant(990.0, NOW.wall - 10),
        deadline=deadline,
        runner=runner(level) if is_alive else None,
        main=MAIN,
        boots=(replace(BOOTED, outcome=Outcome.SUCCESS if phase is Phase.RUNNING else outcome),) if is_alive else (),
    )


ATTEMPT = replace(state(Phase.STARTING, deadline=None), runner=runner(Level.MAIN, 0), boots=(BOOTED,))
COLUMNS: tuple[tuple[str, State], ...] = (
    ("starting", state(Phase.STARTING, deadline=None)),
    ("starting, attempt recorded", ATTEMPT),
    ("booting, a branch", state(Phase.BOOTING, Level.BRANCH)),
    ("booting, main", state(Phase.BOOTING)),
    ("running, main", state(Phase.RUNNING, deadline=None)),
    ("running, last good", replace(state(Phase.RUNNING, Level.GOOD, None), strikes=(PIN,), goods=(OTHER,))),
    ("running, safe mode", replace(state(Phase.RUNNING, Level.SAFE, None), strikes=(PIN,))),
    ("ending", state(Phase.ENDING)),
    ("waiting", state(Phase.WAITING)),
)
ROWS: tuple[tuple[str, Event], ...] = (
    ("the watcher starts", events.Started()),
    ("main was seen, as it was", events.MainSeen(MAIN, ())),
    ("main holds another version", events.MainSeen(OTHER, ())),
    ("ready to launch", events.Ready(runner(Level.MAIN, 0), "start")),
    ("launched", events.Launched(BOOT, 7)),
    ("main cannot be launched", events.NotLaunched("main", "why")),
    ("a branch is unfit", events.NotLaunched("better", "why", runner(Level.BRANCH))),
    ("SUCCESS", events.Served(BOOT)),
    ("a limit is exceeded, or a promise broken", events.MustEnd(BOOT, "why")),
    ("the runner died", events.Died(BOOT, "exit status 1")),
    ("the mind has drifted", events.MindDrifted("why")),
    ("the mind is right again", events.MindDrifted("")),
    ("bootstrap is asked for", events.Asked(Request(name="bootstrap", target="better", identity="1"))),
    ("rollback is asked for", events.Asked(Request(name="rollback", target="main~1", identity="1"))),
    ("rolled back", events.RolledBack("main~1", OTHER.commit)),
    ("rollback failed", events.RolledBack("main~1", problem="why")),
    ("the PM says retry", events.RetryAsked()),
    ("something to tell", events.Observed("title", "text")),
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
