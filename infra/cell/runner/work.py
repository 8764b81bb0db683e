"""The work loop on main: look at the page, work on its directives, sleep until main moves or the clock ticks.

No run starts on code that main has replaced, and with nothing open there is no model call. A door or a model that
fails is tried again later; work that does not end is begun three times (`tries`). Only handing over, or being asked to
end, ends this loop."""

from __future__ import annotations

import enum
import hashlib
import time

from infra.cell.loop.bash_tool import environment
from infra.cell.loop.loop import RunResult
from infra.cell.loop.patience import next_run_seconds
from infra.cell.model_client import ModelFailure, health
from infra.cell.runner import make_way, run
from infra.cell.runner.context import RunnerContext
from infra.cell.runner.handover_note import FreshStarts
from infra.cell.runner.make_way import is_outdated
from infra.cell.runner.page import PageSeen
from infra.cell.runner.run_start import NoPrompt
from infra.cell.runner.tries import WAITS, may_begin, next_try_at, stops_since_word
from infra.cell.runner.wakes import Wakes, next_tick
from infra.cell.services.declared import FILE
from infra.cell.services.supervisor import Services
from infra.shared import comms
from infra.shared.clock import timestamp
from infra.shared.comms import Directive
from infra.shared.control import TENDING_SECONDS
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import TipBusy
from infra.shared.repository.version import body_of
from infra.shared.repository.word import pm_has_moved
from infra.shared.run_states import StopReason
from infra.shared.status_file import SLEEPING
from infra.shared.subreaper import become_subreaper

DOOR_SECONDS = 5.0
RETRY_SECONDS = 10.0
"""After a look that failed; a wake by the door may have been lost with it."""

_WHAT_TO_DO = {
    "authentication": "The provider refuses the API key: set a valid one and restart the agent.",
    "budget_exhausted": "Raise budget.daily_usd or budget.daily_tokens in minifram.yaml and restart the agent: it "
    "goes on at once; or wait for the next UTC day.",
    "unit_budget_exhausted": "Raise budget.unit_usd or budget.unit_tokens in minifram.yaml and restart the agent.",
    "context_overflow": "The page alone is too long for the model: prune COMMS.md, or lower model.max_tokens.",
    "invalid_request": "The provider calls the request wrong: see model.name in minifram.yaml, and logs/errors.log.",
}
_WAIT = "The run keeps its place and is tried again at each tick; 'minifram doctor' looks at the way to the model."


class Next(enum.Enum):
    """What follows a look at the page."""

    SLEEP = "sleep"
    RETRY = "retry soon"
    LOOK_AGAIN = "look again"
    LEAVE = "leave"


def until_handed_over(context: RunnerContext) -> Exit:
    """Work on main, with the agent's services beside it. Gives the exit code; raises Interrupted."""
    try:
        become_subreaper()
    except OSError as error:  # then the watcher alone ends what gets away
        context.log.warning("orphans.not_adopted", error=str(error))
    services = Services(context.checkout, environment, context.log.info, context.status.services)
    services.start()
    try:
        return _until_handed_over(context._replace(services=services))
    finally:
        services.close()


def _until_handed_over(context: RunnerContext) -> Exit:
    wakes = Wakes(context.boot.places.git_socket, context.log, context.interruption)
    work = Work(context, wakes)
    work.set_origin()
    interval = context.boot.limits.work_seconds
    ticked, returned, tick = False, False, next_tick(time.time(), interval)
    while (then := work.look(ticked)) is not Next.LEAVE:
        if then is not Next.LOOK_AGAIN:
            until = tick if then is Next.SLEEP else min(tick, time.time() + RETRY_SECONDS)
            context.status.show(SLEEPING, until=timestamp(until), waits=work.waits)
            run.end_what_is_left(context)
            context.heartbeat.beat("sleeping", until - time.time())
            moved = wakes.sleep(until)
            returned = wakes.has_returned()
            context.log.info("runner.woken", by="main moved" if moved else "door" if returned else "clock")
        now = time.time()
        ticked = not tick - interval <= now < tick  # before that, the clock was set back
        if returned:  # what failed for want of the doors is tried again now
            ticked, returned = True, False
            _await_model_door(context)
        tick = next_tick(now, interval) if ticked else tick
    wakes.close()
    return Exit.OK


def _await_model_door(context: RunnerContext) -> None:
    """Both doors come back together, this one a little later."""
    deadline = time.monotonic() + DOOR_SECONDS
    while time.monotonic() < deadline:
        context.interruption.check()
        try:
            health(context.boot.places.model_socket, DOOR_SECONDS)
            return
        except ModelFailure:
            time.sleep(0.1)


class Work:
    """What one look at the page has to know of the looks before it."""

    def __init__(self, context: RunnerContext, wakes: Wakes) -> None:
        self._context = context
        self._wakes = wakes
        self._first_run = True
        self._put_off: str | None = None
        """The Directives that could not be finished: not tried again until the clock ticks or the PM moves main."""
        self._put_off_until = 0.0
        """And no tick before then, by the monotonic clock, begins them again."""
        self._resumes = False
        """The last run ended for want of a model, or was broken off: the next one goes on with it."""
        self._spoken = False
        """The PM has moved main since the last run began."""
        self._problem = ""
        """With the file of services, at the last look."""
        self.waits = ""
        """For what open directives wait."""
        self._main = context.state.memory.awaiting_at
        """Main at the last look, if only at that of an earlier runner."""
        self._just_done: set[str] = set()
        """Directives that the last look ticked."""
        self._failures = 0
        """Runs in a row that ended for want of a model."""
        self._reported_no_prompt = False
        self._fresh_starts = FreshStarts()

    def set_origin(self) -> None:
        """The clone is the agent's to change, but not where the PM speaks to it: it could never be told again."""
        context = self._context
        try:
            context.git("config", "--replace-all", "remote.origin.url", context.boot.remote_url)
        except GitError as error:
            context.log.warning("origin.not_set", error=str(error))

    def look(self, ticked: bool) -> Next:
        """Look at main and its page, and work if there is work; `ticked` says that the clock woke us.

        Raises what it met when the clone itself is ruined: only the watcher can make another one."""
        self._context.interruption.check()
        self._context.heartbeat.beat("looking", TENDING_SECONDS)
        if ticked and time.monotonic() >= self._put_off_until:
            self._put_off = None
        self.waits = ""
        try:
            return self._look(ticked)
        except (GitError, TipBusy, OSError) as error:
            self._context.log.error("look.failed", error=str(error))
            self._context.status.note_error(str(error))
            if not self._context.is_sound():
                raise
            return Next.RETRY

    def _look(self, ticked: bool) -> Next:
        context = self._context
        sent = context.page.send()
        seen = context.page.look()
        self._wakes.seen(seen.commit)
        before, self._main = self._main, seen.commit
        if before and pm_has_moved(context.git, before, seen.commit):  # a directive may have waited for that
            self._put_off = None
            self._put_off_until = 0.0
            self._spoken = True
            self._go_on()
        if is_outdated(context, seen.commit):
            return self._make_way(seen, ticked)
        if not context.boot.instead_of:
            catch_up(context, seen.commit)
        self._report_services(seen)
        if seen.missing and sent:  # an unsent report puts them back as well
            title = f"{context.version()} put back into COMMS.md: {', '.join(seen.missing)}"
            sent = context.page.report(title, "Nothing else was changed. Write directives under '## Directives'.")
        if not self._failures:
            context.status.note_error("")
        tasks = self._tasks(seen)
        awaiting = context.state.memory.awaiting == _hash(seen.directives_text)
        if not tasks or awaiting or seen.directives_text == self._put_off:
            self.waits = context.status.last_error if tasks and self._put_off_until else ""
            return Next.SLEEP if sent else Next.RETRY
        if not self._resumes and not self._may_begin(seen):
            return Next.SLEEP if sent else Next.RETRY
        try:
            result = run.work_on(context, seen, tasks, self._wakes, self._first_run or self._resumes)
        except NoPrompt as missing:  # the PM's next push may bring it back, so nothing is put off
            self._report_no_prompt(missing, tasks)
            return Next.SLEEP
        self._reported_no_prompt = False
        self._first_run = self._resumes = self._spoken = False
        if result.reason is StopReason.COMPLETED:
            self._just_done = {task.id for task in tasks}
        return self._after(result, seen)

    def _go_on(self) -> None:
        """Work waits for no answer any more."""
        if self._context.state.memory.awaiting:
            self._context.state.change(awaiting="", awaiting_at="")

    def _may_begin(self, seen: PageSeen) -> bool:
        """Whether the runs that were stopped since the PM last spoke leave another try, now."""
        context = self._context
        tick = context.boot.limits.work_seconds
        stops = stops_since_word(context.git, seen.commit, context.state.memory.unsent)
        if self._spoken or may_begin(stops, tick, time.time()):
            return True
        at = next_try_at(stops, tick)
        self.waits = f"{stops.runs} runs were stopped ({stops.why}). "
        self.waits += WAITS if at is None else f"The next try is at {timestamp(at)}."
        context.log.info("run.put_off", stopped=stops.runs, why=stops.why, until=at and timestamp(at))
        return False

    def _tasks(self, seen: PageSeen) -> list[Directive]:
        """The directives to work on now."""
        underway = self._context.page.ticks_underway()
        tasks = [task for task in seen.open if task.id not in underway]
        just_done, self._just_done = self._just_done, set()
        if tasks and just_done.issuperset(task.id for task in tasks):
            # The same again at once would never end; at the tick it may be the PM who wants it once more.
            self._context.log.error("directives.not_ticked", directives=[task.id for task in tasks])
            self._put_off = seen.directives_text
        return tasks

    def _make_way(self, seen: PageSeen, ticked: bool) -> Next:
        """Main's code is not what runs here: the watcher shall start what main holds now.

        If the watcher could not bring the checkout to main, the next runner is as outdated as the last one was: the
        note keeps the two from an endless exchange."""
        context = self._context
        context.log.info("code.outdated", running=context.boot.commit, main=seen.commit)
        body = " ".join(body_of(context.git, seen.commit).decode(errors="replace").replace("\0", " ").split())
        made_way = f"{context.boot.commit} made way for {body}"
        if context.state.memory.made_way == made_way and not ticked:
            context.log.error(
                "code.still_outdated", running=context.boot.commit, main=seen.commit, next="at the next tick"
            )
            return Next.SLEEP
        if not context.state.change(made_way=made_way):
            return Next.RETRY
        return Next.LEAVE if make_way.signal_main(context, "main holds other code") else Next.RETRY

    def _after(self, result: RunResult, seen: PageSeen) -> Next:
        context = self._context
        if result.failure and result.reason is StopReason.MODEL_UNAVAILABLE:
            failure = result.failure
            self._failures += 1
            self._put_off, self._resumes = seen.directives_text, True
            tick = context.boot.limits.work_seconds
            wait = next_run_seconds(failure.type, failure.retry_after_seconds, tick)
            self._put_off_until = time.monotonic() + wait if wait else 0.0
            context.status.note_error(str(failure))
            self._report_failure(failure, seen)
            return Next.SLEEP
        if result.reason is not StopReason.INTERRUPTED:
            self._failures = 0
            self._go_on()
        if result.reason is StopReason.CONTEXT and self._fresh_starts.another({task.id for task in seen.open}):
            return Next.LOOK_AGAIN
        if result.reason not in (StopReason.INTERRUPTED, StopReason.CONTEXT):
            self._fresh_starts.none()
        match result.reason:
            case StopReason.HANDED_OVER:
                return Next.LEAVE
            case StopReason.COMPLETED:
                return Next.LOOK_AGAIN
            case StopReason.INTERRUPTED:
                context.interruption.check()
                self._resumes = True  # or begins anew, if what was seen on main leaves nothing to resume
                return Next.LOOK_AGAIN
            case StopReason.CONTEXT:
                run.report_stopped(context, result, seen.open, seen.commit)
            case StopReason.AWAITING_APPROVAL:
                context.state.change(awaiting=_hash(seen.directives_text), awaiting_at=seen.commit)
        self._put_off = seen.directives_text
        return Next.SLEEP

    def _report_services(self, seen: PageSeen) -> None:
        """Report what is wrong with their file, once."""
        context = self._context
        if context.services is None:
            return
        context.services.refresh()  # the checkout has just caught up
        problem, self._problem = self._problem, context.services.problem
        if self._problem and self._problem not in (problem, *seen.document.splitlines()):
            title = f"{context.version()} {FILE} cannot be used"
            context.page.report(title, f"{self._problem}\n\nServices that ran before go on; no other is started.")

    def _report_no_prompt(self, missing: NoPrompt, tasks: list[Directive]) -> None:
        context = self._context
        context.log.error("prompt.missing", error=str(missing))
        context.status.note_error(str(missing))
        if not self._reported_no_prompt:
            self._reported_no_prompt = True
            run.report_end(context, tasks[0].text, "no SYSTEM.md", str(missing))

    def _report_failure(self, failure: ModelFailure, seen: PageSeen) -> None:
        """Report an exhausted budget once a day, another failure once while it goes on: by then the run has waited for
        what may pass, and for the rest there is nothing to wait for."""
        why = f"model {failure.type}"
        if failure.type == "budget_exhausted":
            why = f"{why} on {self._context.now()[:10]}"
            if f"stopped ({why})" in seen.document:
                return
        elif self._failures > 1 or f"stopped ({why})" in "".join(comms.reports(seen.document)[-1:]).partition("\n")[0]:
            return
        text = f"{failure.message}\n\n{_WHAT_TO_DO.get(failure.type, _WAIT)}"
        run.report_end(self._context, seen.open[0].text, why, text)


def catch_up(context: RunnerContext, main: str) -> None:
    """Bring the checkout to main when that loses nothing: it is clean, on main, and only behind."""
    git = context.git
    try:
        head, branch = context.head(), git("rev-parse", "--abbrev-ref", "HEAD")
        if head == main:
            return
        dirty = git("status", "--porcelain").splitlines()
        if branch == context.boot.branch and not dirty and git.ok("merge-base", "--is-ancestor", head, main):
            git("merge", "--quiet", "--ff-only", main)
            context.log.info("checkout.caught_up", before=head, after=main)
        else:
            context.log.warning("checkout.left", head=head, main=main, on=branch, uncommitted=len(dirty))
    except GitError as error:  # a lock that was left behind: the model sees the state of the checkout, and has git
        context.log.warning("checkout.left", main=main, error=str(error))


def _hash(directives: str) -> str:
    return hashlib.sha256(directives.encode(errors="surrogatepass")).hexdigest()
