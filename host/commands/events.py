"""The command on what the agent did, event by event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from host.commands.options import command
from host.context import Context
from host.display import Screen, counted, one_line, plain
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.events import ChainChecked
    from infra.shared.mind.event import MindEvent

TYPES = ("skill_execution", "task_update", "self_modification", "error", "note")
WORDS_CHARS = 200
FILES_SHOWN = 5


@command
@click.option("--task", metavar="ID", default="", help="Of runs about this task or directive.")
@click.option("--type", "kind", type=click.Choice(TYPES), help="Of this type.")
@click.option("--since", metavar="TIME", default="", help="Not older: 30min, 12h, 2d, a date, or a whole time.")
@click.option("--run", metavar="RUN", default="", help="Of this run; the beginning of its name is enough.")
@click.option("--tail", "last", type=click.IntRange(min=1), default=50, show_default=True, help="Only the last ones.")
@click.option("-f", "--follow", "follows", is_flag=True, help="Print new events as they come; end with Ctrl-C.")
@click.option("--verify", "verifies", is_flag=True, help="Check the chain of events instead of showing them.")
@click.option("--accept", "accepts", is_flag=True, help="With --verify: go on from the chain as it is now.")
def events(
    context: Context,
    screen: Screen,
    task: str,
    kind: str | None,
    since: str,
    run: str,
    last: int,
    follows: bool,
    verifies: bool,
    accepts: bool,
) -> int:
    """What the agent did, event by event: commands with exit status, changed files, notes, errors, and where each run
    and task stood. Its runner writes them, not the model.

    With --verify: whether one was changed, added or removed since; exits with 8 when that is so. Each event holds a
    hash over itself and the one before it, and the keep notes the last one of each run. What is behind the last note
    (the run under way, or one that was cut short) could have been rewritten as a whole.

    With --accept as well: events that are lost (with the clone, or as an older backup was restored) are lost. What the
    keep noted until now does not count any more, and stays in its record.

    \b
    Examples:
      minifram events --tail 20
      minifram events --task TASK-001 --since 2d
      minifram events --type error --json
      minifram events --verify
      minifram events --verify --accept
    """
    import time

    from host.agent.events import Chosen, accept, check, follow, read, since_of

    home = context.initialised()
    if verifies:
        if task or kind or since or run or follows:
            raise click.UsageError("--verify looks at all events: leave out what chooses some")
        found = accept(home, time.time()) if accepts else check(home)
        screen.show(plain(found), _checked(found, screen))
        if found.findings and not accepts:
            screen.advise("a backup may hold what is lost; 'minifram events --verify --accept' goes on without it")
        return Exit.FINDINGS if found.findings else Exit.OK
    if accepts:
        raise click.UsageError("--accept goes with --verify")
    chosen = Chosen(task, kind or "", since_of(since, time.time()), run)
    if follows:
        for event in follow(home, chosen, last):
            screen.show(event, shown(event, screen), "event", verbatim=True)
        return Exit.OK
    got = read(home, chosen, last)
    lines = (line for event in got.events for line in shown(event, screen))
    screen.show({"events": plain(got.events), "problems": plain(got.problems)}, lines, verbatim=True)
    for problem in got.problems[:FILES_SHOWN]:
        screen.advise(one_line(str(problem), WORDS_CHARS))
    if not got.events:
        chose = any(chosen)
        screen.advise("no event is like that; leave out a condition" if chose else "no event yet: runs leave them")
    return Exit.OK


def shown(event: MindEvent, screen: Screen) -> Iterator[str]:
    """For people: what, how it ended, how long it took; the rest stands below it."""
    meta, did = event.metadata, event.execution
    what = meta.tool or event.event_type
    codes = "".join(f" [{code}]" for code in did.exit_codes)
    took = f" {did.duration_ms} ms" if meta.tool else ""
    place = one_line(f"{event.run_id}/{event.step_id}" if event.step_id else event.run_id, 60)
    about = f" {one_line(event.context.task_id or '', 40)}" if event.context.task_id else ""
    status = one_line(meta.status, 40)
    head = f"{one_line(event.timestamp, 30)} {one_line(event.event_type, 20):<17} {one_line(what, 40)} {status}{codes}"
    yield f"{screen.bad(head) if event.event_type == 'error' else head}{took} {screen.faint(place + about)}"
    for each in did.commands:
        script = each.args[-1] if each.cmd == "bash" and each.args else " ".join((each.cmd, *each.args))
        yield f"    $ {one_line(script, WORDS_CHARS)}"
    changed = event.outcomes.files_modified
    for file in changed[:FILES_SHOWN]:
        yield f"    {one_line(file.path, WORDS_CHARS)} {one_line(file.hash_after, 19)}"
    if len(changed) > FILES_SHOWN:
        yield f"    and {counted(len(changed) - FILES_SHOWN, 'more file')}"
    said = [str(meta.details[key]) for key in ("subject", "statement", "path", "url", "query") if meta.details.get(key)]
    if said:
        yield f"    {one_line(': '.join(said), WORDS_CHARS)}"
    if event.event_type in ("error", "task_update") and event.outcomes.observations:
        yield f"    {one_line(event.outcomes.observations, WORDS_CHARS)}"


def _checked(found: ChainChecked, screen: Screen) -> Iterator[str]:
    there = f"{found.events:,} in {counted(found.files, 'file')}"
    noted = counted(found.heads, "run") if found.heads else "no run"
    yield f"{screen.strong('events')}   {there}; the keep has noted the end of {noted}"
    if found.torn:
        yield f"         {counted(found.torn, 'line')} cut short, as by a power cut; passed over"
    yield from (f"{screen.bad('finding')}  {one_line(str(finding), 300)}" for finding in found.findings)
    if not found.findings:
        yield f"{screen.good('whole')}    last {found.last or 'none: no event yet'}"
