"""The work loop on main: look at the page, do what it asks for, sleep until main moves or the clock ticks.

No unit starts on code that main has replaced, and with nothing open there is no model call. A door or a model that
fails is waited out; only handing over, or being asked to end, ends this loop."""

from __future__ import annotations

import enum
import time

from infra.cell.loop.loop import End, Outcome
from infra.cell.loop.model_client import ModelFailure
from infra.cell.runner import approvals, handover, news, unit
from infra.cell.runner.afresh import FreshStarts
from infra.cell.runner.beginning import NoPrompt
from infra.cell.runner.home import Home
from infra.cell.runner.page import Seen
from infra.cell.runner.wakes import Wakes, next_tick
from infra.shared import report_titles
from infra.shared.comms import Directive
from infra.shared.control import TENDING_SECONDS
from infra.shared.exit_codes import Exit
from infra.shared.places import BODY, VERSION
from infra.shared.repository.git import GitError
from infra.shared.repository.merge import changes_beyond_page
from infra.shared.repository.tip import TipBusy

RETRY_SECONDS = 10.0
"""After a look that failed; a wake by the door may have been lost with it."""
FAILURES_TO_REPORT = 3

_WHAT_TO_DO = {
    "authentication": "The provider refuses the API key: set a valid one and restart the agent.",
    "budget_exhausted": "Raise budget.daily_usd or budget.daily_tokens in minifram.yaml and restart the agent: it "
    "goes on at once; or wait for the next UTC day.",
    "unit_budget_exhausted": "Raise budget.unit_usd or budget.unit_tokens in minifram.yaml and restart the agent.",
    "context_overflow": "The page alone is too long for the model: prune COMMS.md, or lower model.max_tokens.",
    "invalid_request": "The provider calls the request wrong: see model.name in minifram.yaml, and logs/errors.log.",
}
_WAIT = "The agent goes on trying at each tick; 'minifram doctor' looks at the way to the model."


class Next(enum.Enum):
    """What follows a look at the page."""

    SLEEP = "sleep"
    RETRY = "retry soon"
    LOOK_AGAIN = "look again"
    LEAVE = "leave"


def until_handed_over(home: Home) -> Exit:
    """Live on main. Gives the exit code; raises Interrupted."""
    wakes = Wakes(home.boot.places.git_socket, home.log, home.interruption)
    work = Work(home, wakes)
    work.set_origin()
    interval = home.boot.limits.work_seconds
    ticked, tick = False, next_tick(time.time(), interval)
    while (then := work.look(ticked)) is not Next.LEAVE:
        if then is not Next.LOOK_AGAIN:
            until = tick if then is Next.SLEEP else min(tick, time.time() + RETRY_SECONDS)
            home.life.sleeping(until)
            home.heart.beat("sleeping", until - time.time())
            moved = wakes.sleep(until)
            home.log.info("runner.woken", by="main moved" if moved else "clock")
        now = time.time()
        ticked = not tick - interval <= now < tick  # before that, the clock was set back
        tick = next_tick(now, interval) if ticked else tick
    wakes.close()
    return Exit.OK


class Work:
    """What one look at the page has to know of the looks before it."""

    def __init__(self, home: Home, wakes: Wakes) -> None:
        self._home = home
        self._wakes = wakes
        self._first_unit = True
        self._put_off: str | None = None
        """The Directives that could not be finished: not tried again until the clock ticks or the PM moves main."""
        self._main = approvals.stood_at(home)
        """Main at the last look, if only at that of an earlier runner."""
        self._just_done: set[str] = set()
        """Directives that the last look ticked."""
        self._failures = 0
        """Units in a row that ended for want of a model."""
        self._told_of_prompt = False
        self._fresh_starts = FreshStarts()

    def set_origin(self) -> None:
        home = self._home
        home.heart.beat("looking", TENDING_SECONDS)
        try:
            # The clone is the agent's to change, but where the PM speaks to it is not: it could never be told again.
            home.git("config", "--replace-all", "remote.origin.url", home.boot.remote_url)
        except GitError as error:
            home.log.warning("origin.not_set", error=str(error))

    def look(self, ticked: bool) -> Next:
        """Look at main and its page, and work if there is work; `ticked` says that the clock woke us.

        Raises what it met when the clone itself is ruined: only the watcher can make another one."""
        self._home.interruption.check()
        self._home.heart.beat("looking", TENDING_SECONDS)
        if ticked:
            self._put_off = None
        try:
            return self._look(ticked)
        except (GitError, TipBusy, OSError) as error:
            self._home.log.error("look.failed", error=str(error))
            self._home.life.trouble(str(error))
            if not self._home.is_sound():
                raise
            return Next.RETRY

    def _look(self, ticked: bool) -> Next:
        home = self._home
        sent = home.page.send()
        seen = home.page.look()
        self._wakes.seen(seen.commit)
        self._hear(seen.commit)
        if is_outdated(home, seen.commit):
            return self._make_way(seen, ticked)
        if not home.boot.instead_of:
            catch_up(home, seen.commit)
        if seen.missing and sent:  # an unsent report puts them back as well
            title = f"{home.version()} put back into COMMS.md: {', '.join(seen.missing)}"
            sent = home.page.report(title, "Nothing else was changed. Write directives under '## Directives'.")
        if not self._failures:
            home.life.recovered()
        tasks = self._tasks(seen)
        if not tasks or seen.directives_text == self._put_off or approvals.stands_still(home, seen.directives_text):
            return Next.SLEEP if sent else Next.RETRY
        try:
            outcome = unit.work_on(home, seen, tasks, self._wakes, self._first_unit)
        except NoPrompt as missing:  # the PM's next push may bring it back, so nothing is put off
            self._report_no_prompt(missing, tasks)
            return Next.SLEEP
        self._told_of_prompt = False
        self._first_unit = False
        if outcome.end is End.COMPLETED:
            self._just_done = {task.id for task in tasks}
        return self._after(outcome, seen)

    def _hear(self, main: str) -> None:
        """A directive that could not be finished may have waited for what the PM has pushed."""
        before, self._main = self._main, main
        if before and news.from_the_pm(self._home.git, before, main):
            self._put_off = None
            approvals.go_on(self._home)

    def _tasks(self, seen: Seen) -> list[Directive]:
        """What is to be done now."""
        underway = self._home.page.ticks_underway()
        tasks = [task for task in seen.open if task.id not in underway]
        just_done, self._just_done = self._just_done, set()
        if tasks and just_done.issuperset(task.id for task in tasks):
            # The same again at once would never end; at the tick it may be the PM who wants it once more.
            self._home.log.error("directives.not_ticked", directives=[task.id for task in tasks])
            self._put_off = seen.directives_text
        return tasks

    def _make_way(self, seen: Seen, ticked: bool) -> Next:
        """Main's code is not what runs here: the watcher shall start what main holds now."""
        home = self._home
        home.log.info("code.outdated", running=home.boot.commit, main=seen.commit)
        body = home.git("ls-tree", seen.commit, "--", *BODY)
        if handover.made_way_before(home, " ".join(body.split())) and not ticked:
            home.log.error("code.still_outdated", running=home.boot.commit, main=seen.commit, next="at the next tick")
            return Next.SLEEP
        return Next.LEAVE if handover.hand_over_to_main(home, "main holds other code") else Next.RETRY

    def _after(self, outcome: Outcome, seen: Seen) -> Next:
        home = self._home
        if outcome.failure and outcome.end is End.MODEL_FAILURE:
            self._failures += 1
            self._put_off = seen.directives_text
            home.life.trouble(str(outcome.failure))
            self._report_failure(outcome.failure, seen)
            return Next.SLEEP
        if outcome.end is not End.INTERRUPTED:
            self._failures = 0
            approvals.go_on(home)
        if outcome.end is End.CONTEXT and self._fresh_starts.another({task.id for task in seen.open}):
            return Next.LOOK_AGAIN
        if outcome.end not in (End.INTERRUPTED, End.CONTEXT):
            self._fresh_starts.none()
        match outcome.end:
            case End.HANDED_OVER:
                return Next.LEAVE
            case End.COMPLETED:
                return Next.LOOK_AGAIN
            case End.INTERRUPTED:
                home.interruption.check()
            case End.CONTEXT:
                unit.report_stopped(home, outcome, seen.open)
            case End.AWAITING_APPROVAL:
                approvals.stand_still(home, seen.directives_text, seen.commit)
        self._put_off = seen.directives_text
        return Next.SLEEP

    def _report_no_prompt(self, missing: NoPrompt, tasks: list[Directive]) -> None:
        home = self._home
        home.log.error("prompt.missing", error=str(missing))
        home.life.trouble(str(missing))
        if not self._told_of_prompt:
            self._told_of_prompt = True
            title = report_titles.stopped(home.boot.branch, home.head_or_boot(), tasks[0].text, "no SYSTEM.md")
            home.page.report(title, str(missing))

    def _report_failure(self, failure: ModelFailure, seen: Seen) -> None:
        """Tell the PM: of an exhausted budget once a day, of other failures once when they go on."""
        home = self._home
        why = f"model {failure.type}"
        if failure.type == "budget_exhausted":
            why = f"{why} on {home.now()[:10]}"
            if f"stopped ({why})" in seen.document:
                return
        elif self._failures != FAILURES_TO_REPORT:
            return
        title = report_titles.stopped(home.boot.branch, home.head_or_boot(), seen.open[0].text, why)
        home.page.report(title, f"{failure.message}\n\n{_WHAT_TO_DO.get(failure.type, _WAIT)}")


def is_outdated(home: Home, main: str) -> bool:
    """Main holds other code than this runner was started for. Raises GitError.

    One that stands in for a main that cannot live makes way for another, whatever in it was mended."""
    if home.boot.instead_of:
        return changes_beyond_page(home.git, home.boot.instead_of, main, *VERSION)
    return changes_beyond_page(home.git, home.boot.commit, main, *BODY)


def catch_up(home: Home, main: str) -> None:
    """Bring the checkout to main when that loses nothing: it is clean, on main, and only behind."""
    git = home.git
    try:
        head, branch = home.head(), git("rev-parse", "--abbrev-ref", "HEAD")
        if head == main:
            return
        dirty = git("status", "--porcelain").splitlines()
        if branch == home.boot.branch and not dirty and git.ok("merge-base", "--is-ancestor", head, main):
            git("merge", "--quiet", "--ff-only", main)
            home.log.info("checkout.caught_up", before=head, after=main)
        else:
            home.log.warning("checkout.left", head=head, main=main, on=branch, uncommitted=len(dirty))
    except GitError as error:  # a lock that was left behind: the model is told how the checkout stands, and has git
        home.log.warning("checkout.left", main=main, error=str(error))
