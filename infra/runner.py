"""The runner: boots; on main it works and sleeps, on any other branch it has itself examined and hands over to main.

The watcher starts it in the checkout whose code it runs. The duration of a start is measured, so until SUCCESS only
cheap modules are imported; the rest is imported where it is first needed."""

from __future__ import annotations

import os
import sys
import time

from infra.cell.life.boot_log import append
from infra.shared.clock import timestamp


def main() -> int:
    launch = leave_mark(sys.argv[1:], time.time())
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    from infra.cell.life.start import come_up

    boot, heartbeat = come_up(launch, os.getcwd())
    import signal  # from here on this process ends in order

    from infra.cell.interruption import Interrupted, Interruption

    interruption = Interruption()
    signal.signal(signal.SIGTERM, lambda number, frame: interruption.ask())
    from infra.cell.cell import cell_of
    from infra.cell.status import LEAVING
    from infra.shared.branches import MAIN

    cell = cell_of(boot, os.getcwd(), interruption, heartbeat=heartbeat)
    cell.log.info("runner.started", reason=boot.reason, autonomy=boot.autonomy)
    try:
        if boot.branch == MAIN:
            from infra.cell.life.live import until_handed_over as lead
        else:
            from infra.cell.life.hop import prove_and_hand_over as lead
        return lead(cell)
    except Interrupted:
        cell.log.info("runner.interrupted", why="SIGTERM")
        return 0
    finally:
        heartbeat.beat("leaving", 0.0)
        cell.status.show(LEAVING)


def leave_mark(words: list[str], started_at: float) -> tuple[str, str, str]:
    """Append the BOOTSTRAPPING line, with nothing yet imported: so the start of a broken version is on record, too.
    Gives branch, commit and id of the boot, with which the watcher ends the command line."""
    branch, commit, id = words if len(words) == 3 else ("-", "-", "0" * 32)
    append("logs/bootstrap.log", f"{timestamp(started_at)} BOOTSTRAPPING {branch} {commit} {id}\n")
    return branch, commit, id


if __name__ == "__main__":
    sys.exit(main())
