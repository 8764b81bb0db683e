"""One run: one piece of work in one conversation, from the runner's briefing to a report on main.

A run that the model ends with words is reported, and what it was for is ticked in the same commit. One that is cut
short is reported and leaves it open; the table of waits says when it is begun again."""

from __future__ import annotations

import time

from msgspec.structs import replace

from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.clones import remove_merged
from infra.cell.loop.context import COMPACT, Room
from infra.cell.loop.images import with_images
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.record import Acted, Answered, Compacted, Ended, Entered, Line, NotRecorded
from infra.cell.loop.ways import News
from infra.cell.mind import notes
from infra.cell.mind.mind import MindRun
from infra.cell.mind.tasks import TaskEvidence
from infra.cell.page import PageSeen
from infra.cell.policy.gate import gate_of, nobody
from infra.cell.run.approvals import Approvals
from infra.cell.run.evidence import commits_since, evidence, tips
from infra.cell.run.news import RunNews
from infra.cell.run.opening import Opening, open_run
from infra.cell.run.patience import ask_patiently
from infra.cell.run_states import StopReason
from infra.cell.services import processes
from infra.cell.status import WORKING
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.files import file_tools
from infra.cell.tools.hop import hop_tools
from infra.cell.tools.tool import Position, Toolbox
from infra.cell.tools.web import web_tools
from infra.cell.waits import MODEL, Wait, after, review_of
from infra.cell.wakes import Wakes
from infra.cell.work.directives import awaits_review, pm_has_moved
from infra.cell.work.of_mind import mind_context
from infra.cell.work.work import Over, Work, WorkSource, wait_of
from infra.shared.approvals import open_answers
from infra.shared.boot import TOOLS
from infra.shared.clock import began
from infra.shared.conversation import EXPLORATION, Completion, Request, Text
from infra.shared.repository.git import GitError
from infra.shared.requests import TaintedBy
from infra.shared.text import first_line

MOST_NAMED = 20


def work_on(
    cell: Cell, seen: PageSeen, work: Work, source: WorkSource, wakes: Wakes, is_first: bool = True
) -> RunResult:
    """Work until the model ends its turn or a bound is met, and report. `is_first`: of this runner. Raises GitError,
    OSError before the first model call only."""
    started_at, tick = time.time(), cell.boot.limits.work_seconds
    before = wait_of(cell.state.memory.waits, work)
    approvals = Approvals(cell, work.id, seen)
    # Nobody waits for what the agent explores: its questions would stay open, and keep those of work from being asked.
    gate = gate_of(cell.boot.policy, cell.checkout, nobody if work.label == EXPLORATION else approvals.ask)

    def on_bug(error: BaseException) -> None:
        cell.log.error("act.broken", exc_info=error)

    position = Position()
    mind = MindRun(mind_context(cell, position), position)
    remove_merged(cell, seen.commit)

    limits, web = cell.boot.limits, cell.boot.places.web_socket
    tools = (
        *file_tools(cell.checkout, limits.output_chars),
        bash_tool(cell.checkout, limits.bash_seconds, limits.output_chars, cell.interruption, web, position),
        *web_tools(cell.checkout, web, limits.output_chars, position),
        *hop_tools(cell.boot, cell.git, mind.preflight),
        *mind.tools(),
    )
    toolbox = Toolbox(tools, gate, on_bug)

    is_answered = not open_answers(seen.document).keys().isdisjoint(before.asks)
    start = open_run(cell, seen, work, toolbox, is_first, mind.reads, before.run if is_answered else "")
    position.run = start.name
    mind.begin(work.pm_words, [work.id], start.before is not None, work.label)
    cell.log.info("run.started", run=start.name, work=work.id, main=seen.commit, steps_on_record=start.steps)
    cell.status.show(WORKING, about=first_line(work.subject))
    news = RunNews(cell, wakes, seen, work, source, approvals, start.before is not None)
    approvals.makes_calls = start.acts == TOOLS
    approvals.recall(start.record.lines)
    refs = tips(cell)
    source.begin(work, start.name)
    try:
        start.write(cell)
        result = _conversation(cell, start, toolbox, position, news, approvals, mind)
    except NotRecorded as problem:
        result = RunResult(StopReason.NOT_RECORDED, str(problem))
    cell.heartbeat.beat("reporting", TENDING_SECONDS)
    end_what_is_left(cell)
    facts = {"end": result.reason.value, "steps": result.steps, "seconds": round(time.time() - started_at, 3)}
    failure = str(result.failure) if result.failure else None
    cell.log.info("run.finished", run=start.name, **facts, failure=failure, words=first_line(result.text))
    result = result._replace(text=result.text + mind.put_right())

    def did() -> TaskEvidence:
        return evidence(start.name, start.record.lines, commits_since(cell, refs))

    work = news.work
    wait = _wait(cell, seen, work, result, before, start, approvals.asks)
    others = [id for key, each in cell.state.memory.waits.items() if key != work.id for id in each.asks]

    def taint() -> TaintedBy:
        return cell.keep.taint(began(start.name) or started_at)

    over = Over(start.name, result, wait, seen.document, did, taint, approvals.answers(others))
    told = source.end(work, over)
    if told:
        cell.page.add(told.title, *told[1:])
    if told and not told.tasks:
        cell.page.send()
    mind.end(result)
    if told and told.tasks:
        cell.page.send()  # behind the mind: then the keep sees there that the task is done
    end = Ended(result.reason.value, result.steps, failure or "")
    try:
        start.record.append(end)  # behind all that: what has no end is resumed, and at worst its report comes again
    except NotRecorded as problem:
        cell.log.warning("run.end_not_recorded", error=str(problem))
    is_away = result.reason is StopReason.MODEL_UNAVAILABLE and work.label != EXPLORATION
    cell.state.waits_for(work.id, wait)
    cell.state.waits_for(MODEL, after(Wait(), result.reason, time.time(), tick) if is_away else Wait())
    return result


def end_what_is_left(cell: Cell) -> None:
    """Every process that is nobody's: of a run, or of a service that left it. A runner that is asked to end leaves
    that to the watcher."""
    services = cell.services
    if services is None or cell.interruption.asked:
        return
    try:
        ended = processes.end_all_but(services.pids)
    except Exception as error:  # the work is done, and is reported
        cell.log.error("run.leftovers_not_ended", exc_info=error)
        return
    if ended:
        cell.log.info("run.leftovers_ended", processes=ended[:MOST_NAMED])


def _conversation(
    cell: Cell,
    start: Opening,
    toolbox: Toolbox,
    position: Position,
    news: RunNews,
    approvals: Approvals,
    mind: MindRun,
) -> RunResult:
    """The loop; from where its record says that it stands."""
    limits = cell.boot.limits
    first = [start.told]

    def record(event: Line) -> None:
        if isinstance(event, Entered):
            position.step = event.step
            cell.status.change(state=event.state.value, steps=event.step)
            mind.record(event)
            return
        start.record.append(event)
        # Some tools, and a look for new directives, are git calls.
        cell.heartbeat.beat("working", max(limits.bash_seconds, TENDING_SECONDS))
        mind.record(event)
        if isinstance(event, Acted) and event.tool_name == "bash":
            note_what_was_left(event)
        match event:
            case Answered(completion=completion) | Compacted(answer=Completion() as completion):
                news.spent(completion.spent)

    def note_what_was_left(after: Acted) -> None:
        for call in notes.taken(cell.boot.places.mind):
            cell.heartbeat.beat("working", max(limits.bash_seconds, TENDING_SECONDS))
            began = time.monotonic()
            result = toolbox.call(call)
            mind.record(Acted.of(after.step_id, call, result, time.monotonic() - began))

    def told() -> News:
        if cell.services:
            processes.reap(cell.services.pids)
        new = news.words()
        return News(new.pm, "\n\n".join(filter(None, (first.pop() if first else "", new.runtime))))

    until = time.monotonic() + limits.run_seconds
    ask = ask_patiently(cell, with_images(cell.ask_in_time, cell.checkout), news.wait, until)
    room = Room(limits.context_tokens, news.all_words)
    task, config = (
        Task(start.request, start.acts, start.before),
        RunConfig(start.most_steps(limits), limits.run_seconds),
    )

    def answer(request: Request) -> Completion:
        is_summary = request.messages[-1].content[-1:] == (Text(COMPACT),)
        return (None if is_summary else approvals.makes()) or ask(request)

    return run_task(task, config, TaskContext(answer, toolbox.call, told, record, approvals.awaits, room))


def _wait(
    cell: Cell,
    seen: PageSeen,
    work: Work,
    result: RunResult,
    before: Wait,
    start: Opening,
    asks: tuple[str, ...],
) -> Wait:
    """How this work waits from now on."""
    now, has_spoken = time.time(), False
    before = replace(before, digest=work.digest)
    try:
        page = cell.page.look()
        has_spoken = pm_has_moved(cell.git, seen.commit, page.commit)
        is_over = result.reason is StopReason.COMPLETED and before.branch
        if is_over and awaits_review(cell.git, page.document, before.branch):
            return review_of(before)
    except GitError as error:
        cell.log.warning("page.not_read", error=str(error))
    is_away = result.reason is StopReason.MODEL_UNAVAILABLE
    wait = before if is_away else after(before, result.reason, now, cell.boot.limits.work_seconds, has_spoken)
    if asks:  # however it ended: no other work ticks their answers
        wait = replace(wait, run=start.name, asks=asks)
    if result.reason is StopReason.HANDED_OVER:
        acts = (line for line in start.record.lines if isinstance(line, Acted) and line.hands_over)
        return replace(wait, branch=str(next(acts).args.get("branch", "")))
    return wait
