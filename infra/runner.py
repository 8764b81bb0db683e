"""The agent's own life as one story: boot; on main work and sleep, on any other branch prove oneself and hand over.

Started by the watcher in the checkout that it is to run. How long a start takes is measured, so until SUCCESS only
cheap modules are imported; the rest is imported where the story first needs it."""

from __future__ import annotations

import os
import sys
import time

from infra.shared.clock import timestamp

TYPE_CHECKING = False  # what type checkers take for typing's own, which would cost more than the lines below
if TYPE_CHECKING:
    from infra.cell.runner.control import Heart
    from infra.cell.runner.home import Home
    from infra.shared.boot import Boot


def main() -> int:
    leave_mark(time.time())
    code, up = come_up()
    if up is None:
        return code
    boot, heart = up

    from infra.cell.runner import stop  # first of all: from here on the end of this process is an orderly one

    interruption = stop.listen()
    from infra.cell.runner import home

    here = home.settle(boot, os.getcwd(), interruption, heart=heart)
    here.log.info("runner.started", reason=boot.reason, autonomy=boot.autonomy)
    try:
        return live(here)
    except stop.Interrupted:
        stop.no_more_hurry()
        here.log.info("runner.interrupted", why="SIGTERM")
        return 0
    finally:
        heart.beat("leaving", 0.0)
        here.life.leaving()


def leave_mark(started_at: float) -> None:
    """Append the BOOTSTRAPPING line, with nothing yet imported: whatever this version breaks, its start is on record.

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


def come_up() -> tuple[int, tuple[Boot, Heart] | None]:
    """See whether this version can work here, and say so in the boot log: SUCCESS, or FAILED with the reason."""
    from infra.cell.runner import start

    boot = None
    try:
        boot = start.boot_value(os.environ.pop("MINIFRAM_BOOT", ""))
        heart = start.preflight(boot, os.getcwd())
        start.succeeded(boot, os.getcwd())
    except start.Unfit as unfit:
        start.failed(unfit, os.getcwd())
        return unfit.code, None
    except Exception as error:
        start.failed(start.broken(error, boot), os.getcwd())
        raise
    return 0, (boot, heart)


def live(here: Home) -> int:
    from infra.shared.branches import MAIN

    if here.boot.branch != MAIN:
        from infra.cell.runner import hop

        return hop.prove_and_hand_over(here)

    from infra.cell.runner import work

    return work.until_handed_over(here)


if __name__ == "__main__":
    sys.exit(main())
