"""One run: one piece of work in one conversation, from the runner's briefing to a report on main.

A run that the model ends with words is reported, and what it was for is ticked in the same commit. One that is cut
short is reported and leaves it open; the table of waits says when it is begun again."""

from __future__ import annotations

import time
from functools import partial

from msgspec.structs import replace

from infra.cell.cell import TENDING_SECONDS, Cell, ask_seconds
from infra.cell.clones import remove_merged
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.context import COMPACT, Room
from infra.cell.loop.images import with_images
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.record import Acted, Answered, Compacted, Ended, Entered, Line, NotRecorded
from infra.cell.loop.ways import News
from infra.cell.mind import notes, preflight
from infra.cell.mind.mind import MindRun
from infra.cell.page import PageSeen
from infra.cell.policy.gate import gate_of, nobody
from infra.cell.run import approvals
from infra.cell.run.news import RunNews
from infra.cell.run.opening import open_run
from infra.cell.run.patience import next_wait
from infra.cell.run_states import StopReason
from infra.cell.services.services import end_all_but, reap
from infra.cell.status import WAITING, WORKING
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.files import file_tools
from infra.cell.tools.hop import hop_tools
from infra.cell.tools.spill import digest_of
from infra.cell.tools.tool import Position, Toolbox
from infra.cell.tools.web import web_tools
from infra.cell.waits import MODEL, Wait, after, review_of
from infra.cell.wakes import Wakes
from infra.cell.work.directives import awaits_review
from infra.cell.work.work import Over, Work, WorkSource, wait_of
from infra.shared.clock import timestamp
from infra.shared.conversation import EXPLORATION, Completion, Request, Text
from infra.shared.repository.git import GitError
from infra.shared.text import first_line

MOST_NAMED = 20


class WorkRun:
    """One run, on one piece of work."""

    def __init__(self, cell: Cell, seen: PageSeen, work: Work, source: WorkSource, wakes: Wakes) -> None:
        """Raises GitError, OSError."""
        self._cell, self._seen, self._source, self._started_at = cell, seen, source, time.time()
        self._position = Position(label=work.label)
        self._mind = MindRun(cell, self._position)
        remove_merged(cell, seen.commit)
        limits, web, checkout = cell.boot.limits, cell.boot.places.web_socket, cell.checkout
        # Nobody waits for what the agent explores: its questions would stay open, and keep those of work from being
        # asked. What a shell leaves is no call of the model, which would be told of the answer.
        ask = nobody if work.label == EXPLORATION else partial(approvals.ask, cell, work.id)
        minds = self._mind.tools()
        tools = (
            *file_tools(checkout, limits.output_chars),
            bash_tool(checkout, limits.bash_seconds, limits.output_chars, cell.interruption, web, self._position),
            *web_tools(checkout, web, self._position, limits, cell.boot.places.model_socket),
            *hop_tools(cell.boot, cell.git, partial(preflight.problem, cell)),
            *minds,
        )

        def broken(error: BaseException) -> None:
            cell.log.error("act.broken", exc_info=error)

        self._toolbox = Toolbox(tools, gate_of(cell.boot.policy, checkout, ask), broken)
        self._noting = Toolbox(minds, gate_of(cell.boot.policy, checkout, nobody), broken)
        before = wait_of(cell.state.memory.waits, work)
        self._start = start = open_run(cell, seen, work, self._toolbox, self._mind.reads, before.run)
        self._before = replace(before, why="", until=0.0, run=start.name, asks=())
        self._news = RunNews(cell, wakes, seen, work, source, self._start)
        self._unsaid = start.told
        self._model = with_images(cell.ask, checkout)
        self._until = time.monotonic() + limits.run_seconds

    def work(self) -> RunResult:
        """Until the model ends its turn or a bound is met; then it is reported."""
        cell, start, work = self._cell, self._start, self._news.work
        self._position.run, steps = start.name, start.before.steps if start.before else 0
        self._mind.begin(work.pm_words, [work.id], start.before is not None, work.label)
        cell.log.info("run.started", run=start.name, work=work.id, main=self._seen.commit, steps_on_record=steps)
        cell.status.show(WORKING, about=first_line(work.subject))
        self._source.begin(work)
        cell.state.waits_for(work.id, self._before)
        try:
            start.write(cell)
        except OSError as problem:
            result = RunResult(StopReason.NOT_RECORDED, str(problem))
        else:
            result = self._conversation()
        cell.heartbeat.beat("reporting", TENDING_SECONDS)
        end_what_is_left(cell)
        facts = {"end": result.reason.value, "steps": result.steps, "seconds": round(time.time() - self._started_at, 3)}
        failure = str(result.failure) if result.failure else None
        cell.log.info("run.finished", run=start.name, **facts, failure=failure, words=first_line(result.text))
        self._end(result._replace(text=result.text + self._mind.put_right()))
        return result

    def _end(self, result: RunResult) -> None:
        """Say what follows, and report it: until then the run goes on from its record, and what a crash cuts short here
        is done again by the next runner."""
        cell, start, work = self._cell, self._start, self._news.work
        wait = self._wait(result)
        told = self._source.end(work, Over(start.name, result, wait, self._seen.document, start.record.lines))
        try:
            start.record.append(Ended(result.reason.value, result.steps, str(result.failure or "")))
        except NotRecorded as problem:
            cell.log.warning("run.end_not_recorded", error=str(problem))
        if told:
            end = f"{start.name} {result.steps} {told.title}"  # the same for a run that ends again
            id = digest_of(end.encode(errors="replace"))[:32]
            cell.page.add(told.title, told.text, told.ticks, told.tasks, told.about, id)
        self._source.close(told)  # behind the report, or a crash between the two would lose it
        is_away = result.reason is StopReason.MODEL_UNAVAILABLE and work.label != EXPLORATION
        tick = cell.boot.limits.work_seconds
        # Before the PM reads the report: what is said then is for another run.
        cell.state.waits_for(work.id, wait)
        cell.state.waits_for(MODEL, after(Wait(), result.reason, time.time(), tick) if is_away else Wait())
        if not (told and told.tasks):
            cell.page.send()
        self._mind.end(result)
        cell.page.send()  # that a task is done, the keep sees in the mind

    def _conversation(self) -> RunResult:
        """The loop; from where its record says that it stands."""
        opened, limits = self._start.opened, self._cell.boot.limits
        task = Task(opened.request, opened.acts, self._start.before)
        room = Room(limits.context_tokens, self._news.all_words)
        context = TaskContext(
            self._answer, self._toolbox.call, self._told, self._record, lambda: bool(self._news.asks()), room
        )
        return run_task(task, RunConfig(opened.most_steps, limits.run_seconds), context)

    def _record(self, event: Line) -> None:
        if isinstance(event, Entered):
            self._position.step = event.step
            self._cell.status.change(state=event.state.value, steps=event.step)
            self._mind.record(event)
            return
        self._start.record.append(event)
        self._beat()
        self._mind.record(event)
        match event:
            case Acted(tool_name="bash"):
                self._note_what_was_left(event)
            case Answered(completion=completion) | Compacted(answer=Completion() as completion):
                self._news.spent(completion.spent)

    def _beat(self) -> None:
        """Some tools, and a look for new directives, are git calls."""
        self._cell.heartbeat.beat("working", max(self._cell.boot.limits.bash_seconds, TENDING_SECONDS))

    def _note_what_was_left(self, behind: Acted) -> None:
        for call in notes.taken(self._cell.boot.places.mind):
            self._beat()
            began = time.monotonic()
            result = self._noting.call(call)
            self._mind.record(Acted.of(behind.step_id, call, result, time.monotonic() - began))

    def _told(self) -> News:
        if self._cell.services:
            reap(self._cell.services.pids)
        new, first, self._unsaid = self._news.words(), self._unsaid, ""
        return News(new.pm, "\n\n".join(filter(None, (first, new.runtime))))

    def _answer(self, request: Request) -> Completion:
        is_summary = request.messages[-1].content[-1:] == (Text(COMPACT),)
        return (None if is_summary else self._news.makes()) or self._ask(request)

    def _ask(self, request: Request) -> Completion:
        """The model, again and again while its failure may pass. Raises ModelFailure, Interrupted."""
        cell, failures, waited = self._cell, 0, 0.0
        while True:
            cell.heartbeat.beat("asking the model", ask_seconds(cell.boot))
            try:
                completion = self._model(request)
            except ModelFailure as failure:
                seconds = next_wait(failures, waited, failure, self._until - time.monotonic())
                cell.log.warning("model.failed", error=str(failure), next_try_in=seconds)
                cell.status.change(last_error=str(failure))
                if seconds is None:
                    raise
                failures, waited = failures + 1, waited + seconds
                cell.heartbeat.beat("waiting for the model", seconds)
                cell.status.change(doing=WAITING, until=timestamp(time.time() + seconds))
                if self._news.wait(seconds):
                    raise Interrupted from None
            else:
                if failures:
                    cell.status.change(doing=WORKING, until="", last_error="")
                return completion

    def _wait(self, result: RunResult) -> Wait:
        """How this work waits from now on."""
        cell, reason = self._cell, result.reason
        before = replace(self._before, digest=self._news.work.digest)
        if reason is StopReason.MODEL_UNAVAILABLE:
            return before
        if reason is StopReason.AWAITING_APPROVAL:
            return replace(before, why=reason.value, until=None, asks=self._news.asks())
        if reason is StopReason.HANDED_OVER:
            acts = (line for line in self._start.record.lines if isinstance(line, Acted) and line.hands_over)
            return replace(before, why=reason.value, branch=str(next(acts).args.get("branch", "")), run="")
        if reason is StopReason.COMPLETED and before.branch:
            try:
                if awaits_review(cell.git, cell.page.look().document, before.branch):
                    return review_of(before)
            except GitError as error:
                cell.log.warning("page.not_read", error=str(error))
        return after(before, reason, time.time(), cell.boot.limits.work_seconds)


def end_what_is_left(cell: Cell) -> None:
    """Every process that is nobody's: of a run, or of a service that left it. A runner that is asked to end leaves
    that to the watcher."""
    services = cell.services
    if services is None or cell.interruption.asked:
        return
    try:
        ended = end_all_but(services.pids)
    except Exception as error:  # the work is done, and is reported
        cell.log.error("run.leftovers_not_ended", exc_info=error)
        return
    if ended:
        cell.log.info("run.leftovers_ended", processes=ended[:MOST_NAMED])
