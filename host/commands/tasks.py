"""`minifram task …`: the PM's tasks for the agent."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from host.commands.options import agent_option, command
from host.context import Context
from host.display import Screen, harmless, one_line, plain

if TYPE_CHECKING:
    from host.repository.tasks import ListedTask, ShownTask, TaskList


@click.group("task")
def task() -> None:
    """Tasks for the agent, by priority and deadline; directives ('minifram tell') come before them."""


task.params.append(agent_option())


@command
@click.argument("text")
@click.option("--priority", type=click.Choice(["high", "medium", "low"]), default="medium", show_default=True)
@click.option("--deadline", default="", metavar="TIME", help="Like 2026-02-10T00:00:00Z.")
@click.option("--context", "background", default="", metavar="WORDS", help="Background and constraints.")
def add(context: Context, screen: Screen, text: str, priority: str, deadline: str, background: str) -> None:
    """Add a task to tasks/inbox.md of the branch mind, as a commit of yours.

    With '-', TEXT is read from standard input. What stands below a line '## Success criteria' in it are those.

    \b
    Examples:
      minifram task add "Write the report of the week." --priority high
      minifram task add - --deadline 2026-02-10T00:00:00Z < task.md
    """
    from host.repository.comms import directive_text
    from host.repository.open import open_as_pm
    from host.repository.tasks import MAX_BYTES, add_task
    from host.running.watcher import holder

    home = context.initialised()
    words = directive_text(text, lambda: sys.stdin.buffer.read(MAX_BYTES + 1))
    added = add_task(open_as_pm(context), words, priority, deadline, background)
    for problem in added.problems:
        screen.progress(harmless(problem))
    if holder(home.places.watcher_lock) is None:
        screen.progress("the agent is not running; the task waits for it: 'minifram up'")
    screen.show(plain(added), [f"added  {added.commit[:12]} task {added.id}"])


@command
@click.option("-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="Of answered tasks.")
def tasks(context: Context, screen: Screen, number: int) -> None:
    """List what is active, open and blocked, and the last tasks that have their answer."""
    from host.repository.open import open_repository
    from host.repository.tasks import list_tasks

    found = list_tasks(open_repository(context.initialised()), time.time(), number)
    screen.show(plain(found), _listed(found, screen))
    if not found.tasks:
        screen.advise("there is no task: 'minifram task add' gives the agent one")


def _listed(found: TaskList, screen: Screen) -> Iterator[str]:
    for problem in found.problems:
        yield f"{screen.bad('problem')}  {one_line(problem, 300)}"
    yield from (_line(each, screen) for each in found.tasks)


def _line(each: ListedTask, screen: Screen) -> str:
    state = f"{each.state:<9}"
    shown = screen.bad(state) if each.state in ("blocked", "failed") else state
    more = " · ".join(
        filter(None, (each.priority, each.deadline and f"until {each.deadline}", one_line(each.date, 20)))
    )
    return f"{each.id}  {shown}  {one_line(each.words, 100)}  ({more})"


@command
@click.argument("id")
def show(context: Context, screen: Screen, id: str) -> None:
    """Show a task and the agent's answer to it."""
    from host.repository.open import open_repository
    from host.repository.tasks import show_task

    found = show_task(open_repository(context.initialised()), id)
    screen.show(plain(found), _shown(found, screen))
    if found.state == "blocked":
        screen.advise(f"'minifram tell \"{found.id}: …\"' answers its question")


def _shown(found: ShownTask, screen: Screen) -> Iterator[str]:
    yield f"{screen.strong(found.id)}  {found.state}{f'  {found.path}' if found.path else ''}"
    if found.answer:
        yield from ("", harmless(found.answer.rstrip()))
    elif found.task:
        yield from ("", harmless(found.task.rstrip()))


@command
@click.argument("id")
@click.argument("why", default="")
def cancel(context: Context, screen: Screen, id: str, why: str) -> None:
    """Take a task out of the inbox; a run that works on it is told."""
    from host.repository.open import open_as_pm
    from host.repository.tasks import cancel_task, known_id

    commit = cancel_task(open_as_pm(context), id, why)
    screen.show({"commit": commit, "id": known_id(id)}, [f"cancelled  {commit[:12]} task {known_id(id)}"])


task.add_command(add)
task.add_command(tasks, "list")
task.add_command(show)
task.add_command(cancel)
