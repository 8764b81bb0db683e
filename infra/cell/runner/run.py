"""One run: all open directives in one conversation, from the runner's briefing to a report on main.

A run that the model ends with words is reported and its directives are ticked, in one commit. One that is cut short is
reported and leaves them open; when to try again is the work loop's decision."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from infra.cell import report_titles
from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.doors import ModelFailure
from infra.cell.loop.context import Room
from infra.cell.loop.images import with_images
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import DENIED_TO_END, IDLE_TO_END, MAX_FAILURES, RunConfig
from infra.cell.loop.record import Acted, Answered, Compacted, Ended, Entered, Line, ModelFailed
from infra.cell.loop.ways import BROKEN_REPLIES, News, news_of
from infra.cell.merged_clones import remove_merged
from infra.cell.mind import notes
from infra.cell.mind.mind import MindRun
from infra.cell.page import PageSeen
from infra.cell.policy.gate import gate_of
from infra.cell.run.patience import ask_patiently
from infra.cell.run_states import StopReason
from infra.cell.runner.approvals import Approvals
from infra.cell.runner.budget_notices import BudgetNotices
from infra.cell.runner.job import directive_ids, is_job
from infra.cell.runner.job_run import JobRun
from infra.cell.runner.mind import mind_context
from infra.cell.runner.new_directives import NewDirectives
from infra.cell.runner.opening import Opening, open_run
from infra.cell.runner.tries import Stops, next_try_at, pm_has_moved, stops_of_task, stops_since_word, why_of, words_of
from infra.cell.runner.web_reads import WebReads
from infra.cell.services import processes
from infra.cell.status import WORKING
from infra.cell.tools.seed import seed_tools
from infra.cell.tools.tool import Position, Toolbox
from infra.cell.wakes import Wakes
from infra.shared.boot import OPERATIONS
from infra.shared.clock import began, timestamp
from infra.shared.comms import Directive
from infra.shared.conversation import Completion
from infra.shared.repository.git import GitError
from infra.shared.text import first_line

MOST_NAMED = 20

_WHY_STOPPED = {
    StopReason.MAX_STEPS: "it used up its {steps} steps (limits.run_steps)",
    StopReason.MAX_WALL_TIME: "it used up its time (limits.run_seconds)",
    StopReason.MAX_TOKENS: "its replies were cut {broken} times in a row; smaller pieces or a higher model.max_tokens "
    "help",
    StopReason.INVALID_REPLIES: "its replies asked for acts in a form that cannot be carried out, or ended without a "
    "report",
    StopReason.REFUSAL: "the model refused to go on",
    StopReason.NO_OP_LOOP: "{idle} steps in a row only repeated calls of the run, with the same results",
    StopReason.MAX_FAILURES: "{failed} calls in a row failed",
    StopReason.POLICY_DENIED: "in {denied} steps in a row, the policy denied every call",
    StopReason.AWAITING_APPROVAL: "a call waits for your approval",
    StopReason.NOT_RECORDED: "what it did could not be written into the mind's events",
}


def work_on(
    context: Cell,
    seen: PageSeen,
    tasks: Sequence[Directive],
    wakes: Wakes | None,
    look_back: bool,
    jobs: JobRun | None = None,
) -> RunResult:
    """Work on `tasks` until the model ends its turn or a bound is met, and report. With `look_back`, a run that the
    last runner could not end is resumed. `jobs`: what else the run is for than directives. Raises GitError, OSError
    before the first model call only."""
    started_at = time.time()
    approvals = Approvals(context, seen)
    jobs = jobs or JobRun(context)
    reads = WebReads(context.keep)
    gate = gate_of(context.boot.policy, context.checkout, approvals.ask)

    def on_bug(error: BaseException) -> None:
        context.log.error("act.broken", exc_info=error)

    position = Position()
    mind = MindRun(mind_context(context, reads), position)
    mind.prepare()
    remove_merged(context, seen.commit)

    def toolbox_for(acts: str) -> Toolbox:
        how = (context.boot, context.checkout, context.git, context.interruption)
        return seed_tools(
            *how,
            on_bug,
            gate,
            lambda began: end_what_is_left(context, began),
            acts == OPERATIONS,
            position,
            mind.tools(),
            mind.preflight,
        )

    start = open_run(context, seen, tasks, toolbox_for, look_back, mind.reads)
    start = start._replace(request=jobs.asked(start.request))
    position.run = start.name
    reads.began = began(start.name) or reads.began
    ids = [task.id for task in start.tasks]
    mind.begin(jobs.pm_words(start.tasks), ids, start.before is not None, start.request.label)
    facts = {"directives": ids, "main": seen.commit, "steps_on_record": start.steps}
    context.log.info("run.started", run=start.name, **facts)
    context.status.show(WORKING, about=first_line(start.tasks[0].text))
    start.write(context)
    other_news = jobs.with_news(approvals.news)
    directives = NewDirectives(context, wakes, start.tasks, other_news, start.before is not None)
    approvals.recall(start.record.lines)
    jobs.begin(start)
    result = _conversation(context, start, toolbox_for(start.acts), position, directives, approvals, mind, jobs)
    context.heartbeat.beat("reporting", TENDING_SECONDS)
    end_what_is_left(context)
    facts = {"end": result.reason.value, "steps": result.steps, "seconds": round(time.time() - started_at, 3)}
    failure = str(result.failure) if result.failure else None
    context.log.info("run.finished", run=start.name, **facts, failure=failure, words=first_line(result.text))
    result = result._replace(text=result.text + mind.put_right())
    if not jobs.report(result, directives.tasks, approvals.lines, seen.commit, reads):
        _report(context, result, directives.tasks, approvals.lines, seen.commit)
    jobs.rest()
    mind.end(result)
    jobs.send()  # behind the mind: then the keep sees there that the task is done
    start.record.append(
        Ended(result.reason.value, result.steps, failure or "")
    )  # last: a run that has no end is resumed, and at worst its report comes again
    return result


def end_what_is_left(context: Cell, began: float = 0.0) -> None:
    """Every process that is nobody's: of a run, or of a service that left it; those alone that are not older than
    `began`. A runner that is asked to end leaves that to the watcher."""
    services = context.services
    if services is None or context.interruption.asked:
        return
    try:
        ended = processes.end_all_but(services.pids, began)
    except Exception as error:  # the work is done, and is reported
        context.log.error("run.leftovers_not_ended", exc_info=error)
        return
    if ended:
        context.log.info("run.leftovers_ended", processes=ended[:MOST_NAMED])


def _conversation(
    context: Cell,
    start: Opening,
    toolbox: Toolbox,
    position: Position,
    directives: NewDirectives,
    approvals: Approvals,
    mind: MindRun,
    jobs: JobRun,
) -> RunResult:
    """The loop; from where its record says that it stands."""
    limits = context.boot.limits
    budgets = BudgetNotices()
    told = [start.told]

    def record(event: Line) -> None:
        start.record.append(event)
        if isinstance(event, Entered):
            position.step = event.step
            context.status.change(state=event.state.value, steps=event.step)
            mind.record(event)
            return
        # Some tools, and a look for new directives, are git calls.
        context.heartbeat.beat("working", max(limits.bash_seconds, TENDING_SECONDS))
        mind.record(event)
        if isinstance(event, Acted) and event.tool_name == "bash":
            note_what_was_left(event)
        match event:
            case Answered(completion=completion) | Compacted(answer=Completion() as completion):
                budgets.note(completion.spent)

    def note_what_was_left(after: Acted) -> None:
        for call in notes.taken(context.boot.places.mind):
            context.heartbeat.beat("working", max(limits.bash_seconds, TENDING_SECONDS))
            began = time.monotonic()
            result = toolbox.call(call)
            mind.record(Acted.of(after.step_id, call, result, time.monotonic() - began))

    def news() -> str | None:
        if context.services:
            processes.reap(context.services.pids)
        return news_of(told.pop() if told else "", News(pm=directives.news()), budgets.news()) or None

    def failed(failure: ModelFailure, wait_seconds: float | None) -> None:
        start.record.append(ModelFailed(failure.type, failure.message, wait_seconds))

    task, config = (
        Task(start.request, start.acts, start.before),
        RunConfig(start.most_steps(limits), limits.run_seconds),
    )
    until = time.monotonic() + limits.run_seconds
    ask = with_images(context.ask_in_time, context.checkout)
    patient = ask_patiently(context, ask, directives.wait, failed, until)
    room = Room(limits.context_tokens, directives.all_words)
    return run_task(task, config, TaskContext(patient, toolbox.call, news, record, approvals.awaits, room))


def _report(
    context: Cell, result: RunResult, tasks: Sequence[Directive], answers: Collection[str], began_at: str
) -> None:
    """`answers` are directives that are done with the run as well."""
    match result.reason:
        case StopReason.COMPLETED:
            text = result.text or "The model ended its turn without a word."
            title = report_titles.done(context.boot.branch, context.head_or_boot(), _subject(tasks))
            context.page.report(title, text, (*directive_ids(tasks), *sorted(answers)))
        case StopReason.HANDED_OVER | StopReason.INTERRUPTED | StopReason.MODEL_UNAVAILABLE:
            pass  # the next runner or the next attempt goes on; the work loop knows what is worth a report
        case _:
            report_stopped(context, result, tasks, began_at)


def report_stopped(context: Cell, result: RunResult, tasks: Sequence[Directive], began_at: str) -> None:
    """Report a run that was cut short, and what follows; `began_at`: where main was then."""
    why = _WHY_STOPPED[result.reason].format(
        steps=result.steps,
        broken=BROKEN_REPLIES,
        idle=IDLE_TO_END,
        failed=MAX_FAILURES,
        denied=DENIED_TO_END,
    )
    title = result.reason.value
    if result.reason is StopReason.AWAITING_APPROVAL:
        then = "Its directives stay open and are tried again when you have answered or pushed to main."
    elif result.reason is StopReason.NOT_RECORDED:
        then = "Its directives stay open and are tried again when you push to main, at a restart, and at a later tick."
    else:
        task = tasks[0].id if is_job(tasks[0].id) else ""
        stops = _stops_with(context, result.reason, began_at, task)
        at = next_try_at(stops, context.boot.limits.work_seconds)
        title, then = why_of(stops), words_of(stops, at and timestamp(at), task)
    more = f"\n\n{result.failure.message}" if result.failure else ""
    report_end(context, tasks, title, f"The run ended because {why}. {then}{more}\n\n{result.text}")


def _stops_with(context: Cell, reason: StopReason, began_at: str, task: str) -> Stops:
    """The stops since the PM's word, with this one, unless the PM spoke while it ran; of a task, all."""
    before = Stops()
    try:
        main = context.page.look().commit
        if task:
            before = stops_of_task(context.git, main, task, context.state.memory.unsent)
            return Stops(before.runs + 1, time.time(), reason.value)
        if pm_has_moved(context.git, began_at, main):
            return Stops(0, time.time(), reason.value)
        before = stops_since_word(context.git, main, context.state.memory.unsent)
    except GitError as error:
        context.log.warning("tries.not_counted", error=str(error))
    return Stops(before.runs + 1, time.time(), reason.value)


def report_end(context: Cell, tasks: Sequence[Directive], why: str, text: str) -> None:
    """Report that work on directives stopped, and why."""
    title = report_titles.stopped(context.boot.branch, context.head_or_boot(), _subject(tasks), why)
    context.page.report(title, text, about=directive_ids(tasks))


def _subject(tasks: Sequence[Directive]) -> str:
    return tasks[0].text if len(tasks) == 1 else f"{first_line(tasks[0].text)} (+{len(tasks) - 1})"
