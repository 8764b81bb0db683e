"""The runner: boots; on main it works and sleeps, on any other branch it has itself examined and hands over to main.

The watcher starts it in the checkout whose code it runs. The duration of a start is measured, so until SUCCESS only
cheap modules are imported; the rest is imported where it is first needed."""

from __future__ import annotations

import os
import sys
import time

from infra.shared.clock import timestamp

TYPE_CHECKING = False  # what type checkers take for typing's own, which would cost more than the lines below
if TYPE_CHECKING:
    from infra.cell.cell import Cell
    from infra.shared.boot import Boot
    from infra.shared.heart import Heart


def main() -> int:
    code, up = come_up(leave_mark(time.time()))
    if up is None:
        return code
    boot, heartbeat = up

    from infra.cell.runner import stop  # first of all: from here on this process ends in order

    interruption = stop.listen()
    from infra.cell.cell import cell_of

    context = cell_of(boot, os.getcwd(), interruption, heartbeat=heartbeat)
    context.log.info("runner.started", reason=boot.reason, autonomy=boot.autonomy)
    try:
        return work(context)
    except stop.Interrupted:
        context.log.info("runner.interrupted", why="SIGTERM")
        return 0
    finally:
        heartbeat.beat("leaving", 0.0)
        context.status.leaving()


def leave_mark(started_at: float) -> tuple[str, str, str]:
    """Append the BOOTSTRAPPING line, with nothing yet imported: so the start of a broken version is on record, too.
    Gives id, branch and commit of the boot.

    Id, branch and commit stand at the beginning of the boot value; reading it as JSON would cost more than all else
    here, and is done right after."""
    words = os.environ.get("MINIFRAM_BOOT", "").split('"', 12)
    known = words[1:10:4] == ["id", "branch", "commit"]
    boot_id, branch, commit = words[3:12:4] if known else ("0" * 32, "-", "-")
    os.makedirs("logs", exist_ok=True)
    log = os.open("logs/bootstrap.log", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    size = os.fstat(log).st_size
    torn = size > 0 and os.pread(log, 1, size - 1) != b"\n"  # a full disk may have cut an earlier line
    line = f"{timestamp(started_at)} BOOTSTRAPPING {branch} {commit} {boot_id}\n"
    os.write(log, b"\n" * torn + line.encode())
    os.close(log)
    return boot_id, branch, commit


def come_up(launch: tuple[str, str, str]) -> tuple[int, tuple[Boot, Heart] | None]:
    """See whether this version can work here, and say so in the boot log: SUCCESS, or FAILED with the reason."""
    from infra.cell.life import start
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    try:
        boot = start.boot_value(os.environ.pop("MINIFRAM_BOOT", ""))
        heartbeat = start.preflight(boot, os.getcwd())
        start.succeeded(boot, os.getcwd())
    except start.Unfit as unfit:
        start.failed(launch, str(unfit), unfit.code, os.getcwd())
        return unfit.code, None
    except Exception as error:
        start.failed(launch, f"{type(error).__name__}: {error}; see errors.log", 1, os.getcwd())
        raise
    return 0, (boot, heartbeat)


def work(context: Cell) -> int:
    from infra.shared.branches import MAIN

    if context.boot.branch != MAIN:
        from infra.cell.life import hop

        return hop.prove_and_hand_over(context)

    from infra.cell.runner.work import until_handed_over

    return until_handed_over(context)


if __name__ == "__main__":
    sys.exit(main())
