"""A life on main: look at the page, work on what is first and does not wait, sleep until main moves or the clock ticks.

No run starts on code that main has replaced, and with nothing open there is no model call. Only handing over, or being
asked to end, ends this loop."""

from __future__ import annotations

import os
import time

from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.life.hop import catch_up, signal_main
from infra.cell.mind import duties
from infra.cell.page import PageSeen
from infra.cell.run.run import WorkRun, end_what_is_left
from infra.cell.run_states import StopReason
from infra.cell.services.services import Services
from infra.cell.tools.bash import environment
from infra.cell.waits import MODEL, Wait, after_hop, released, shown, words_on
from infra.cell.wakes import Wakes, next_tick
from infra.cell.work.directives import Directives, awaits_review, pm_has_moved
from infra.cell.work.questions import Questions
from infra.cell.work.tasks import Tasks
from infra.cell.work.work import next_work
from infra.shared.clock import timestamp
from infra.shared.conversation import EXPLORATION
from infra.shared.exit_codes import Exit
from infra.shared.paths import SERVICES, SLEEPING
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import TipBusy
from infra.shared.signals import FALLBACK
from infra.shared.subreaper import become_subreaper

RETRY_SECONDS = 10.0
"""After a look that failed; a wake by the door may have been lost with it."""
QUIET_SECONDS = 3.0
"""Before duties begin. A directive that follows a report at once, as in a conversation, does not wait for one."""


def until_handed_over(cell: Cell) -> Exit:
    """Live, with the agent's services beside it. Gives the exit code; raises Interrupted."""
    try:
        become_subreaper()
    except OSError as error:  # then the watcher alone ends what gets away
        cell.log.warning("orphans.not_adopted", error=str(error))

    services = Services(
        cell.checkout, cell.boot.code, environment, cell.log.info, lambda words: cell.status.change(services=words)
    )
    services.start()
    wakes = Wakes(cell.boot.places.git_socket, cell.log, cell.interruption, cell.heartbeat.beat)
    try:
        return live(cell._replace(services=services), wakes)
    finally:
        wakes.close()
        services.close()


def live(cell: Cell, wakes: Wakes) -> Exit:
    """Look, work and sleep until this runner hands over. Raises Interrupted; and what a look met when the clone itself
    is ruined, as only the watcher can make another one."""
    tasks, tick = Tasks(cell, wakes), cell.boot.limits.work_seconds
    sources = (Directives(tasks), *(() if cell.boot.is_safe_mode else (tasks, Questions(cell, tasks))))
    cell.state.waits_for(MODEL, Wait())
    _come_back(cell)
    while True:
        cell.interruption.check()
        cell.heartbeat.beat("looking", TENDING_SECONDS)
        waits, is_well = "", True
        try:
            seen = _look(cell, wakes)
            if cell.is_outdated(seen.commit):
                cell.log.info("code.outdated", running=cell.boot.commit, main=seen.commit)
                if signal_main(cell, "main holds other code"):
                    return Exit.OK
                is_well = False
            else:
                _put_right(cell, seen)
                tasks.look()
                underway = cell.page.ticks_underway()
                found, waiting = next_work(sources, seen, cell.state.memory.waits, underway, time.time(), tick)
                if (found is None or found[0].label == EXPLORATION) and not _tended(cell, wakes):
                    continue  # main moved meanwhile
                waits = shown(waiting)
                if found:
                    result = WorkRun(cell, seen, *found, wakes).work()
                    if result.reason is StopReason.HANDED_OVER:
                        return Exit.OK
                    continue
        except (GitError, TipBusy, OSError) as error:
            cell.log.error("look.failed", error=str(error))
            cell.status.change(last_error=str(error))
            if not cell.is_sound():
                raise
            is_well = False
        _sleep(cell, wakes, waits, is_well and not cell.state.memory.unsent)


def _come_back(cell: Cell) -> None:
    """From a hop: an agent that asks for the same again and again would be started again and again, and pay for it."""
    now, tick = time.time(), cell.boot.limits.work_seconds
    for id, wait in cell.state.memory.waits.items():
        if wait.why == StopReason.HANDED_OVER.value:
            then = after_hop(wait, cell.boot.reason.startswith(FALLBACK), now, tick)
            if then.until is None:
                cell.page.add(f"waits ({then.why}): {id}", words_on(then))
            cell.state.waits_for(id, then)


def _look(cell: Cell, wakes: Wakes) -> PageSeen:
    """At main, and whether the PM has spoken there since the last look, if only by an earlier runner. Raises GitError,
    OSError."""
    cell.page.send()
    seen = cell.page.look()
    wakes.seen(main=seen.commit)
    before, table = cell.state.memory.main, cell.state.memory.waits
    if before != seen.commit:
        if before and pm_has_moved(cell.git, before, seen.commit):
            branches = {wait.branch for wait in table.values() if wait.is_review}
            table = released(table, {each for each in branches if awaits_review(cell.git, seen.document, each)})
        cell.state.change(main=seen.commit, waits=table)
    if MODEL not in table:
        cell.status.change(last_error="")
    return seen


def _put_right(cell: Cell, seen: PageSeen) -> None:
    """The checkout follows main, and the PM hears of a file of services that cannot be used. Raises GitError."""
    if not cell.boot.instead_of:
        catch_up(cell, seen.commit)
    problem = cell.services.problem if cell.services else ""
    if problem and not cell.state.memory.unsent and problem not in seen.document.splitlines():
        title = f"{SERVICES} cannot be used"
        cell.page.report(title, f"{problem}\n\nNo service runs until main has a {SERVICES} that can be used.")


def _tended(cell: Cell, wakes: Wakes) -> bool:
    """Do the standing duties of the mind that are due, after a while of quiet; False when main moved meanwhile, so that
    it is to be looked at. Raises Interrupted."""
    if cell.boot.is_safe_mode or not os.path.isdir(f"{cell.boot.places.mind}/.git"):
        return True
    try:
        if duties.due(cell) and not wakes.is_quiet(QUIET_SECONDS):
            return False
        return duties.tend(cell, wakes.moved)
    except Exception as error:  # the runner's work is not to end for it
        cell.log.error("mind.maintenance_failed", exc_info=error)
        return True


def _sleep(cell: Cell, wakes: Wakes, waits: str, is_well: bool) -> None:
    """Until main moves or the clock ticks. Raises Interrupted."""
    now = time.time()
    until = next_tick(now, cell.boot.limits.work_seconds)
    until = until if is_well else min(until, now + RETRY_SECONDS)
    cell.status.show(SLEEPING, until=timestamp(until), waits=waits)
    end_what_is_left(cell)
    cell.log.info("runner.woken", by="main moved" if wakes.sleep(until) else "clock")
